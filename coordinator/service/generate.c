/* Requests that run on a loaded model: generate and logits. */
#include "coordinator/service/request.h"
#include "proto/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_BYTES = 1 << 20 }; /* of logits in one reply, unless a single row is larger */

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
    const bool reads = used < TERN_CREDIT_WORK && tern_outbox_drained(request->outbox);
    const uint32_t left = reads ? TERN_CREDIT_WORK - used : 0;
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
    wish->ids = request->work.ids.id;
    wish->count = (uint32_t)request->work.ids.count;
    wish->client = (uintptr_t)request->outbox; /* one for each client */
    request->session = tern_session_new(wish, model->size.context, &events);
    tern_answer_follow(request, &request->work.ids);
    tern_ids_free(&request->work.ids);
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
    struct tern_error error;
    struct tern_session_wish wish = {
        .most = (uint32_t)tern_message_u64(message, TERN_F_N, TERN_MAX_CONTEXT),
        .ignore_ends = tern_message_bool(message, TERN_F_IGNORE_EOS),
        .every_choice = tern_message_has(message, TERN_F_LOGPROBS),
        .sampling = request->answer.sampling,
    };
    if (tern_answer_check(request, &error) != TERN_OK)
        tern_reply_error(request, &error);
    else if (tern_prompt_ready(request))
        start_session(request, &wish);
}

void tern_request_logits(struct tern_request *request)
{
    struct tern_session_wish wish = {.every_row = true};
    if (tern_prompt_ready(request))
        start_session(request, &wish);
}

/* Sessions of the model that wait for a page table, up to this one. */
static uint32_t place_in_queue(const struct tern_session *session)
{
    uint32_t place = 1;
    for (const struct tern_session *s = session->lane->sessions; s != session; s = s->next)
        place += s->sequence < 0;
    return place;
}

void tern_generate_progress(struct tern_request *request)
{
    const struct tern_session *session = request->session;
    const uint32_t done = session->computed < session->prompt ? session->computed : session->prompt;
    const char *text = "generating";
    char waiting[64];
    if (session->sequence < 0) {
        snprintf(waiting, sizeof waiting, "waiting for other requests (place %" PRIu32 ")",
                 place_in_queue(session));
        text = waiting;
    } else if (done < session->prompt) {
        text = "reading the prompt";
    }
    tern_reply_progress(request, text, done, session->prompt);
}
