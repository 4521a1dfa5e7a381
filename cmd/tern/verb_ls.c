/* tern ls: the models in the cache. */
#include "cmd/tern/models.h"
#include "cmd/tern/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Names ending in .gguf, without the ending; false for anything else. */
static bool model_name(const char *file, char *name, size_t room)
{
    const size_t length = strlen(file);
    if (length <= 5 || length - 5 >= room || strcmp(file + length - 5, ".gguf") != 0)
        return false;
    memcpy(name, file, length - 5);
    name[length - 5] = '\0';
    return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* NULL when the folder cannot be read; a missing one is empty. */
static json_t *list_models(const char *folder, struct tern_error *error)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, by_name);
    if (count < 0 && errno != ENOENT) {
        tern_fail(error, TERN_FAILED, "cannot read %s: %s", folder, strerror(errno));
        return NULL;
    }
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        char path[4096 + 256], name[256];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (model_name(entries[i]->d_name, name, sizeof name) && stat(path, &info) == 0 &&
            S_ISREG(info.st_mode))
            json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s}", "name", name, "bytes",
                                                  (json_int_t)info.st_size, "modified",
                                                  (json_int_t)info.st_mtime, "path", path));
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return list;
}

static void print_table(const json_t *list, const char *folder)
{
    size_t i;
    json_t *item;
    if (json_array_size(list) == 0) {
        printf("no models in %s; put .gguf files there, or name them by their path\n", folder);
        return;
    }
    printf("%-32s %9s  %s\n", "NAME", "MIB", "AGE");
    json_array_foreach(list, i, item)
    {
        const double mib =
            (double)json_integer_value(json_object_get(item, "bytes")) / (1024.0 * 1024.0);
        const long long days =
            (time(NULL) - json_integer_value(json_object_get(item, "modified"))) / 86400;
        printf("%-32s %9.1f  %lld days\n", json_string_value(json_object_get(item, "name")), mib,
               days);
    }
}

int verb_ls(const struct verb *verb, int argc, char **argv)
{
    bool as_json = false;
    const struct option options[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON", 0, 0, NULL},
        {0},
    };
    struct tern_error error = {0};
    char folder[4096];
    int positionals;
    enum tern_status status = options_parse(verb, options, argc, argv, &positionals, &error);
    if (status == TERN_INTERRUPTED)
        return 0;
    if (status == TERN_OK && positionals > 0)
        status = tern_fail(&error, TERN_USAGE, "ls takes no arguments");
    if (status == TERN_OK)
        status = models_folder(folder, sizeof folder, &error);
    if (status != TERN_OK)
        return complain(&error);
    json_t *list = list_models(folder, &error);
    if (list == NULL)
        return complain(&error);
    if (as_json) {
        json_dumpf(list, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else
        print_table(list, folder);
    json_decref(list);
    return 0;
}
