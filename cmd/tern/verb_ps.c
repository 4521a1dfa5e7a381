/* tern ps: the service's processes and models, and what they are doing. */
#include "cmd/tern/fields.h"
#include "cmd/tern/json_output.h"
#include "cmd/tern/output.h"
#include "cmd/tern/process_memory.h"
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The client looks, since looking takes long for large processes and must not delay the service. */
static void add_memory(json_t *process)
{
    struct process_memory memory;
    const long long pid = number_of(process, "pid");
    const bool known = pid > 0 && process_memory((int)pid, &memory);
    json_object_set_new(process, "rss_bytes",
                        known ? json_integer((json_int_t)memory.rss) : json_null());
    json_object_set_new(process, "pss_bytes",
                        known ? json_integer((json_int_t)memory.pss) : json_null());
}

static void print_process(const json_t *process, const char *role, const char *state)
{
    printf("%-12s %8lld  %-10s %8lld %9.1f %9.1f\n", role, number_of(process, "pid"), state,
           number_of(process, "restarts"), mib_of(process, "rss_bytes"),
           mib_of(process, "pss_bytes"));
}

static void print_processes(const json_t *ps)
{
    size_t i;
    json_t *item;
    printf("%-12s %8s  %-10s %8s %9s %9s\n", "PROCESS", "PID", "STATE", "RESTARTS", "RSS MIB",
           "PSS MIB");
    print_process(json_object_get(ps, "coordinator"), "coordinator", "running");
    json_array_foreach(json_object_get(ps, "workers"), i, item)
        print_process(item, text_of(item, "role"), text_of(item, "state"));
}

static void print_model(const json_t *model)
{
    const json_t *tokens = json_object_get(model, "tokens");
    const json_t *now = json_object_get(tokens, "per_s");
    printf("%-8s %8lld %7lld %-10s %8lld %8lld %4lld+%4lld/%-5lld "
           "%3lld/%lld/%-3lld %8.1f %8.1f  ",
           text_of(model, "state"), number_of(model, "context"), number_of(model, "threads"),
           text_of(model, "tier"), number_of(model, "planned_bytes") >> 20,
           number_of(model, "resident_bytes") >> 20, number_of(model, "pages_used"),
           number_of(model, "pages_kept"), number_of(model, "pages"), number_of(model, "running"),
           number_of(model, "queued"), number_of(model, "paused"), real_of(now, "prompt"),
           real_of(now, "decode"));
    print_shown(text_of(model, "model"));
    putchar('\n');
}

static void print_service(const json_t *ps)
{
    const json_t *tokens = json_object_get(ps, "tokens");
    const json_t *now = json_object_get(tokens, "per_s");
    const json_t *all = json_object_get(tokens, "per_s_computing");
    const long long up = number_of(json_object_get(ps, "coordinator"), "uptime_s");
    printf("up %lld:%02lld:%02lld, %lld requests running, %lld queued, %lld paused (not read)\n",
           up / 3600, up / 60 % 60, up % 60, number_of(ps, "running"), number_of(ps, "queued"),
           number_of(ps, "paused"));
    printf("tokens/s: prompts %.1f, decoded %.1f in the last seconds; %.1f and %.1f while "
           "computing, of %lld and %lld tokens in all\n\n",
           real_of(now, "prompt"), real_of(now, "decode"), real_of(all, "prompt"),
           real_of(all, "decode"), number_of(tokens, "prompt"), number_of(tokens, "decode"));
}

static void print_table(const json_t *ps)
{
    size_t i;
    json_t *item;
    print_service(ps);
    print_processes(ps);
    if (json_array_size(json_object_get(ps, "models")) == 0)
        return;
    printf("\n%-8s %8s %7s %-10s %8s %8s %15s %9s %8s %8s  %s\n", "STATE", "CONTEXT", "THREADS",
           "TIER", "PLANNED", "IN RAM", "USED+KEPT/PAGES", "RUN/Q/P", "PROMPT/S", "DECODE/S",
           "MODEL");
    json_array_foreach(json_object_get(ps, "models"), i, item) print_model(item);
}

/* *read: somebody reads still; JSON goes past stdio, which notices itself. */
static enum tern_status show(struct client *client, bool as_json, bool again, bool *read,
                             struct tern_error *error)
{
    struct tern_pack pack;
    struct result result = {0};
    size_t i;
    json_t *item;
    client_begin(client, &pack, TERN_MSG_PS);
    enum tern_status status = client_call(client, &pack, take_result, &result, error);
    if (status == TERN_OK && result.json == NULL)
        status = tern_fail(error, TERN_FAILED, "the service gave no figures");
    if (status == TERN_OK) {
        add_memory(json_object_get(result.json, "coordinator"));
        json_array_foreach(json_object_get(result.json, "workers"), i, item) add_memory(item);
        if (again && !as_json)
            fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n", stdout);
        if (as_json)
            *read = again ? print_json_line(result.json) : print_json(result.json);
        else
            print_table(result.json);
    }
    free(result.text);
    json_decref(result.json);
    return status;
}

/* Until Ctrl-C, or nobody reads. */
static enum tern_status watch(struct client *client, double seconds, bool as_json,
                              struct tern_error *error)
{
    bool read = true;
    enum tern_status status = show(client, as_json, true, &read, error);
    while (status == TERN_OK && read && fflush(stdout) == 0 && !ferror(stdout)) {
        if (!wait_while_read((int64_t)(seconds * 1e9)) || client_interrupted())
            return TERN_OK;
        status = show(client, as_json, true, &read, error);
    }
    return status == TERN_INTERRUPTED ? TERN_OK : status;
}

int verb_ps(const struct verb *verb, int argc, char **argv)
{
    bool as_json = false, watched = false;
    double seconds = 2;
    const struct option options[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON (with --watch: one line each time)", 0, 0,
         NULL},
        {"watch", OPTION_FLAG, &watched, NULL, "show it again and again, until Ctrl-C", 0, 0, NULL},
        {"every", OPTION_NUMBER, &seconds, "SECONDS", "between two times (2); watches", 0.1, 3600,
         &watched},
        {0},
    };
    struct client client;
    struct tern_error error = {0};
    int code;
    if (!begin_idle_verb(verb, options, &argc, argv, 0, NULL, &client, &code))
        return code;
    bool read;
    const enum tern_status status = watched ? watch(&client, seconds, as_json, &error)
                                            : show(&client, as_json, false, &read, &error);
    client_close(&client);
    return status == TERN_OK ? 0 : complain(&error);
}
