#include "cmd/tern/describe/describe.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <string.h>

/* Text between single quotes inside one of _arguments' specifications. */
static void print_quoted(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            printf("'\\''");
        else if (strchr("[]:\\", *text) != NULL)
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void print_verb(void *context, const struct verb *verb, const struct option *options)
{
    (void)context;
    printf("        %s)\n            _arguments '--help[show what it takes]'", verb->name);
    for (const struct option *o = options; o->name != NULL; o++) {
        printf(" \\\n                '%s%s%s[", o->kind == OPTION_TEXTS ? "*" : "",
               option_dashes(o), o->name);
        print_quoted(o->help);
        printf("]");
        if (o->kind == OPTION_CHOICE) {
            printf(":value:(");
            print_words(o->choices);
            printf(")");
        } else if (o->kind != OPTION_FLAG) {
            printf(takes_file(o) ? ":file:_files" : ":value: ");
        }
        printf("'");
    }
    if (takes_names(verb) || takes_models(verb))
        printf(" \\\n                '%s:%s'", takes_names(verb) && takes_models(verb) ? "1" : "*",
               !takes_models(verb) ? "name:_tern_names"
               : takes_names(verb) ? "model:_tern_models"
                                   : "file:_files -g \"*.gguf\"");
    if (strcmp(verb->name, "completion") == 0)
        printf(" \\\n                '1:shell:(bash zsh fish models)'");
    printf("\n            ;;\n");
}

void describe_zsh(void)
{
    size_t count;
    const struct verb *verbs = all_verbs(&count);
    printf("#compdef tern\n# zsh completion for tern, written by `tern completion zsh`\n"
           "_tern_names()\n{\n"
           "    local -a names\n"
           "    names=(${(f)\"$(tern completion models 2>/dev/null)\"})\n"
           "    compadd -a names\n}\n\n"
           "_tern_models()\n{\n"
           "    _tern_names\n"
           "    _files -g '*.gguf'\n}\n\n"
           "_tern()\n{\n"
           "    local -a verbs\n"
           "    if (( CURRENT == 2 )); then\n"
           "        verbs=(\n");
    for (size_t i = 0; i < count; i++) {
        printf("            '%s:", verbs[i].name);
        print_quoted(verbs[i].summary);
        printf("'\n");
    }
    printf("        )\n"
           "        _describe verb verbs\n"
           "        return\n"
           "    fi\n"
           "    shift words\n"
           "    (( CURRENT-- ))\n"
           "    case $words[1] in\n");
    for (size_t i = 0; i < count; i++)
        options_visit(&verbs[i], print_verb, NULL);
    printf("    esac\n}\n\n_tern \"$@\"\n");
}
