/*
 * tokenize and detokenize: a thread does the work and packs the replies, the loop only sends them,
 * as the client reads.
 */
#include "coordinator/service/request.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = (1 << 20) - 4096, /* of one reply: with its header not over a power of 2 */
    MOST_BYTES = 128 << 20,
    PIECE_IDS = PIECE_BYTES / 4,
    DECODE_IDS = 4096, /* ids decoded before the text is looked at */
};

static enum tern_status add_reply(struct tern_work *work, enum tern_field field, const void *bytes,
                                  size_t length, struct tern_error *error)
{
    struct tern_pack *grown = realloc(work->replies, (work->count + 1) * sizeof *grown);
    if (grown == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    work->replies = grown;
    tern_reply_begin(&grown[work->count], TERN_MSG_TOKENS, work->request->number);
    tern_pack_bytes(&grown[work->count], field, bytes, length);
    work->count++;
    return TERN_OK;
}

static enum tern_status encode_all(struct tern_work *work, struct tern_error *error)
{
    const struct tern_message *message = &work->request->message;
    const enum tern_field field =
        tern_message_has(message, TERN_F_BYTES) ? TERN_F_BYTES : TERN_F_TEXT;
    enum tern_status status =
        tern_request_text(work->request, work->request->file, field,
                          tern_message_bool(message, TERN_F_CHAT), &work->ids, error);
    const struct tern_ids *ids = &work->ids;
    if (status == TERN_OK && ids->count > MOST_BYTES / sizeof *ids->id)
        status = tern_fail(error, TERN_USAGE,
                           "the text has %zu tokens, more than one reply can carry", ids->count);
    for (size_t i = 0; status == TERN_OK && (i == 0 || i < ids->count); i += PIECE_IDS) {
        const size_t count = ids->count - i < PIECE_IDS ? ids->count - i : PIECE_IDS;
        status = add_reply(work, TERN_F_TOKENS, ids->id + i, count * sizeof *ids->id, error);
    }
    tern_ids_free(&work->ids); /* the replies may wait long for their reader */
    return status;
}

static enum tern_status decode_all(struct tern_work *work, struct tern_error *error)
{
    const struct tern_tokenizer *tokenizer = work->request->file->tokenizer;
    const struct tern_ids *ids = &work->ids;
    struct tern_decoder decoder = {0};
    size_t length = 0, total = 0;
    char *text = NULL;
    enum tern_status status =
        tern_request_tokens(work->request, tern_vocabulary(tokenizer), &work->ids, error);
    for (size_t i = 0; status == TERN_OK && i < ids->count; i += DECODE_IDS) {
        const size_t count = ids->count - i < DECODE_IDS ? ids->count - i : DECODE_IDS;
        const bool last = i + count == ids->count;
        status = tern_decode(tokenizer, &decoder, ids->id + i, count, false, last, &text, &length,
                             error);
        if (status != TERN_OK || (length < PIECE_BYTES / 2 && !last))
            continue;
        total += length;
        if (total > MOST_BYTES || length > TERN_MESSAGE_MAX / 2)
            status = tern_fail(error, TERN_USAGE, "the text is longer than one reply can carry");
        else
            status = add_reply(work, TERN_F_BYTES, text != NULL ? text : "", length, error);
        length = 0;
    }
    free(text);
    tern_ids_free(&work->ids);
    return status;
}

static void run_encode(struct tern_job *job)
{
    struct tern_work *work = tern_work_of(job);
    work->status = encode_all(work, &work->error);
}

static void run_decode(struct tern_job *job)
{
    struct tern_work *work = tern_work_of(job);
    work->status = decode_all(work, &work->error);
}

/* Sends what the client has room for; it goes on when the client has read, or with the pulse. */
static void send_replies(struct tern_request *request)
{
    struct tern_work *work = &request->work;
    while (work->sent < work->count && request->unacknowledged < TERN_CREDIT_WORK &&
           tern_outbox_drained(request->outbox) && !request->gone)
        tern_reply_stream(request, &work->replies[work->sent++]);
    if (work->sent == work->count && !request->gone)
        tern_reply_done(request, "stop");
    else if (request->starved_ns == 0)
        request->starved_ns = tern_now_ns();
}

static void go_on(struct tern_request *request, void (*run)(struct tern_job *job))
{
    const struct tern_work *work = &request->work;
    if (request->file->tokenizer == NULL)
        tern_reply_error(request, &request->file->tokenizer_error);
    else if (!work->done)
        tern_work_start(request, run);
    else if (work->status != TERN_OK)
        tern_reply_error(request, &work->error);
    else
        send_replies(request);
}

void tern_request_tokenize(struct tern_request *request)
{
    go_on(request, run_encode);
}

void tern_request_detokenize(struct tern_request *request)
{
    go_on(request, run_decode);
}
