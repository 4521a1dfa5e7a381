/* A conversation in a request's `messages`: JSON from a client, checked here. */
#include "coordinator/chat/chat.h"
#include "coordinator/service/request.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static enum tern_status take_message(size_t i, const json_t *item,
                                     struct tern_chat_message *message, struct tern_error *error)
{
    const char *role = json_string_value(json_object_get(item, "role"));
    const char *text = json_string_value(json_object_get(item, "content"));
    if (role == NULL || text == NULL)
        return tern_fail(error, TERN_USAGE, "message %zu has no role and content", i + 1);
    if (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0)
        return tern_fail(error, TERN_USAGE,
                         "message %zu has the role '%.40s'; it must be system, user or assistant",
                         i + 1, role);
    *message = (struct tern_chat_message){.role = role, .text = text};
    return TERN_OK;
}

enum tern_status tern_request_conversation(const struct tern_request *request,
                                           const struct tern_model_file *file, struct tern_ids *ids,
                                           struct tern_error *error)
{
    size_t length, i;
    json_t *item;
    json_error_t where = {0};
    const char *json = tern_message_text(&request->message, TERN_F_MESSAGES, &length);
    json_t *list = json_loadb(json, length, JSON_REJECT_DUPLICATES, &where);
    const size_t count = json_array_size(list);
    struct tern_chat_message *messages = calloc(count + 1, sizeof *messages);
    enum tern_status status = TERN_OK;
    *ids = (struct tern_ids){0};
    if (messages == NULL)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory");
    else if (count == 0)
        status = tern_fail(error, TERN_USAGE, "the messages are no JSON list of messages");
    json_array_foreach(list, i, item)
    {
        if (status == TERN_OK)
            status = take_message(i, item, &messages[i], error);
    }
    if (status == TERN_OK)
        status = tern_chat_prompt(file->catalog, file->tokenizer, messages, count, ids, error);
    free(messages);
    json_decref(list);
    return status;
}
