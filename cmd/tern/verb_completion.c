/* tern completion, and tern man for the build. */
#include "cmd/tern/cache.h"
#include "cmd/tern/describe/describe.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cache that is not there yet has no names. One that is no model's name would be two lines, or
 * drive the terminal. */
static void print_models(void)
{
    struct cache_entry *entries;
    struct tern_error error;
    size_t count;
    if (cache_list(&entries, &count, &error) != TERN_OK)
        count = 0;
    for (size_t i = 0; i < count; i++)
        if (cache_check_name(entries[i].name, &error) == TERN_OK)
            printf("%s\n", entries[i].name);
    free(entries);
}

struct text {
    const char *name;
    void (*print)(void);
};

/* Prints the text that the only argument names; the texts end with a NULL name. */
static int print_named(const struct verb *verb, int argc, char **argv, const struct text *text)
{
    const struct option options[] = {{0}};
    struct tern_error error;
    int code;
    if (!options_begin(verb, options, &argc, argv, 1, 1, &code))
        return code;
    for (; text->name != NULL; text++) {
        if (strcmp(text->name, argv[0]) != 0)
            continue;
        text->print();
        return 0;
    }
    tern_fail(&error, TERN_USAGE, "'%s' is none of them; usage: tern %s %s", argv[0], verb->name,
              verb->arguments);
    return complain(&error);
}

int verb_completion(const struct verb *verb, int argc, char **argv)
{
    static const struct text texts[] = {
        {"bash", describe_bash},
        {"zsh", describe_zsh},
        {"fish", describe_fish},
        {"models", print_models},
        {0},
    };
    return print_named(verb, argc, argv, texts);
}

int verb_man(const struct verb *verb, int argc, char **argv)
{
    static const struct text texts[] = {
        {"tern", describe_man_tern},
        {"ternd", describe_man_ternd},
        {0},
    };
    return print_named(verb, argc, argv, texts);
}
