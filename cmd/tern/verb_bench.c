/* tern bench: speed of a prompt of random ids and of decode steps, through the running service. */
#include "cmd/tern/json_output.h"
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"
#include "proto/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPEATS = 1000 };

struct bench {
    struct client client;
    struct model_options model;
    const char *path;
    uint64_t prompt, decode, repeats, vocabulary;
    json_int_t threads;
    json_t *results;
};

/* What DONE said of one request. */
struct figures {
    uint64_t prompt_ns, decode_ns, worker_ns, count;
};

static bool take_figures(void *context, const struct tern_message *reply)
{
    struct figures *figures = context;
    if (reply->kind == TERN_MSG_DONE)
        *figures = (struct figures){
            .prompt_ns = tern_message_u64(reply, TERN_F_PROMPT_NS, 0),
            .decode_ns = tern_message_u64(reply, TERN_F_DECODE_NS, 0),
            .worker_ns = tern_message_u64(reply, TERN_F_WORKER_NS, 0),
            .count = tern_message_u64(reply, TERN_F_COUNT, 0),
        };
    return true;
}

static enum tern_status read_vocabulary(struct bench *bench, struct tern_error *error)
{
    struct result result = {0};
    enum tern_status status = ask_info(&bench->client, bench->path, false, &result, error);
    bench->vocabulary = (uint64_t)json_integer_value(json_object_get(result.json, "vocabulary"));
    if (status == TERN_OK && bench->vocabulary == 0)
        status = tern_fail(error, TERN_BAD_MODEL, "%s has no vocabulary", bench->path);
    free(result.text);
    json_decref(result.json);
    return status;
}

/* The threads that the model was loaded with: the default is the service's choice. */
static enum tern_status read_threads(struct bench *bench, struct tern_error *error)
{
    struct tern_pack pack;
    struct result result = {0};
    size_t i;
    json_t *model;
    client_begin(&bench->client, &pack, TERN_MSG_PS);
    const enum tern_status status = client_call(&bench->client, &pack, take_result, &result, error);
    json_array_foreach(json_object_get(result.json, "models"), i, model)
    {
        const char *path = json_string_value(json_object_get(model, "model"));
        if (path != NULL && strcmp(path, bench->path) == 0)
            bench->threads = json_integer_value(json_object_get(model, "threads"));
    }
    free(result.text);
    json_decref(result.json);
    return status;
}

/* A request of `tokens` random ids, then `steps` decode steps. Each has ids of its own: what began
 * like an earlier prompt, of this run or another, would not be computed. */
