#include "cmd/tern/describe/describe.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool takes_names(const struct verb *verb)
{
    return begins(verb->arguments, "MODEL") || begins(verb->arguments, "NAME");
}

bool takes_models(const struct verb *verb)
{
    return begins(verb->arguments, "MODEL") || begins(verb->arguments, "FILE");
}

bool takes_file(const struct option *option)
{
    return option->kind == OPTION_TEXT && option->choices != NULL &&
           (strcmp(option->choices, "FILE") == 0 || strcmp(option->choices, "OUT") == 0);
}

void print_escaped(const char *text, const char *special)
{
    for (; *text != '\0'; text++) {
        if (strchr(special, *text) != NULL)
            putchar('\\');
        putchar(*text);
    }
}

void print_words(const char *choices)
{
    for (; *choices != '\0'; choices++)
        putchar(*choices == '|' ? ' ' : *choices);
}

/* Two cases of the script for a verb: the values of its options, then its options. */
static void print_verb(void *context, const struct verb *verb, const struct option *options)
{
    (void)context;
    for (const struct option *o = options; o->name != NULL; o++) {
        if (o->kind == OPTION_FLAG)
            continue;
        printf("        %s:%s%s) ", verb->name, option_dashes(o), o->name);
        if (o->kind == OPTION_CHOICE) {
            printf("words='");
            print_words(o->choices);
            printf("' ;;\n");
        } else {
            printf(takes_file(o) ? "files='*' ;;\n" : ";;\n");
        }
    }
    printf("        %s:*) words='--help", verb->name);
    for (const struct option *o = options; o->name != NULL; o++)
        printf(" %s%s", option_dashes(o), o->name);
    printf("'");
    if (takes_names(verb) || takes_models(verb))
        printf("; [[ $word == -* ]] || { names=%d; files='%s'; }", takes_names(verb),
               takes_models(verb) ? "*.gguf" : "");
    if (strcmp(verb->name, "completion") == 0)
        printf("; [[ $word == -* ]] || words='bash zsh fish models'");
    printf(" ;;\n");
}

/* Names of files are never given to compgen -W, which would run commands that stand in them, nor
 * split into words. */
void describe_bash(void)
{
    size_t count;
    const struct verb *verbs = all_verbs(&count);
    printf("# bash completion for tern, written by `tern completion bash`\n"
           "_tern()\n{\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local words= names=0 files= name\n"
           "    COMPREPLY=()\n"
           "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
           "        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < count; i++)
        printf("%s ", verbs[i].name);
    printf("--help --version' -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]}:$before in\n");
    for (size_t i = 0; i < count; i++)
        options_visit(&verbs[i], print_verb, NULL);
    printf("    esac\n"
           "    while IFS= read -r name; do\n"
           "        [[ -n $name && $name == \"$word\"* ]] && COMPREPLY+=(\"$name\")\n"
           "    done < <([[ $names = 0 ]] || tern completion models 2>/dev/null)\n"
           "    while IFS= read -r name; do\n"
           "        COMPREPLY+=(\"$name\")\n"
           "    done < <([[ -z $files ]] || { compgen -f -X \"!$files\" -- \"$word\"\n"
           "                                 [[ $files = '*' ]] || compgen -d -- \"$word\"; })\n"
           "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
           "    [[ $names = 0 && -z $files ]] || compopt -o filenames 2>/dev/null\n"
           "}\n"
           "complete -F _tern tern\n");
}
