/* tern ls: the models in the cache. */
#include "cmd/tern/cache.h"
#include "cmd/tern/json_output.h"
#include "cmd/tern/models.h"
#include "cmd/tern/output.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAME_COLUMN = 32 };

static json_t *list_value(const struct cache_entry *entries, size_t count, const char *folder)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char path[4096 + 256 + 8];
        snprintf(path, sizeof path, "%s/%s.gguf", folder, entries[i].name);
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:o}", "name", entries[i].name,
                                              "bytes", (json_int_t)entries[i].bytes, "modified",
                                              (json_int_t)entries[i].modified, "path",
                                              json_of_text(path)));
    }
    return list;
}

static void print_age(int64_t seconds)
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    size_t i = 0;
    seconds = seconds < 0 ? 0 : seconds;
    while (i < 3 && seconds < units[i].seconds)
        i++;
    const int64_t count = seconds / units[i].seconds;
    printf("%lld %s%s\n", (long long)count, units[i].name, count == 1 ? "" : "s");
}

static void print_table(const struct cache_entry *entries, size_t count, const char *folder)
{
    if (count == 0) {
        printf("no models in ");
        print_shown(folder);
        printf("; tern import FILE puts one there, or name files by their path\n");
        return;
    }
    printf("%-*s %9s  %s\n", NAME_COLUMN, "NAME", "MIB", "AGE");
    for (size_t i = 0; i < count; i++) {
        const int shown = print_shown(entries[i].name);
        printf("%*s %9.1f  ", shown < NAME_COLUMN ? NAME_COLUMN - shown : 0, "",
               (double)entries[i].bytes / (1 << 20));
        print_age(time(NULL) - entries[i].modified);
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
    struct cache_entry *entries = NULL;
    char folder[4096];
    size_t count = 0;
    int code;
    if (!options_begin(verb, options, &argc, argv, 0, 0, &code))
        return code;
    enum tern_status status = models_folder(folder, sizeof folder, &error);
    if (status == TERN_OK)
        status = cache_list(&entries, &count, &error);
    if (status == TERN_OK && as_json) {
        json_t *list = list_value(entries, count, folder);
        print_json(list);
        json_decref(list);
    } else if (status == TERN_OK) {
        print_table(entries, count, folder);
    }
    free(entries);
    return status == TERN_OK ? 0 : complain(&error);
}