static enum tern_status measure(struct bench *bench, uint64_t tokens, uint64_t steps,
                                struct figures *figures, struct tern_error *error)
{
    struct tern_pack pack;
    uint32_t *ids = malloc(tokens * sizeof *ids);
    uint64_t random = tern_now_ns();
    if (ids == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    for (uint64_t i = 0; i < tokens; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (uint32_t)((random >> 32) % bench->vocabulary);
    }
    client_begin(&bench->client, &pack, TERN_MSG_GENERATE);
    tern_pack_text(&pack, TERN_F_MODEL, bench->path);
    pack_options(&pack, &bench->model);
    tern_pack_bytes(&pack, TERN_F_TOKENS, ids, tokens * sizeof *ids);
    tern_pack_bool(&pack, TERN_F_RAW, true);
    tern_pack_bool(&pack, TERN_F_IGNORE_EOS, true);
    /* The prompt's step gives the first token; each further one is a decode step. */
    tern_pack_u64(&pack, TERN_F_N, steps + 1);
    free(ids);
    return client_call(&bench->client, &pack, take_figures, figures, error);
}

/* One line of the results: `tokens` of a prompt or `steps` of decoding, repeated. */
static enum tern_status measure_line(struct bench *bench, uint64_t tokens, uint64_t steps,
                                     struct tern_error *error)
{
    json_t *samples = json_array();
    double sum = 0, overhead = 0;
    enum tern_status status = TERN_OK;
    for (uint64_t i = 0; i < bench->repeats && status == TERN_OK; i++) {
        struct figures f = {0};
        status = measure(bench, steps > 0 ? 1 : tokens, steps, &f, error);
        if (status == TERN_OK && steps > 0 && f.count != steps + 1)
            status = tern_fail(error, TERN_NO_MEMORY,
                               "only %" PRIu64 " tokens fit the context; use a smaller -n or a "
                               "larger --ctx",
                               f.count);
        const double seconds = (double)(steps > 0 ? f.decode_ns : f.prompt_ns) * 1e-9;
        const double speed = seconds > 0 ? (double)(steps > 0 ? steps : tokens) / seconds : 0;
        sum += speed;
        overhead +=
            steps > 0 ? ((double)f.decode_ns - (double)f.worker_ns) * 1e-3 / (double)steps : 0;
        json_array_append_new(samples, json_real(speed));
    }
    const double repeats = (double)bench->repeats;
    json_t *line =
        json_pack("{s:I, s:I, s:I, s:f, s:o}", "n_prompt", (json_int_t)(steps > 0 ? 0 : tokens),
                  "n_gen", (json_int_t)steps, "n_threads", bench->threads, "avg_ts", sum / repeats,
                  "samples_ts", samples);
    if (steps > 0) /* time per token outside the worker's steps */
        json_object_set_new(line, "overhead_us", json_real(overhead / repeats));
    json_array_append_new(bench->results, line);
    return status;
}

static enum tern_status run_bench(struct bench *bench, struct tern_error *error)
{
    struct figures warm;
    enum tern_status status = TERN_OK;
    if (bench->prompt == 0 && bench->decode == 0)
        status = tern_fail(error, TERN_USAGE, "-p and -n are both 0: there is nothing to measure");
    if (status == TERN_OK)
        status = read_vocabulary(bench, error);
    if (status == TERN_OK) /* loads the model and touches its memory */
        status = measure(bench, bench->prompt > 0 ? bench->prompt : 1, 1, &warm, error);
    if (status == TERN_OK)
        status = read_threads(bench, error);
    if (status == TERN_OK && bench->prompt > 0)
        status = measure_line(bench, bench->prompt, 0, error);
    if (status == TERN_OK && bench->decode > 0)
        status = measure_line(bench, 0, bench->decode, error);
    return status;
}

static void print_results(const json_t *results)
{
    size_t i;
    json_t *line;
    printf("%-14s %12s\n", "TEST", "TOKENS/S");
    json_array_foreach(results, i, line)
    {
        const long long prompt = json_integer_value(json_object_get(line, "n_prompt"));
        const long long decode = json_integer_value(json_object_get(line, "n_gen"));
        char name[32];
        snprintf(name, sizeof name, prompt > 0 ? "prompt %lld" : "decode %lld",
                 prompt > 0 ? prompt : decode);
        printf("%-14s %12.2f\n", name, json_real_value(json_object_get(line, "avg_ts")));
    }
}

int verb_bench(const struct verb *verb, int argc, char **argv)
{
    struct bench bench = {.prompt = 512, .decode = 128, .repeats = 5};
    const char *format = "table";
    const struct option options[] = {
        {"p", OPTION_COUNT, &bench.prompt, NULL, "ids of the prompt, 0: no such test (512)", 0,
         1 << 20, NULL},
        {"n", OPTION_COUNT, &bench.decode, NULL, "decode steps, 0: no such test (128)", 0,
         (1 << 20) - 1, NULL},
        {"r", OPTION_COUNT, &bench.repeats, NULL, "repetitions (5)", 1, MOST_REPEATS, NULL},
        {"t", OPTION_COUNT, &bench.model.threads, NULL, "threads, as --threads", 0, 512, NULL},
        {"o", OPTION_CHOICE, &format, "table|json", "output (table)", 0, 0, NULL},
        MODEL_OPTIONS(bench.model),
        {0},
    };
    char path[4096];
    struct tern_error error = {0};
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &bench.client, &code))
        return code;
    bench.path = path;
    bench.results = json_array();
    const enum tern_status status = run_bench(&bench, &error);
    client_close(&bench.client);
    if (status == TERN_OK && strcmp(format, "json") == 0) {
        print_json(bench.results);
    } else if (status == TERN_OK) {
        print_results(bench.results);
    }
    json_decref(bench.results);
    return status == TERN_OK ? 0 : complain(&error);
}
