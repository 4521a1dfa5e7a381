/* tern chat: a conversation, typed or piped in, a turn at a time. */
#include "cmd/tern/chat/commands.h"
#include "cmd/tern/chat/input.h"
#include "cmd/tern/chat/session.h"
#include "cmd/tern/verbs.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_int_t figure(const struct chat *chat, const char *name)
{
    return json_integer_value(json_object_get(chat->figures, name));
}

static void print_stats(const struct chat *chat)
{
    const double prompt_s = json_number_value(json_object_get(chat->figures, "prompt_s"));
    const double decode_s = json_number_value(json_object_get(chat->figures, "decode_s"));
    const json_int_t tokens = figure(chat, "tokens");
    fprintf(stderr,
            "prompt: %lld tokens, %lld of them reused, %.3f s\n"
            "answer: %lld tokens, %.3f s, %.1f tokens/s (%s)\ncontext: %lld\nseed: %" PRIu64 "\n",
            (long long)figure(chat, "prompt_tokens"), (long long)figure(chat, "reused"), prompt_s,
            (long long)tokens, decode_s,
            decode_s > 0 && tokens > 1 ? (double)(tokens - 1) / decode_s : 0.0,
            json_string_value(json_object_get(chat->figures, "reason")),
            (long long)figure(chat, "context"), chat->turn_seed);
}

/* An answer that the context ended is no whole one, and the next turn will be refused. */
static void tell_of_full_context(const struct chat *chat)
{
    const char *reason = json_string_value(json_object_get(chat->figures, "reason"));
    if (reason != NULL && strcmp(reason, "length") == 0 &&
        figure(chat, "prompt_tokens") + figure(chat, "tokens") >= figure(chat, "context"))
        fprintf(stderr,
                "tern: the context of %lld positions is full; /reset begins a new conversation\n",
                (long long)figure(chat, "context"));
}

/* One JSON object for a turn: the answer and DONE's figures, or what went wrong. */
static bool print_turn_json(struct chat *chat, enum tern_status status,
                            const struct tern_error *error)
{
    json_t *line = chat->figures != NULL ? json_copy(chat->figures) : json_object();
    if (status == TERN_OK || chat->answer.length > 0)
        json_object_set_new(line, "answer",
                            json_stringn(chat->answer.bytes != NULL ? chat->answer.bytes : "",
                                         chat->answer.length));
    if (status != TERN_OK) {
        json_object_set_new(line, "error", json_string(error->message));
        json_object_set_new(line, "status", json_integer(status));
    }
    char *text = json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER);
    const bool printed = text != NULL && write_out(text, strlen(text)) && end_answer();
    free(text);
    json_decref(line);
    return printed;
}

/* A turn with all that is printed about it. */
static enum tern_status take_turn(struct chat *chat, const char *text, bool terminal,
                                  struct tern_error *error)
{
    const enum tern_status status = chat_turn(chat, text, error);
    const bool stopped = status == TERN_INTERRUPTED;
    if (chat->unwritten)
        return TERN_OK;
    if (chat->json)
        chat->unwritten = !print_turn_json(chat, status, error);
    else if (status == TERN_OK || chat->shown > 0 || (stopped && terminal))
        chat->unwritten = !end_answer();
    if (status == TERN_OK && chat->stats && chat->figures != NULL)
        print_stats(chat);
    if (status == TERN_OK)
        tell_of_full_context(chat);
    else if (status == TERN_NO_MEMORY && json_array_size(chat->messages) > 1)
        fprintf(stderr, "tern: %s; /reset begins a new conversation\n", error->message);
    else if (!(stopped && terminal))
        complain(error);
    return status;
}

/* Statuses after which no later turn can do better. */
static bool hopeless(enum tern_status status)
{
    return status == TERN_BAD_MODEL || status == TERN_UNSUPPORTED || status == TERN_NO_SERVICE;
}

/* Turns until the end of input. The exit code: on a terminal 0, else that of the first failure. */
static int converse(struct chat *chat, struct input *input)
{
    const bool terminal = input->editor != NULL;
    enum tern_status first = TERN_OK, status;
    bool quit = false;
    while (!quit && !chat->unwritten) {
        struct tern_error error = {0};
        char *text;
        const enum input_event event = input_turn(input, &text, &error);
        if (event == INPUT_END || event == INPUT_CLOSED)
            break;
        if (event == INPUT_INTERRUPTED)
            return TERN_INTERRUPTED;
        if (event == INPUT_TEXT)
            status = take_turn(chat, text, terminal, &error);
        else if (event == INPUT_COMMAND)
            status = chat_command(chat, text, &quit, &error);
        else
            status = error.status;
        if (status != TERN_OK && event != INPUT_TEXT)
            complain(&error);
        free(text);
        if (client_interrupted() && !(client_forget_interrupt() && terminal))
            return TERN_INTERRUPTED;
        first = first == TERN_OK ? status : first;
        if (!terminal && (hopeless(status) || event == INPUT_FAILED))
            break;
    }
    return terminal ? TERN_OK : (int)first;
}

/* Finds out now, and not at the first turn, if the model cannot be used; on a terminal also loads
 * it while the person types. */
static enum tern_status prepare(struct chat *chat, bool terminal, struct tern_error *error)
{
    struct tern_pack pack;
    client_begin(&chat->client, &pack, terminal ? TERN_MSG_LOAD : TERN_MSG_INFO);
    tern_pack_text(&pack, TERN_F_MODEL, chat->path);
    if (terminal)
        pack_options(&pack, &chat->model);
    return client_call(&chat->client, &pack, NULL, NULL, error);
}

/* libedit measures and prints characters by the locale; text here is UTF-8 whatever it is. */
static void use_utf8(void)
{
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static int run_chat(struct chat *chat)
{
    struct tern_error error = {0};
    struct input input = {0};
    use_utf8();
    enum tern_status status = input_open(&input, &error);
    if (status == TERN_OK)
        status = prepare(chat, input.editor != NULL, &error);
    if (status == TERN_OK)
        status = chat_start(chat, &error);
    if (status == TERN_OK && input.editor != NULL)
        fprintf(stderr, "/help lists the commands, Ctrl-D ends.\n");
    const int code = status == TERN_OK ? converse(chat, &input) : complain(&error);
    input_close(&input);
    return code;
}

int verb_chat(const struct verb *verb, int argc, char **argv)
{
    struct chat chat = {0};
    const struct option options[] = {
        {"system", OPTION_TEXT, &chat.system, "TEXT", "system message", 0, 0, NULL},
        {"stats", OPTION_FLAG, &chat.stats, NULL, "tokens, seconds and seed on stderr", 0, 0, NULL},
        {"json", OPTION_FLAG, &chat.json, NULL, "print a JSON object for each turn", 0, 0, NULL},
        SAMPLING_OPTIONS(chat.sampling),
        MODEL_OPTIONS(chat.model),
        {0},
    };
    char path[4096];
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &chat.client, &code))
        return code;
    chat.path = path;
    code = run_chat(&chat);
    client_close(&chat.client);
    chat_free(&chat);
    return code;
}
