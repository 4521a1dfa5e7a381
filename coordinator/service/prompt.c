/* The ids of a request's prompt: sent as ids, or made from texts beside the loop. */
#include "coordinator/chat/chat.h"
#include "coordinator/service/request.h"
#include "proto/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum tern_status tern_request_tokens(const struct tern_request *request, uint32_t vocabulary,
                                     struct tern_ids *ids, struct tern_error *error)
{
    size_t length;
    const char *bytes = tern_message_text(&request->message, TERN_F_TOKENS, &length);
    *ids = (struct tern_ids){0};
    if (length % sizeof(uint32_t) != 0)
        return tern_fail(error, TERN_USAGE, "the tokens are %zu bytes, no multiple of 4", length);
    ids->count = length / sizeof(uint32_t);
    ids->id = malloc(length + 1);
    if (ids->id == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    if (length > 0)
        memcpy(ids->id, bytes, length);
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->id[i] < vocabulary)
            continue;
        const uint32_t id = ids->id[i];
        tern_ids_free(ids);
        return tern_fail(error, TERN_USAGE,
                         "token %zu has id %" PRIu32 "; the vocabulary has ids 0 to %" PRIu32, i,
                         id, vocabulary - 1);
    }
    return TERN_OK;
}

static enum tern_status chat_ids(const struct tern_request *request,
                                 const struct tern_model_file *file, enum tern_field field,
                                 struct tern_ids *ids, struct tern_error *error)
{
    const bool has_system = tern_message_has(&request->message, TERN_F_SYSTEM);
    size_t length;
    const char *text = tern_message_text(&request->message, field, &length);
    if (length == 0)
        return tern_fail(error, TERN_USAGE, "the prompt is empty");
    if (memchr(text, '\0', length) != NULL)
        return tern_fail(error, TERN_USAGE, "the text of a chat holds NUL; take it out");
    char *system = tern_message_copy(&request->message, TERN_F_SYSTEM);
    char *user = tern_message_copy(&request->message, field);
    enum tern_status status = TERN_NO_MEMORY;
    if (user == NULL || (has_system && system == NULL)) {
        tern_fail(error, status, "out of memory");
    } else {
        const struct tern_chat_message messages[] = {{.role = "system", .text = system},
                                                     {.role = "user", .text = user}};
        status = tern_chat_prompt(file->catalog, file->tokenizer, messages + !has_system,
                                  1 + has_system, ids, error);
    }
    free(system);
    free(user);
    return status;
}

enum tern_status tern_request_text(const struct tern_request *request,
                                   const struct tern_model_file *file, enum tern_field field,
                                   bool chat, struct tern_ids *ids, struct tern_error *error)
{
    const struct tern_message *message = &request->message;
    struct tern_text text = {.parse_special = !tern_message_bool(message, TERN_F_NO_PARSE_SPECIAL)};
    *ids = (struct tern_ids){0};
    if (chat)
        return chat_ids(request, file, field, ids, error);
    if (tern_message_has(message, TERN_F_SYSTEM))
        return tern_fail(error, TERN_USAGE,
                         "a system text needs the chat template; leave out --raw");
    text.bytes = tern_message_text(message, field, &text.length);
    if (text.bytes == NULL)
        text.bytes = "";
    return tern_tokenize(file->tokenizer, &text, 1, !tern_message_bool(message, TERN_F_NO_SPECIAL),
                         ids, error);
}

/* The model runs without a tokenizer, too; text is another matter. */
static enum tern_status no_tokenizer(const struct tern_model_file *file, struct tern_error *error)
{
    const struct tern_error *why = &file->tokenizer_error;
    return tern_fail(error, why->status, "%s, or give token ids (--tokens)", why->message);
}

/* A text that is to go on has no end yet, whatever the file says of texts. */
static void leave_open(const struct tern_tokenizer *tokenizer, struct tern_ids *ids)
{
    const int64_t end = tern_text_end(tokenizer);
    if (end >= 0 && ids->count > 0 && ids->id[ids->count - 1] == end)
        ids->count--;
}

/* What the message holds as text; nothing here belongs to the loop. */
static enum tern_status text_ids(const struct tern_request *request, struct tern_ids *ids,
                                 struct tern_error *error)
{
    const struct tern_model_file *file = request->model->file;
    if (file->tokenizer == NULL)
        return no_tokenizer(file, error);
    if (tern_message_has(&request->message, TERN_F_MESSAGES))
        return tern_request_conversation(request, file, ids, error);
    const bool raw = tern_message_bool(&request->message, TERN_F_RAW);
    const enum tern_status status =
        tern_request_text(request, file, TERN_F_PROMPT, !raw, ids, error);
    if (status == TERN_OK && raw && !tern_message_bool(&request->message, TERN_F_NO_SPECIAL))
        leave_open(file->tokenizer, ids);
    return status;
}

static void run_texts(struct tern_job *job)
{
    struct tern_work *work = tern_work_of(job);
    work->status = text_ids(work->request, &work->ids, &work->error);
    if (work->status != TERN_OK || work->ids.count <= TERN_MAX_CONTEXT)
        return;
    work->status = tern_fail(&work->error, TERN_NO_MEMORY,
                             "the prompt has %zu tokens; no context is longer than %d",
                             work->ids.count, TERN_MAX_CONTEXT);
    tern_ids_free(&work->ids); /* the model may be long in coming */
}

static enum tern_status check_ids(const struct tern_request *request, const struct tern_ids *ids,
                                  struct tern_error *error)
{
    const struct tern_model *model = request->model;
    const uint32_t vocabulary = model->lane.plan->vocabulary;
    if (ids->count == 0)
        return tern_fail(error, TERN_USAGE, "the prompt is empty");
    if (ids->count > model->size.context)
        return tern_fail(error, TERN_NO_MEMORY,
                         "the prompt has %zu tokens, the context only %" PRIu32
                         "; use a larger --ctx or a shorter prompt",
                         ids->count, model->size.context);
    for (size_t i = 0; i < ids->count; i++)
        if (ids->id[i] >= vocabulary)
            return tern_fail(error, TERN_BAD_MODEL,
                             "the tokenizer gives id %" PRIu32 ", but the model has only %" PRIu32
                             " rows",
                             ids->id[i], vocabulary);
    return TERN_OK;
}

enum tern_status tern_prompt_check(const struct tern_request *request, struct tern_error *error)
{
    const struct tern_message *message = &request->message;
    if (tern_message_has(message, TERN_F_TOKENS) || tern_message_has(message, TERN_F_MESSAGES) ||
        tern_message_has(message, TERN_F_PROMPT))
        return TERN_OK;
    return tern_fail(error, TERN_USAGE, "the request has neither a prompt nor tokens");
}

bool tern_prompt_read(struct tern_request *request)
{
    const struct tern_work *work = &request->work;
    if (tern_message_has(&request->message, TERN_F_TOKENS))
        return true;
    if (!work->done)
        tern_work_start(request, run_texts);
    else if (work->status != TERN_OK)
        tern_reply_error(request, &work->error);
    return work->done && work->status == TERN_OK;
}

bool tern_prompt_ready(struct tern_request *request)
{
    struct tern_work *work = &request->work;
    if (!tern_prompt_read(request))
        return false;
    if (tern_message_has(&request->message, TERN_F_TOKENS))
        work->status = tern_request_tokens(request, request->model->lane.plan->vocabulary,
                                           &work->ids, &work->error);
    if (work->status == TERN_OK)
        work->status = check_ids(request, &work->ids, &work->error);
    if (work->status != TERN_OK)
        tern_reply_error(request, &work->error);
    return work->status == TERN_OK;
}
