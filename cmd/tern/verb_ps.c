/* tern ps: the service's processes and models. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "-";
}

static long long number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void print_table(const json_t *ps)
{
    size_t i;
    json_t *item;
    printf("%-12s %8s  %-12s %s\n", "PROCESS", "PID", "STATE", "RESTARTS");
    printf("%-12s %8lld  %-12s\n", "coordinator",
           number_of(json_object_get(ps, "coordinator"), "pid"), "running");
    json_array_foreach(json_object_get(ps, "workers"), i, item)
        printf("%-12s %8lld  %-12s %lld\n", text_of(item, "role"), number_of(item, "pid"),
               text_of(item, "state"), number_of(item, "restarts"));
    if (json_array_size(json_object_get(ps, "models")) == 0)
        return;
    printf("\n%-10s %9s %8s  %s\n", "STATE", "CONTEXT", "MIB", "MODEL");
    json_array_foreach(json_object_get(ps, "models"), i, item)
        printf("%-10s %9lld %8lld  %s\n", text_of(item, "state"), number_of(item, "context"),
               number_of(item, "mib"), text_of(item, "model"));
}

int verb_ps(const struct verb *verb, int argc, char **argv)
{
    bool as_json = false;
    const struct option options[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON", 0, 0, NULL},
        {0},
    };
    struct client client;
    struct tern_pack pack;
    struct result result = {0};
    struct tern_error error = {0};
    int code;
    if (!begin_idle_verb(verb, options, &argc, argv, 0, NULL, &client, &code))
        return code;
    client_begin(&client, &pack, TERN_MSG_PS);
    const enum tern_status status = client_call(&client, &pack, take_result, &result, &error);
    client_close(&client);
    if (status == TERN_OK && as_json) {
        json_dumpf(result.json, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else if (status == TERN_OK)
        print_table(result.json);
    free(result.text);
    json_decref(result.json);
    return status == TERN_OK ? 0 : complain(&error);
}
