/* Requests that run on a loaded model: generate and logits. */
#include "coordinator/chat/chat.h"
#include "coordinator/service/request.h"
#include "proto/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_BYTES = 1 << 20 }; /* of logits in one reply, unless a single row is larger */

/* ---- prompts ---- */

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
    struct tern_chat_message messages[2];
    size_t count = 0;
    char *system = tern_message_copy(&request->message, TERN_F_SYSTEM);
    char *user = tern_message_copy(&request->message, field);
    enum tern_status status = TERN_OK;
    if (system != NULL)
        messages[count++] = (struct tern_chat_message){.role = "system", .text = system};
    if (user != NULL)
        messages[count++] = (struct tern_chat_message){.role = "user", .text = user};
    if (user == NULL || strlen(user) == 0)
        status = tern_fail(error, TERN_USAGE, "the prompt is empty");
    else
        status = tern_chat_prompt(file->catalog, file->tokenizer, messages, count, ids, error);
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

static enum tern_status prompt_ids(const struct tern_request *request, struct tern_ids *ids,
                                   struct tern_error *error)
{
    const struct tern_model *model = request->model;
    const uint32_t vocabulary = model->lane.plan->vocabulary;
    const bool tokens = tern_message_has(&request->message, TERN_F_TOKENS);
    enum tern_status status;
    if (tokens)
        status = tern_request_tokens(request, vocabulary, ids, error);
    else if (model->file->tokenizer == NULL)
        return no_tokenizer(model->file, error);
    else if (tern_message_has(&request->message, TERN_F_MESSAGES))
        status = tern_request_conversation(request, model->file, ids, error);
    else if (tern_message_has(&request->message, TERN_F_PROMPT))
        status = tern_request_text(request, model->file, TERN_F_PROMPT,
                                   !tern_message_bool(&request->message, TERN_F_RAW), ids, error);
    else
        return tern_fail(error, TERN_USAGE, "the request has neither a prompt nor tokens");
    if (status != TERN_OK)
        return status;
    if (ids->count == 0)
        status = tern_fail(error, TERN_USAGE, "the prompt is empty");
    else if (ids->count > model->size.context)
        status = tern_fail(error, TERN_NO_MEMORY,
                           "the prompt has %zu tokens, the context only %" PRIu32
                           "; use a larger --ctx or a shorter prompt",
                           ids->count, model->size.context);
    for (size_t i = 0; status == TERN_OK && i < ids->count; i++)
        if (ids->id[i] >= vocabulary)
            status = tern_fail(error, TERN_BAD_MODEL,
                               "the tokenizer gives id %" PRIu32 ", but the model has only %" PRIu32
                               " rows",
                               ids->id[i], vocabulary);
    if (status != TERN_OK)
        tern_ids_free(ids);
    return status;
}

/* ---- credit and rows ---- */

static uint32_t rows_in_reply(const struct tern_request *request)
{
    const uint32_t row = request->model->lane.plan->vocabulary * (uint32_t)sizeof(float);
    return row < ROWS_BYTES ? ROWS_BYTES / row : 1;
}

void tern_request_update_credit(struct tern_request *request)
{
    struct tern_session *session = request->session;
    const uint32_t used = request->unacknowledged;
    if (session == NULL || request->over)
        return;
    const uint32_t left = used < TERN_CREDIT_WORK ? TERN_CREDIT_WORK - used : 0;
    if (session->every_row)
        session->credit = left * rows_in_reply(request);
    else
        session->credit = left > 0 ? UINT32_MAX : 0;
    if (session->credit == 0 && request->starved_ns == 0)
        request->starved_ns = tern_now_ns();
}

static void on_changed(void *context)
{
    struct tern_request *request = context;
    struct tern_service *service = request->service;
    request->over = request->session->ended;
    tern_answer_flush(request);
    if (service->again)
        tern_service_advance(service);
}

static void on_rows(void *context, uint32_t first, uint32_t rows, const uint8_t *logits,
                    uint32_t stride)
{
    struct tern_request *request = context;
    const size_t row_bytes = request->model->lane.plan->vocabulary * sizeof(float);
    const uint32_t at_most = rows_in_reply(request);
    for (uint32_t i = 0; i < rows && !request->gone; i += at_most) {
        const uint32_t count = rows - i < at_most ? rows - i : at_most;
        struct tern_pack pack;
        for (uint32_t j = 0; j < count; j++)
            memcpy(request->rows + j * row_bytes, logits + (size_t)(i + j) * stride, row_bytes);
        tern_reply_begin(&pack, TERN_MSG_ROWS, request->number);
        tern_pack_u64(&pack, TERN_F_COUNT, first + i);
        tern_pack_bytes(&pack, TERN_F_DATA, request->rows, count * row_bytes);
        tern_reply_stream(request, &pack);
    }
}

static void on_chosen(void *context, uint32_t token, const float *logits)
{
    tern_answer_chosen(context, token, logits);
}

/* ---- starting ---- */

static void start_session(struct tern_request *request, struct tern_session_wish *wish)
{
    const struct tern_session_events events = {
        .context = request, .changed = on_changed, .rows = on_rows, .chosen = on_chosen};
    struct tern_model *model = request->model;
    struct tern_error error;
    struct tern_ids ids;
    if (prompt_ids(request, &ids, &error) != TERN_OK) {
        tern_reply_error(request, &error);
        return;
    }
    wish->ids = ids.id;
    wish->count = (uint32_t)ids.count;
    request->session = tern_session_new(wish, model->size.context, &events);
    tern_ids_free(&ids);
    if (wish->every_row)
        request->rows =
            malloc(rows_in_reply(request) * model->lane.plan->vocabulary * sizeof(float));
    if (request->session == NULL || (wish->every_row && request->rows == NULL)) {
        tern_session_free(request->session);
        request->session = NULL;
        tern_fail(&error, TERN_NO_MEMORY, "out of memory");
        tern_reply_error(request, &error);
        return;
    }
    request->answer.streamed = wish->count;
    tern_request_update_credit(request);
    tern_scheduler_submit(request->service->scheduler, &model->lane, request->session);
}

void tern_request_generate(struct tern_request *request)
{
    const struct tern_message *message = &request->message;
    const uint32_t vocabulary = request->model->lane.plan->vocabulary;
    struct tern_error error;
    struct tern_session_wish wish = {
        .most = (uint32_t)tern_message_u64(message, TERN_F_N, TERN_MAX_CONTEXT),
        .ignore_ends = tern_message_bool(message, TERN_F_IGNORE_EOS),
        .every_choice = tern_message_has(message, TERN_F_LOGPROBS),
    };
    enum tern_status status = tern_answer_begin(request, &error);
    if (status == TERN_OK)
        status = tern_request_sampling(request, vocabulary, &wish.sampling, &error);
    if (status != TERN_OK)
        tern_reply_error(request, &error);
    else
        start_session(request, &wish);
    request->answer.seed = wish.sampling.seed;
    free((struct tern_bias *)wish.sampling.bias); /* the session has a copy */
}

void tern_request_logits(struct tern_request *request)
{
    struct tern_session_wish wish = {.every_row = true};
    start_session(request, &wish);
}

void tern_generate_progress(struct tern_request *request)
{
    const struct tern_session *session = request->session;
    const uint32_t done = session->computed < session->prompt ? session->computed : session->prompt;
    const char *text = "generating";
    if (session->sequence < 0)
        text = "waiting for other requests";
    else if (done < session->prompt)
        text = "reading the prompt";
    tern_reply_progress(request, text, done, session->prompt);
}
