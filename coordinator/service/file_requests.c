/* Requests that need a model's file but no weights: tokenize, detokenize, info, plan. */
#include "coordinator/model/options.h"
#include "coordinator/service/request.h"

#include <stdlib.h>
#include <string.h>

/* Their replies come all at once, within the credit: few large pieces. */
enum {
    PIECE_BYTES = 4 << 20,
    MOST_BYTES = 32 * PIECE_BYTES,
    PIECE_IDS = PIECE_BYTES / 4,
    DECODE_IDS = 4096, /* ids decoded before the text is looked at */
};

static void stream_ids(struct tern_request *request, const struct tern_ids *ids)
{
    for (size_t i = 0; i == 0 || i < ids->count; i += PIECE_IDS) {
        const size_t count = ids->count - i < PIECE_IDS ? ids->count - i : PIECE_IDS;
        struct tern_pack pack;
        tern_reply_begin(&pack, TERN_MSG_TOKENS, request->number);
        tern_pack_bytes(&pack, TERN_F_TOKENS, ids->id + i, count * sizeof *ids->id);
        tern_reply_stream(request, &pack);
    }
}

static void stream_text(struct tern_request *request, const char *text, size_t length)
{
    struct tern_pack pack;
    tern_reply_begin(&pack, TERN_MSG_TOKENS, request->number);
    tern_pack_bytes(&pack, TERN_F_BYTES, text != NULL ? text : "", length);
    tern_reply_stream(request, &pack);
}

void tern_request_tokenize(struct tern_request *request)
{
    const struct tern_message *message = &request->message;
    const enum tern_field field =
        tern_message_has(message, TERN_F_BYTES) ? TERN_F_BYTES : TERN_F_TEXT;
    struct tern_error error = request->file->tokenizer_error;
    struct tern_ids ids;
    if (request->file->tokenizer == NULL ||
        tern_request_text(request, request->file, field, tern_message_bool(message, TERN_F_CHAT),
                          &ids, &error) != TERN_OK) {
        tern_reply_error(request, &error);
        return;
    }
    if (ids.count > MOST_BYTES / sizeof *ids.id) {
        tern_fail(&error, TERN_USAGE, "the text has %zu tokens, more than one reply can carry",
                  ids.count);
        tern_reply_error(request, &error);
    } else {
        stream_ids(request, &ids);
        tern_reply_done(request, "stop");
    }
    tern_ids_free(&ids);
}

static enum tern_status decode_all(struct tern_request *request, const struct tern_ids *ids,
                                   struct tern_error *error)
{
    struct tern_decoder decoder = {0};
    size_t length = 0, total = 0;
    char *text = NULL;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; status == TERN_OK && i < ids->count; i += DECODE_IDS) {
        const size_t count = ids->count - i < DECODE_IDS ? ids->count - i : DECODE_IDS;
        const bool last = i + count == ids->count;
        status = tern_decode(request->file->tokenizer, &decoder, ids->id + i, count, false, last,
                             &text, &length, error);
        if (status != TERN_OK || (length < PIECE_BYTES / 2 && !last))
            continue;
        total += length;
        if (total > MOST_BYTES || length > TERN_MESSAGE_MAX / 2)
            status = tern_fail(error, TERN_USAGE, "the text is longer than one reply can carry");
        else
            stream_text(request, text, length);
        length = 0;
    }
    free(text);
    return status;
}

void tern_request_detokenize(struct tern_request *request)
{
    struct tern_error error = request->file->tokenizer_error;
    struct tern_ids ids;
    if (request->file->tokenizer == NULL ||
        tern_request_tokens(request, tern_vocabulary(request->file->tokenizer), &ids, &error) !=
            TERN_OK) {
        tern_reply_error(request, &error);
        return;
    }
    if (decode_all(request, &ids, &error) == TERN_OK)
        tern_reply_done(request, "stop");
    else
        tern_reply_error(request, &error);
    tern_ids_free(&ids);
}

static void reply_text(struct tern_request *request, char *json, char *text)
{
    struct tern_error error;
    const char *found = json != NULL ? json : text;
    if (found == NULL) {
        tern_fail(&error, TERN_NO_MEMORY, "out of memory");
        tern_reply_error(request, &error);
    } else if (strlen(found) > TERN_MESSAGE_MAX - 4096) {
        tern_fail(&error, TERN_FAILED, "the answer is longer than a message can be");
        tern_reply_error(request, &error);
    } else {
        tern_reply_result(request, json, text);
    }
    free(json);
    free(text);
}

void tern_request_info(struct tern_request *request)
{
    size_t length;
    const char *format = tern_message_text(&request->message, TERN_F_FORMAT, &length);
    const bool metadata =
        format != NULL && length == strlen("metadata") && memcmp(format, "metadata", length) == 0;
    reply_text(request, tern_describe_file(request->file, request->service->models, metadata),
               NULL);
}

/* Compiled as a load would, but without asking for memory: the plan of a model too large for this
 * machine can be looked at. */
void tern_request_plan(struct tern_request *request)
{
    char *format = tern_message_copy(&request->message, TERN_F_FORMAT);
    struct tern_compiled compiled = {0};
    struct tern_size_choice size;
    struct tern_error error;
    char *text = NULL;
    const struct tern_catalog *catalog = request->file->catalog;
    enum tern_status status = tern_options_read(&request->message, &request->options, &error);
    if (status == TERN_OK)
        status = tern_choose_size(catalog, &request->options, UINT64_MAX, &size, &error);
    if (status == TERN_OK)
        status = tern_compile(catalog, &request->options, size.context, &compiled, &error);
    if (status == TERN_OK) {
        text = tern_plan_print(&compiled, catalog, format != NULL ? format : "table", &error);
        status = text != NULL ? TERN_OK : error.status;
    }
    if (status != TERN_OK)
        tern_reply_error(request, &error);
    else if (format != NULL && strcmp(format, "json") == 0)
        reply_text(request, text, NULL);
    else
        reply_text(request, NULL, text);
    tern_compiled_free(&compiled);
    free(format);
}
