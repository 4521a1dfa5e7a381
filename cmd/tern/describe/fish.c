#include "cmd/tern/describe/describe.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <string.h>

static void print_verb(void *context, const struct verb *verb, const struct option *options)
{
    (void)context;
    printf("complete -c tern -f -n __fish_use_subcommand -a %s -d '", verb->name);
    print_escaped(verb->summary, "'\\");
    printf("'\n");
    for (const struct option *o = options; o->name != NULL; o++) {
        printf("complete -c tern -n '__fish_seen_subcommand_from %s' -%c %s -d '", verb->name,
               o->name[1] == '\0' ? 's' : 'l', o->name);
        print_escaped(o->help, "'\\");
        printf("'");
        if (o->kind == OPTION_CHOICE) {
            printf(" -x -a '");
            print_words(o->choices);
            printf("'");
        } else if (o->kind != OPTION_FLAG) {
            printf(takes_file(o) ? " -r -F" : " -x");
        }
        printf("\n");
    }
    if (takes_names(verb) || takes_models(verb))
        printf("complete -c tern -n '__fish_seen_subcommand_from %s' -k -a '(%s%s%s)'\n",
               verb->name, takes_names(verb) ? "tern completion models 2>/dev/null" : "",
               takes_names(verb) && takes_models(verb) ? "; " : "",
               takes_models(verb) ? "__fish_complete_suffix .gguf" : "");
}

void describe_fish(void)
{
    size_t count;
    const struct verb *verbs = all_verbs(&count);
    printf("# fish completion for tern, written by `tern completion fish`\n"
           "complete -c tern -f\n"
           "complete -c tern -n __fish_use_subcommand -l help -d 'list the verbs'\n"
           "complete -c tern -n __fish_use_subcommand -l version -d 'print the version'\n"
           "complete -c tern -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish "
           "models'\n");
    for (size_t i = 0; i < count; i++)
        options_visit(&verbs[i], print_verb, NULL);
}
