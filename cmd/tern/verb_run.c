/* tern run: one prompt, one streamed answer. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"
#include "proto/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
    struct model_options model;
    uint64_t n, seed;
    double temperature;
    bool has_n, has_seed, raw, ignore_eos, stats, ids;
    const char *system, *tokens;
    struct collected answer;
    bool unwritten; /* standard output takes no more */
};

/* The prompt's words joined by spaces, or standard input. */
static enum tern_status read_prompt(int words, char **word, bool raw, char **prompt,
                                    struct tern_error *error)
{
    size_t length = 1;
    if ((words == 1 && strcmp(word[0], "-") == 0) || (words == 0 && !isatty(STDIN_FILENO))) {
        const enum tern_status status = read_all("-", prompt, &length, error);
        if (status != TERN_OK)
            return status;
        if (!raw && length > 0 && (*prompt)[length - 1] == '\n')
            (*prompt)[--length] = '\0'; /* the newline that echo adds is no part of a question */
    } else if (words == 0) {
        return tern_fail(error, TERN_USAGE,
                         "PROMPT is missing; give it as words or on standard "
                         "input");
    } else {
        for (int i = 0; i < words; i++)
            length += strlen(word[i]) + 1;
        *prompt = calloc(1, length);
        if (*prompt == NULL)
            return tern_fail(error, TERN_NO_MEMORY, "out of memory");
        char *end = *prompt;
        for (int i = 0; i < words; i++) {
            end = stpcpy(end, i > 0 ? " " : "");
            end = stpcpy(end, word[i]);
        }
        length = (size_t)(end - *prompt);
    }
    if (length == 0 || strlen(*prompt) != length || !tern_utf8_valid(*prompt, length)) {
        free(*prompt);
        *prompt = NULL;
        return tern_fail(error, TERN_USAGE,
                         length == 0
                             ? "the prompt is empty; write what the model should answer"
                             : "the prompt is not UTF-8 text without NUL; convert it first");
    }
    return TERN_OK;
}

static enum tern_status pack_prompt(struct tern_pack *pack, const struct run *run, int words,
                                    char **word, struct tern_error *error)
{
    if (run->tokens != NULL && words > 0)
        return tern_fail(error, TERN_USAGE, "--tokens takes the place of PROMPT; leave out '%s'",
                         word[0]);
    if (run->tokens != NULL) {
        uint32_t *ids;
        size_t count;
        const enum tern_status status = read_ids(run->tokens, &ids, &count, error);
        if (status != TERN_OK)
            return status;
        tern_pack_bytes(pack, TERN_F_TOKENS, ids, count * sizeof *ids);
        free(ids);
        return TERN_OK;
    }
    char *prompt;
    const enum tern_status status = read_prompt(words, word, run->raw, &prompt, error);
    if (status != TERN_OK)
        return status;
    tern_pack_text(pack, TERN_F_PROMPT, prompt);
    free(prompt);
    return TERN_OK;
}

static void pack_settings(struct tern_pack *pack, const struct run *run)
{
    pack_options(pack, &run->model);
    if (run->has_n)
        tern_pack_u64(pack, TERN_F_N, run->n);
    if (run->has_seed)
        tern_pack_u64(pack, TERN_F_SEED, run->seed);
    if (run->temperature > 0)
        tern_pack_f64(pack, TERN_F_TEMP, run->temperature);
    if (run->raw || run->tokens != NULL)
        tern_pack_bool(pack, TERN_F_RAW, true);
    if (run->ignore_eos)
        tern_pack_bool(pack, TERN_F_IGNORE_EOS, true);
    if (run->system != NULL)
        tern_pack_text(pack, TERN_F_SYSTEM, run->system);
}

