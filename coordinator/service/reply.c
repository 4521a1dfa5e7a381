/* Replies: packed, sent without blocking, counted against the client's credit. */
#include "coordinator/service/request.h"

#include <errno.h>
#include <string.h>

void tern_reply_begin(struct tern_pack *pack, enum tern_message_kind kind, uint64_t request)
{
    tern_pack_begin(pack, kind);
    tern_pack_u64(pack, TERN_F_REQUEST, request);
}

/* The client vanished, does not read what it asks for, or there is no memory for its reply: nothing
 * more goes there, since an answer with a gap would look like a whole one. */
static void lose_client(struct tern_service *service, const struct tern_client *client)
{
    for (struct tern_request *request = service->requests; request != NULL; request = request->next)
        if (tern_same_client(&request->client, client))
            request->gone = true;
    service->again = true;
}

void tern_reply_send(struct tern_request *request, struct tern_pack *pack)
{
    if (request->gone)
        tern_pack_free(pack);
    else if (!tern_outbox_send(request->outbox, request->service->socket, pack))
        lose_client(request->service, &request->client);
    request->sent_ns = tern_now_ns();
}

void tern_reply_stream(struct tern_request *request, struct tern_pack *pack)
{
    request->unacknowledged++;
    tern_reply_send(request, pack);
    tern_request_update_credit(request);
}

void tern_reply_last(struct tern_request *request, struct tern_pack *pack)
{
    tern_reply_send(request, pack);
    request->finished = true;
    request->service->again = true;
}

/* The parser, the compiler and the tokenizer find fault with a file whose name they do not know. */
static struct tern_error with_name(const struct tern_request *request,
                                   const struct tern_error *error)
{
    struct tern_error named = *error;
    const struct tern_model_file *file =
        request->model != NULL ? request->model->file : request->file;
    if (file != NULL && (error->status == TERN_BAD_MODEL || error->status == TERN_UNSUPPORTED)) {
        const char *slash = strrchr(file->path, '/');
        tern_add_name(&named, slash != NULL ? slash + 1 : file->path);
    }
    return named;
}

void tern_reply_error(struct tern_request *request, const struct tern_error *error)
{
    struct tern_pack pack;
    const struct tern_error named = with_name(request, error);
    tern_reply_begin(&pack, TERN_MSG_ERROR, request->number);
    tern_pack_u64(&pack, TERN_F_STATUS, (uint64_t)named.status);
    tern_pack_text(&pack, TERN_F_TEXT, named.message);
    tern_reply_last(request, &pack);
}

void tern_reply_result(struct tern_request *request, const char *json, const char *text)
{
    struct tern_pack pack;
    tern_reply_begin(&pack, TERN_MSG_RESULT, request->number);
    if (json != NULL)
        tern_pack_text(&pack, TERN_F_JSON, json);
    if (text != NULL)
        tern_pack_text(&pack, TERN_F_TEXT, text);
    tern_reply_last(request, &pack);
}

void tern_reply_done(struct tern_request *request, const char *reason)
{
    struct tern_pack pack;
    tern_reply_begin(&pack, TERN_MSG_DONE, request->number);
    tern_pack_text(&pack, TERN_F_REASON, reason);
    tern_reply_last(request, &pack);
}

/* May a progress reply be sent, as far as the client has taken the earlier ones? */
static bool has_room(struct tern_request *request)
{
    const bool rows = request->session != NULL && request->session->every_row;
    const uint64_t now = tern_now_ns();
    if (request->unacknowledged < (rows ? TERN_CREDIT_PROGRESS_ROWS : TERN_CREDIT_PROGRESS))
        return true;
    if (request->starved_ns == 0)
        request->starved_ns = now;
    return request->unacknowledged < TERN_CREDIT - 1 && now - request->sent_ns >= TERN_PROBE_NS;
}

void tern_reply_progress(struct tern_request *request, const char *text, uint64_t done,
                         uint64_t all)
{
    struct tern_pack pack;
    if (!has_room(request))
        return;
    tern_reply_begin(&pack, TERN_MSG_PROGRESS, request->number);
    tern_pack_text(&pack, TERN_F_TEXT, text);
    tern_pack_u64(&pack, TERN_F_DONE_UNITS, done);
    tern_pack_u64(&pack, TERN_F_ALL_UNITS, all);
    tern_reply_stream(request, &pack);
}

void tern_reply_note(struct tern_request *request, const char *text)
{
    struct tern_pack pack;
    if (!has_room(request))
        return;
    tern_reply_begin(&pack, TERN_MSG_PROGRESS, request->number);
    tern_pack_text(&pack, TERN_F_TEXT, text);
    tern_reply_stream(request, &pack);
}

void tern_request_acknowledge(struct tern_request *request, uint64_t count)
{
    request->unacknowledged -=
        count < request->unacknowledged ? (uint32_t)count : request->unacknowledged;
    if (count > 0)
        request->starved_ns = 0;
    request->service->again = true; /* what streams without a session goes on */
    tern_request_resume(request);
}

void tern_request_resume(struct tern_request *request)
{
    if (request->session == NULL || request->over)
        return;
    tern_request_update_credit(request);
    if (request->session->credit == 0)
        return;
    tern_answer_flush(request);
    tern_scheduler_resume(request->service->scheduler);
}
