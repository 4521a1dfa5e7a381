#include "cmd/tern/chat/session.h"

#include "proto/utf8.h"
#include "proto/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- the conversation ---- */

static json_t *new_message(const char *role, const char *text, size_t length)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", text, length);
}

static bool has_system(const struct chat *chat)
{
    const json_t *role = json_object_get(json_array_get(chat->messages, 0), "role");
    return role != NULL && strcmp(json_string_value(role), "system") == 0;
}

enum tern_status chat_set_system(struct chat *chat, const char *text, struct tern_error *error)
{
    const bool had = has_system(chat);
    if (text[0] != '\0' &&
        json_array_insert_new(chat->messages, 0, new_message("system", text, strlen(text))) != 0)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    if (had)
        json_array_remove(chat->messages, text[0] != '\0');
    return TERN_OK;
}

void chat_reset(struct chat *chat)
{
    for (size_t count = json_array_size(chat->messages); count > has_system(chat); count--)
        json_array_remove(chat->messages, count - 1);
}

enum tern_status chat_start(struct chat *chat, struct tern_error *error)
{
    chat->messages = json_array();
    if (chat->messages == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    return chat_set_system(chat, chat->system != NULL ? chat->system : "", error);
}

void chat_free(struct chat *chat)
{
    json_decref(chat->messages);
    free(chat->answer.ids);
    free(chat->answer.bytes);
}

/* ---- one turn ---- */

static enum tern_status pack_turn(const struct chat *chat, struct tern_pack *pack,
                                  struct tern_error *error)
{
    char *messages = json_dumps(chat->messages, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (messages == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory for the conversation");
    const size_t length = strlen(messages);
    if (length > TERN_MESSAGE_MAX / 2) {
        free(messages);
        return tern_fail(error, TERN_NO_MEMORY,
                         "the conversation is longer than %d MiB; /reset begins a new one",
                         TERN_MESSAGE_MAX / 2 >> 20);
    }
    tern_pack_text(pack, TERN_F_MODEL, chat->path);
    tern_pack_bytes(pack, TERN_F_MESSAGES, messages, length);
    free(messages);
    pack_options(pack, &chat->model);
    struct sampling_options sampling = chat->sampling;
    sampling.seed = chat->turn_seed;
    sampling.has_seed = true;
    return pack_sampling(pack, &sampling, error);
}

static bool take_answer(void *context, const struct tern_message *reply)
{
    struct chat *chat = context;
    if (!collect(&chat->answer, reply))
        return false;
    chat->done = reply->kind == TERN_MSG_DONE;
    if (chat->done)
        answer_figures_take(&chat->figures, reply);
    if (chat->json || chat->answer.length <= chat->shown)
        return true;
    const size_t first = chat->shown;
    chat->shown = chat->answer.length;
    chat->unwritten = !write_answer(&chat->screen, chat->answer.bytes + first, chat->shown - first);
    return !chat->unwritten;
}

static enum tern_status ask(struct chat *chat, struct tern_error *error)
{
    struct tern_pack pack;
    enum tern_status status = TERN_OK;
    chat->answer.count = chat->answer.length = 0;
    if (chat->client.socket == NULL) /* it had died, and could not be started */
        status = client_open(&chat->client, true, error);
    if (status != TERN_OK)
        return status;
    client_begin(&chat->client, &pack, TERN_MSG_GENERATE);
    status = pack_turn(chat, &pack, error);
    if (status != TERN_OK) {
        tern_pack_free(&pack);
        return status;
    }
    status = client_call(&chat->client, &pack, take_answer, chat, error);
    if (status == TERN_OK && chat->answer.failed)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory for the answer");
    return status;
}

/* The answer as a message: a text that was stopped inside a character ends before it, and a NUL,
 * which no prompt may hold, is left out. */
static json_t *answer_message(struct chat *chat)
{
    char *bytes = chat->answer.bytes != NULL ? chat->answer.bytes : (char[]){""};
    size_t kept = 0;
    for (size_t i = 0; i < chat->answer.length;) {
        const int character = tern_utf8_character(bytes + i, chat->answer.length - i);
        const size_t length = character > 0 ? (size_t)character : 1;
        if (character > 0 && bytes[i] != '\0') {
            memmove(bytes + kept, bytes + i, length);
            kept += length;
        }
        i += length;
    }
    chat->answer.length = kept;
    return new_message("assistant", bytes, kept);
}

/* A seed of its own for each turn, so that a repeated turn gives the same tokens; of 53 bits, which
 * every reader of JSON keeps. */
static uint64_t draw_seed(const struct chat *chat)
{
    uint64_t seed;
    if (chat->sampling.has_seed)
        return chat->sampling.seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = tern_now_ns() * 0x9E3779B97F4A7C15u;
    return seed >> 11;
}

static enum tern_status ask_again(struct chat *chat, struct tern_error *error)
{
    fprintf(stderr, "%stern: the service has ended; it is started again, and the turn repeated\n",
            chat->shown > 0 ? "\n" : "");
    client_close(&chat->client);
    return ask(chat, error);
}

enum tern_status chat_turn(struct chat *chat, const char *text, struct tern_error *error)
{
    const size_t before = json_array_size(chat->messages);
    chat->screen = (struct screen){0};
    chat->turn_seed = draw_seed(chat);
    chat->shown = 0;
    chat->answer.failed = false;
    chat->done = false;
    if (json_array_append_new(chat->messages, new_message("user", text, strlen(text))) != 0)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    enum tern_status status = ask(chat, error);
    if (status == TERN_NO_SERVICE)
        status = ask_again(chat, error);
    const bool kept = status == TERN_OK || (status == TERN_INTERRUPTED && chat->answer.length > 0);
    if (kept && json_array_append_new(chat->messages, answer_message(chat)) != 0)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory for the answer");
    if (json_array_size(chat->messages) == before + 1)
        json_array_remove(chat->messages, before);
    return status;
}
