/* tern ls: the models in the cache. */
#include "cmd/tern/cache.h"
#include "cmd/tern/models.h"
#include "cmd/tern/output.h"
#include "cmd/tern/verbs.h"
#include "proto/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *list_value(const struct cache_entry *entries, size_t count, const char *folder)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char path[4096 + 256 + 8];
        snprintf(path, sizeof path, "%s/%s.gguf", folder, entries[i].name);
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s}", "name", entries[i].name,
                                              "bytes", (json_int_t)entries[i].bytes, "modified",
                                              (json_int_t)entries[i].modified, "path", path));
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

/* Names of files must not command the terminal. */
static void print_name(const char *name)
{
    int shown = 0;
    for (; *name != '\0'; shown++) {
        const size_t control = tern_utf8_control(name);
        putchar(control > 0 ? '?' : *name);
        name += control > 0 ? control : 1;
    }
    printf("%*s", shown < 32 ? 32 - shown : 0, "");
}

static void print_table(const struct cache_entry *entries, size_t count, const char *folder)
{
    if (count == 0) {
        printf("no models in %s; tern import FILE puts one there, or name files by their path\n",
               folder);
        return;
    }
    printf("%-32s %9s  %s\n", "NAME", "MIB", "AGE");
    for (size_t i = 0; i < count; i++) {
        print_name(entries[i].name);
        printf(" %9.1f  ", (double)entries[i].bytes / (1 << 20));
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
    int positionals;
    enum tern_status status = options_parse(verb, options, argc, argv, &positionals, &error);
    if (status == TERN_INTERRUPTED)
        return 0;
    if (status == TERN_OK && positionals > 0)
        status = tern_fail(&error, TERN_USAGE, "ls takes no arguments");
    if (status == TERN_OK)
        status = models_folder(folder, sizeof folder, &error);
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
