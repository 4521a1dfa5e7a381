/* tern info: what a model file holds, what it needs, and what of it is not supported. */
#include "cmd/tern/fields.h"
#include "cmd/tern/json_output.h"
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_COLUMN = 14 };

static void print_text(const json_t *info, const char *title, const char *key)
{
    if (!json_is_string(json_object_get(info, key)))
        return;
    printf("%-*s ", NAME_COLUMN, title);
    print_shown(text_of(info, key));
    putchar('\n');
}

static void print_sizes(const json_t *info)
{
    static const char *const keys[] = {"layers",    "width", "heads",  "kv_heads",
                                       "head_size", "ffn",   "window", "experts"};
    const char *between = "";
    printf("%-*s ", NAME_COLUMN, "sizes");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (number_of(info, keys[i]) > 0) {
            printf("%s%s %lld", between, keys[i], number_of(info, keys[i]));
            between = ", ";
        }
    putchar('\n');
}

static void print_head(const json_t *info)
{
    print_text(info, "file", "path");
    print_text(info, "architecture", "architecture");
    print_text(info, "name", "name");
    printf("%-*s %.1f million, %.1f MiB in the file\n", NAME_COLUMN, "parameters",
           (double)number_of(info, "parameters") / 1e6, mib_of(info, "bytes"));
    print_sizes(info);
    printf("%-*s %lld positions\n", NAME_COLUMN, "trained on", number_of(info, "context"));
    printf("%-*s %lld tokens, tokenizer ", NAME_COLUMN, "vocabulary",
           number_of(info, "vocabulary"));
    print_shown(text_of(info, "tokenizer"));
    const bool template = json_is_true(json_object_get(info, "chat_template"));
    printf("\n%-*s %s\n", NAME_COLUMN, "chat template",
           json_is_true(json_object_get(info, "chat")) ? "present"
           : template                                  ? "present, but it cannot be used"
                                                       : "none");
}

static void print_types(const json_t *info)
{
    const char *name;
    json_t *type;
    const json_t *tensors = json_object_get(info, "tensors");
    printf("\n%-*s %8s %10s\n", NAME_COLUMN, "TENSORS", "COUNT", "MIB");
    json_object_foreach(json_object_get(tensors, "types"), name, type) printf(
        "%-*s %8lld %10.1f%s\n", NAME_COLUMN, name, number_of(type, "count"), mib_of(type, "bytes"),
        json_is_true(json_object_get(type, "supported")) ? "" : "  not supported");
    printf("%-*s %8lld %10.1f\n", NAME_COLUMN, "all", number_of(tensors, "count"),
           mib_of(tensors, "bytes"));
}

static void print_memory(const json_t *info)
{
    size_t i;
    json_t *need;
    const json_t *memory = json_object_get(info, "memory");
    if (memory == NULL)
        return;
    printf("\nMiB needed at a context of so many positions; %.0f MiB may be used now%s\n",
           mib_of(memory, "available_bytes"),
           json_is_true(json_object_get(info, "loaded")) ? " (the model is loaded)" : "");
    printf("%9s  %-4s %9s %11s %9s %9s  %s\n", "CONTEXT", "KV", "WEIGHTS", "KEYS+VALUES", "BUFFERS",
           "ALL", "FITS");
    json_array_foreach(json_object_get(memory, "needs"), i, need)
        printf("%9lld  %-4s %9.1f %11.1f %9.1f %9.1f  %s\n", number_of(need, "context"),
               text_of(need, "kv"), mib_of(need, "weights_bytes"), mib_of(need, "kv_bytes"),
               mib_of(need, "buffers_bytes"), mib_of(need, "total_bytes"),
               json_is_true(json_object_get(need, "fits")) ? "yes" : "no");
    if (json_is_integer(json_object_get(memory, "default_context")))
        printf("without --ctx it gets %lld positions\n", number_of(memory, "default_context"));
}

static void print_list(const json_t *info, const char *title, const char *key)
{
    size_t i;
    json_t *item;
    const json_t *list = json_object_get(info, key);
    if (json_array_size(list) > 0)
        printf("\n%s\n", title);
    json_array_foreach(list, i, item)
    {
        printf("  ");
        print_shown(json_string_value(item));
        putchar('\n');
    }
}

static void print_metadata(const json_t *info)
{
    size_t i;
    json_t *entry;
    const json_t *list = json_object_get(info, "metadata");
    if (list != NULL)
        printf("\nMETADATA\n");
    json_array_foreach(list, i, entry)
    {
        char *value =
            json_dumps(json_object_get(entry, "value"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        print_shown(text_of(entry, "key"));
        printf(" (%s", text_of(entry, "type"));
        if (number_of(entry, "count") != 1)
            printf(" x %lld", number_of(entry, "count"));
        printf(") ");
        print_shown(value != NULL ? value : "?");
        putchar('\n');
        free(value);
    }
    if (number_of(info, "metadata_left_out") > 0)
        printf("and %lld more keys\n", number_of(info, "metadata_left_out"));
}

static void print_info(const json_t *info)
{
    print_head(info);
    print_types(info);
    print_memory(info);
    print_list(info, "NOT SUPPORTED: tern run refuses this file", "unsupported");
    print_list(info, "NOTES", "notes");
    print_metadata(info);
}

int verb_info(const struct verb *verb, int argc, char **argv)
{
    bool as_json = false, metadata = false;
    const struct option options[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON", 0, 0, NULL},
        {"metadata", OPTION_FLAG, &metadata, NULL, "list the file's keys and values too", 0, 0,
         NULL},
        {0},
    };
    char path[4096];
    struct client client;
    struct result result = {0};
    struct tern_error error = {0};
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &client, &code))
        return code;
    const enum tern_status status = ask_info(&client, path, metadata, &result, &error);
    client_close(&client);
    if (status == TERN_OK && as_json)
        print_json(result.json);
    else if (status == TERN_OK)
        print_info(result.json);
    free(result.text);
    json_decref(result.json);
    return status == TERN_OK ? 0 : complain(&error);
}
