/* tern info: what a model file holds. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"
#include "proto/utf8.h"

#include <stdio.h>
#include <stdlib.h>

/* Strings come from the model file, and must not command the terminal. */
static void print_string(const char *name, const char *text)
{
    printf("%-22s ", name);
    while (*text != '\0') {
        const size_t control = tern_utf8_control(text);
        putchar(control > 0 ? '?' : *text);
        text += control > 0 ? control : 1;
    }
    putchar('\n');
}

static void print_value(const char *name, const json_t *value)
{
    if (json_is_string(value)) {
        print_string(name, json_string_value(value));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    printf("%-22s %s\n", name, text != NULL ? text : "");
    free(text);
}

int verb_info(const struct verb *verb, int argc, char **argv)
{
    bool as_json = false;
    const struct option options[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON", 0, 0, NULL},
        {0},
    };
    char path[4096];
    struct client client;
    struct tern_pack pack;
    struct result result = {0};
    struct tern_error error = {0};
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &client, &code))
        return code;
    client_begin(&client, &pack, TERN_MSG_INFO);
    tern_pack_text(&pack, TERN_F_MODEL, path);
    const enum tern_status status = client_call(&client, &pack, take_result, &result, &error);
    client_close(&client);
    if (status == TERN_OK && as_json) {
        json_dumpf(result.json, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else if (status == TERN_OK) {
        const char *name;
        json_t *value;
        json_object_foreach(result.json, name, value) print_value(name, value);
    }
    free(result.text);
    json_decref(result.json);
    return status == TERN_OK ? 0 : complain(&error);
}