static void print_stats(const struct tern_message *done)
{
    const uint64_t prompt = tern_message_u64(done, TERN_F_PROMPT_TOKENS, 0);
    const uint64_t count = tern_message_u64(done, TERN_F_COUNT, 0);
    const uint64_t reused = tern_message_u64(done, TERN_F_REUSED, 0);
    const double computed = reused < prompt ? (double)(prompt - reused) : 0;
    const double prompt_s = (double)tern_message_u64(done, TERN_F_PROMPT_NS, 0) * 1e-9;
    const double decode_s = (double)tern_message_u64(done, TERN_F_DECODE_NS, 0) * 1e-9;
    const double steps = count > 1 ? (double)(count - 1) : 0; /* the prompt gives the first */
    size_t length;
    const char *reason = tern_message_text(done, TERN_F_REASON, &length);
    fprintf(stderr,
            "prompt: %" PRIu64 " tokens, %.3f s, %.1f tokens/s\n"
            "answer: %" PRIu64 " tokens, %.3f s, %.1f tokens/s (%.*s)\ncontext: %" PRIu64
            "\nseed: %" PRIu64 "\nreused: %" PRIu64 " tokens of the prompt\n",
            prompt, prompt_s, prompt_s > 0 ? computed / prompt_s : 0.0, count, decode_s,
            decode_s > 0 ? steps / decode_s : 0.0, (int)length, reason != NULL ? reason : "",
            tern_message_u64(done, TERN_F_CTX, 0), tern_message_u64(done, TERN_F_SEED, 0), reused);
}

static bool take_answer(void *context, const struct tern_message *reply)
{
    struct run *run = context;
    size_t length;
    if (run->ids) {
        if (!collect(&run->answer, reply))
            return false;
    } else {
        const char *text = tern_message_text(reply, TERN_F_BYTES, &length);
        if (length > 0 && !write_out(text, length)) {
            run->unwritten = true;
            return false;
        }
    }
    if (reply->kind != TERN_MSG_DONE)
        return true;
    if (run->ids)
        print_ids(run->answer.ids, run->answer.count);
    else if (isatty(STDOUT_FILENO))
        write_out("\n", 1);
    if (run->stats)
        print_stats(reply);
    return true;
}

int verb_run(const struct verb *verb, int argc, char **argv)
{
    struct run run = {0};
    const struct option options[] = {
        {"n", OPTION_COUNT, &run.n, NULL, "tokens to generate at most (until the end token)", 0,
         1 << 20, &run.has_n},
        {"temp", OPTION_NUMBER, &run.temperature, "X", "temperature; 0 takes the best token (0)", 0,
         1e6, NULL},
        {"seed", OPTION_COUNT, &run.seed, NULL, "seed of the draw (drawn, shown by --stats)", 0,
         0x1p64, &run.has_seed},
        {"system", OPTION_TEXT, &run.system, "TEXT", "system message of the chat", 0, 0, NULL},
        {"raw", OPTION_FLAG, &run.raw, NULL, "no chat template: continue the text", 0, 0, NULL},
        {"tokens", OPTION_TEXT, &run.tokens, "FILE", "JSON list of ids in place of a prompt", 0, 0,
         NULL},
        {"ids", OPTION_FLAG, &run.ids, NULL, "print the ids as a JSON list in place of text", 0, 0,
         NULL},
        {"ignore-eos", OPTION_FLAG, &run.ignore_eos, NULL, "go on after an end token", 0, 0, NULL},
        {"stats", OPTION_FLAG, &run.stats, NULL, "tokens, seconds and seed on stderr", 0, 0, NULL},
        MODEL_OPTIONS(run.model),
        {0},
    };
    char path[4096];
    struct client client;
    struct tern_error error = {0};
    struct tern_pack pack;
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1 << 20, path, &client, &code))
        return code;
    client_begin(&client, &pack, TERN_MSG_GENERATE);
    tern_pack_text(&pack, TERN_F_MODEL, path);
    pack_settings(&pack, &run);
    enum tern_status status = pack_prompt(&pack, &run, argc - 1, argv + 1, &error);
    if (status == TERN_OK)
        status = client_call(&client, &pack, take_answer, &run, &error);
    else
        tern_pack_free(&pack);
    client_close(&client);
    free(run.answer.ids);
    free(run.answer.bytes);
    if (run.unwritten) /* finish_output says why, or `tern run ... | head -1` has enough */
        return 0;
    return status == TERN_OK ? 0 : complain(&error);
}
