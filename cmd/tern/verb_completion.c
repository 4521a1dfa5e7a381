/* tern completion, and tern man for the build. */
#include "cmd/tern/describe/describe.h"
#include "cmd/tern/models.h"
#include "cmd/tern/verbs.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* A cache that is not there yet has no names. */
static void print_models(void)
{
    char folder[4096];
    struct tern_error error;
    if (models_folder(folder, sizeof folder, &error) != TERN_OK)
        return;
    DIR *models = opendir(folder);
    if (models == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(models)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (entry->d_name[0] != '.' && length > 5 &&
            strcmp(entry->d_name + length - 5, ".gguf") == 0)
            printf("%.*s\n", (int)length - 5, entry->d_name);
    }
    closedir(models);
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
    int words;
    const enum tern_status status = options_parse(verb, options, argc, argv, &words, &error);
    if (status == TERN_INTERRUPTED)
        return 0;
    if (status != TERN_OK)
        return complain(&error);
    for (; words == 1 && text->name != NULL; text++) {
        if (strcmp(text->name, argv[0]) != 0)
            continue;
        text->print();
        return 0;
    }
    tern_fail(&error, TERN_USAGE, "usage: tern %s %s", verb->name, verb->arguments);
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
