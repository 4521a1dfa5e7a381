/*
 * A conversation in a request's `messages`: JSON from a client, checked here, so that templates see
 * roles and texts only. Every refusal names the message and what is wrong with it.
 */
#include "coordinator/chat/chat.h"
#include "coordinator/service/request.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGES = 4096, MOST_ROLE = 64 /* bytes */ };

/* Roles that only some templates know are theirs to refuse; what is no name at all is not. */
static bool is_role(const char *role)
{
    const size_t length = strlen(role);
    return length >= 1 && length <= MOST_ROLE &&
           strspn(role, "abcdefghijklmnopqrstuvwxyz_") == length;
}

static enum tern_status check_keys(size_t number, json_t *item, struct tern_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(item, key, value)
    {
        const bool role = strcmp(key, "role") == 0;
        if (!role && strcmp(key, "content") != 0)
            return tern_fail(error, TERN_USAGE,
                             "message %zu has an unknown key '%.40s'; it may have role and content",
                             number, key);
        if (!json_is_string(value))
            return tern_fail(error, TERN_USAGE, "the %s of message %zu is no string", key, number);
    }
    return TERN_OK;
}

static enum tern_status take_message(size_t number, json_t *item, struct tern_chat_message *message,
                                     struct tern_error *error)
{
    if (!json_is_object(item))
        return tern_fail(error, TERN_USAGE, "message %zu is no JSON object", number);
    const enum tern_status status = check_keys(number, item, error);
    if (status != TERN_OK)
        return status;
    message->role = json_string_value(json_object_get(item, "role"));
    message->text = json_string_value(json_object_get(item, "content"));
    if (message->role == NULL || message->text == NULL)
        return tern_fail(error, TERN_USAGE, "message %zu has no %s", number,
                         message->role == NULL ? "role" : "content");
    if (!is_role(message->role))
        return tern_fail(error, TERN_USAGE,
                         "message %zu has the role '%.40s'; it must be system, user or assistant",
                         number, message->role);
    return TERN_OK;
}

/* Values take many times the memory that they take in the text, so that they are counted before
 * they are read: more than any list of MOST_MESSAGES roles and contents has? */
static bool has_too_many_values(const char *json, size_t length)
{
    size_t commas = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        if (json[i] == '"')
            quoted = !quoted;
        else if (quoted && json[i] == '\\')
            i++;
        else if (!quoted && json[i] == ',')
            commas++;
    }
    return commas >= 2 * MOST_MESSAGES;
}

/* The list, to be freed by the caller, or NULL. The parser bounds depth (2048) and refuses text
 * that is not UTF-8 or holds NUL. */
static json_t *read_list(const char *json, size_t length, struct tern_error *error)
{
    json_error_t where = {0};
    if (has_too_many_values(json, length)) {
        tern_fail(error, TERN_USAGE, "the list is too long; at most %d messages are taken",
                  MOST_MESSAGES);
        return NULL;
    }
    json_t *list = json_loadb(json, length, JSON_REJECT_DUPLICATES, &where);
    if (list == NULL)
        tern_fail(error, TERN_USAGE, "the messages are no JSON, at byte %d: %s", where.position,
                  where.text);
    else if (!json_is_array(list))
        tern_fail(error, TERN_USAGE, "the messages are no JSON list");
    else if (json_array_size(list) == 0)
        tern_fail(error, TERN_USAGE, "the list of messages is empty");
    else
        return list;
    json_decref(list);
    return NULL;
}

enum tern_status tern_request_conversation(const struct tern_request *request,
                                           const struct tern_model_file *file, struct tern_ids *ids,
                                           struct tern_error *error)
{
    size_t length, i;
    json_t *item;
    const char *json = tern_message_text(&request->message, TERN_F_MESSAGES, &length);
    *ids = (struct tern_ids){0};
    json_t *list = read_list(json, length, error);
    if (list == NULL)
        return TERN_USAGE;
    const size_t count = json_array_size(list);
    struct tern_chat_message *messages = calloc(count, sizeof *messages);
    enum tern_status status =
        messages != NULL ? TERN_OK : tern_fail(error, TERN_NO_MEMORY, "out of memory");
    for (i = 0; status == TERN_OK && i < count; i++) {
        item = json_array_get(list, i);
        status = take_message(i + 1, item, &messages[i], error);
    }
    if (status == TERN_OK)
        status = tern_chat_prompt(file->catalog, file->tokenizer, messages, count, ids, error);
    free(messages);
    json_decref(list);
    return status;
}
