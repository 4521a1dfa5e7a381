/* tern chat: a conversation, typed or piped in, a turn at a time. */
#include "cmd/tern/chat/commands.h"
#include "cmd/tern/chat/input.h"
#include "cmd/tern/chat/session.h"
#include "cmd/tern/json_output.h"
#include "cmd/tern/verbs.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The next turn will be refused. */
static void tell_of_full_context(const struct answer_figures *figures)
{
    if (answer_filled_context(figures))
        fprintf(stderr,
                "tern: the context of %" PRIu64
                " positions is full; /reset begins a new conversation\n",
                figures->context);
}

/* One JSON object for a turn: the answer and DONE's figures, or what went wrong. */
static bool print_turn_json(struct chat *chat, enum tern_status status,
                            const struct tern_error *error)
{
    json_t *line = json_object();
    if (chat->done)
        answer_figures_add(&chat->figures, line);
    if (status == TERN_OK || chat->answer.length > 0)
        json_object_set_new(line, "answer", json_of_bytes(chat->answer.bytes, chat->answer.length));
    if (status != TERN_OK) {
        json_object_set_new(line, "error", json_of_text(error->message));
        json_object_set_new(line, "status", json_integer(status));
    }
    const bool printed = print_json_line(line);
    json_decref(line);
    return printed;
}

/* What failed beside the turns: a command, or a line that is no text. A script that reads an object
 * for each line must not wait for ever. */
static void tell_failure(struct chat *chat, const struct tern_error *error)
{
    complain(error);
    if (!chat->json)
        return;
    json_t *line = json_pack("{s:o, s:i}", "error", json_of_text(error->message), "status",
                             (int)error->status);
    chat->unwritten = !print_json_line(line);
    json_decref(line);
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
    if (status == TERN_OK && chat->stats)
        answer_figures_print(&chat->figures);
    if (status == TERN_OK)
        tell_of_full_context(&chat->figures);
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
            tell_failure(chat, &error);
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
