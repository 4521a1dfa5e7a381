/* tern run: one prompt, one streamed answer. */
#include "cmd/tern/answer.h"
#include "cmd/tern/request.h"
#include "cmd/tern/sampling.h"
#include "cmd/tern/screen.h"
#include "cmd/tern/verbs.h"
#include "proto/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

struct run {
    struct model_options model;
    struct sampling_options sampling;
    uint64_t logprobs;
    bool raw, stats, ids, json, has_logprobs;
    const char *system, *tokens;
    struct collected answer;
    struct answer_json details; /* --json */
    struct screen screen;
    bool unwritten; /* standard output takes no more */
    bool no_text;   /* ids came alone: Tern cannot read the model's tokenizer */
    bool failed;    /* the answer could not be kept */
};

/* What a question's file has around it is no part of it: a mark of the byte order, the newline that
 * echo adds. */
static size_t strip_question(char *text, size_t length)
{
    static const char mark[] = "\xef\xbb\xbf";
    if (length >= 3 && memcmp(text, mark, 3) == 0)
        memmove(text, text + 3, length -= 3);
    if (length > 0 && text[length - 1] == '\n')
        length -= length > 1 && text[length - 2] == '\r' ? 2 : 1;
    text[length] = '\0';
    return length;
}

/* The prompt's words joined by spaces, or standard input. */
static enum tern_status read_prompt(int words, char **word, bool raw, char **prompt,
                                    struct tern_error *error)
{
    size_t length = 1;
    if ((words == 1 && strcmp(word[0], "-") == 0) || (words == 0 && !isatty(STDIN_FILENO))) {
        const enum tern_status status = read_all("-", prompt, &length, error);
        if (status != TERN_OK)
            return status;
        if (!raw)
            length = strip_question(*prompt, length);
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

static enum tern_status pack_settings(struct tern_pack *pack, const struct run *run,
                                      struct tern_error *error)
{
    if (run->has_logprobs && !run->json)
        return tern_fail(error, TERN_USAGE, "--logprobs is part of what --json prints; add --json");
    if (run->json && run->ids)
        return tern_fail(error, TERN_USAGE, "--json holds the ids; leave out --ids");
    pack_options(pack, &run->model);
    if (run->has_logprobs)
        tern_pack_u64(pack, TERN_F_LOGPROBS, run->logprobs);
    if (run->raw || run->tokens != NULL)
        tern_pack_bool(pack, TERN_F_RAW, true);
    if (run->system != NULL)
        tern_pack_text(pack, TERN_F_SYSTEM, run->system);
    return pack_sampling(pack, &run->sampling, error);
}

/* Somebody may have meant it for the model. */
static void tell_of_unread_input(void)
{
    struct stat info;
    int waiting = 0;
    if (fstat(STDIN_FILENO, &info) != 0)
        return;
    if (S_ISREG(info.st_mode))
        waiting = lseek(STDIN_FILENO, 0, SEEK_CUR) < info.st_size;
    else if (S_ISFIFO(info.st_mode) && ioctl(STDIN_FILENO, FIONREAD, &waiting) != 0)
        waiting = 0;
    if (waiting > 0)
        fputs("tern: standard input was not read, since a prompt was given; - in its place reads "
              "it\n",
              stderr);
}

static bool take_piece(struct run *run, const struct tern_message *reply)
{
    size_t length;
    if (run->ids || run->json) {
        run->failed = !collect(&run->answer, reply) || !answer_json_take(&run->details, reply);
        return !run->failed;
    }
    const char *text = tern_message_text(reply, TERN_F_BYTES, &length);
    run->no_text = text == NULL && tern_message_has(reply, TERN_F_TOKENS);
    run->unwritten = length > 0 && !write_answer(&run->screen, text, length);
    return !run->no_text && !run->unwritten;
}

static bool take_answer(void *context, const struct tern_message *reply)
{
    struct run *run = context;
    struct answer_figures figures;
    if (!take_piece(run, reply))
        return false;
    if (reply->kind != TERN_MSG_DONE)
        return true;
    answer_figures_take(&figures, reply);
    if (run->json)
        run->unwritten = !answer_json_print(&run->details, &run->answer, &figures);
    else if (run->ids)
        print_ids(run->answer.ids, run->answer.count);
    end_answer_on_screen();
    if (answer_filled_context(&figures))
        fprintf(stderr, "tern: the context of %" PRIu64 " positions is full; --ctx N gives more\n",
                figures.context);
    if (run->stats)
        answer_figures_print(&figures);
    return true;
}

int verb_run(const struct verb *verb, int argc, char **argv)
{
    struct run run = {0};
    const struct option options[] = {
        SAMPLING_OPTIONS(run.sampling),
        {"system", OPTION_TEXT, &run.system, "TEXT", "system message of the chat", 0, 0, NULL},
        {"raw", OPTION_FLAG, &run.raw, NULL,
         "no chat template: continue the text, behind BOS if the file says so", 0, 0, NULL},
        {"tokens", OPTION_TEXT, &run.tokens, "FILE", "JSON list of ids in place of a prompt", 0, 0,
         NULL},
        {"ids", OPTION_FLAG, &run.ids, NULL, "print the ids as a JSON list in place of text", 0, 0,
         NULL},
        {"json", OPTION_FLAG, &run.json, NULL, "print one JSON object: text, ids, reason, figures",
         0, 0, NULL},
        {"logprobs", OPTION_COUNT, &run.logprobs, NULL,
         "with --json: each token's log-probability, and the N likeliest", 0, 20,
         &run.has_logprobs},
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
    enum tern_status status = pack_settings(&pack, &run, &error);
    if (status == TERN_OK)
        status = pack_prompt(&pack, &run, argc - 1, argv + 1, &error);
    if (status == TERN_OK)
        status = client_call(&client, &pack, take_answer, &run, &error);
    else
        tern_pack_free(&pack);
    client_close(&client);
    end_answer_on_screen(); /* where it was broken off */
    if (argc > 1 && strcmp(argv[1], "-") != 0)
        tell_of_unread_input();
    answer_json_free(&run.details);
    free(run.answer.ids);
    free(run.answer.bytes);
    if (run.no_text)
        status = tern_fail(&error, TERN_UNSUPPORTED,
                           "%s: no text without a tokenizer (tern info tells what is wrong with "
                           "it); --ids prints the ids",
                           path);
    if (run.failed)
        status =
            tern_fail(&error, TERN_NO_MEMORY, "out of memory for the answer; try a smaller -n");
    if (run.unwritten) /* finish_output says why, or `tern run ... | head -1` has enough */
        return 0;
    return status == TERN_OK ? 0 : complain(&error);
}
