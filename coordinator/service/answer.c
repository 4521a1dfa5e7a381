/*
 * The answer of a generate request: tokens of its session become text, text goes past the stop
 * texts, and what is left is sent. Ids are sent with the step that chose them; the bytes beside
 * them may lag behind (half a character, the beginning of a stop text).
 */
#include "coordinator/service/request.h"
#include "proto/plan.h"

#include <stdlib.h>
#include <string.h>

enum tern_status tern_answer_begin(struct tern_request *request, struct tern_error *error)
{
    size_t length;
    struct tern_answer *answer = &request->answer;
    const char *texts = tern_message_text(&request->message, TERN_F_STOP, &length);
    answer->likeliest = (uint32_t)tern_message_u64(&request->message, TERN_F_LOGPROBS, 0);
    const enum tern_status status = tern_sampling_read(&request->message, &answer->sampling, error);
    return status == TERN_OK ? tern_stops_new(texts, length, &answer->stops, error) : status;
}

enum tern_status tern_answer_check(const struct tern_request *request, struct tern_error *error)
{
    const struct tern_answer *answer = &request->answer;
    const struct tern_model *model = request->model;
    if (answer->stops != NULL && model->file->tokenizer == NULL)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "stop texts need the model's tokenizer, which Tern cannot read");
    return tern_sampling_check(&answer->sampling, model->lane.plan->vocabulary, error);
}

void tern_answer_free(struct tern_answer *answer)
{
    tern_stops_free(answer->stops);
    free((struct tern_bias *)answer->sampling.bias);
    free(answer->chances);
}

void tern_answer_chosen(struct tern_request *request, uint32_t token, const float *logits)
{
    struct tern_answer *answer = &request->answer;
    const size_t more = 1 + answer->likeliest;
    if (answer->chance_count + more > answer->chance_room) {
        const size_t room = 2 * answer->chance_room + 8 * more;
        struct tern_chance *grown = realloc(answer->chances, room * sizeof *grown);
        answer->failed |= grown == NULL;
        if (grown == NULL)
            return;
        answer->chances = grown;
        answer->chance_room = room;
    }
    tern_chances(logits, request->model->lane.plan->vocabulary, token, answer->likeliest,
                 answer->chances + answer->chance_count);
    answer->chance_count += more;
}

void tern_answer_follow(struct tern_request *request, const struct tern_ids *prompt)
{
    const struct tern_tokenizer *tokenizer = request->model->file->tokenizer;
    bool *started = &request->answer.decoder.started;
    if (tokenizer == NULL || !tern_message_bool(&request->message, TERN_F_RAW))
        return;
    for (size_t i = 0; i < prompt->count && !*started; i++)
        *started = prompt->id[i] < tern_vocabulary(tokenizer) &&
                   !tern_token_is_control(tokenizer, prompt->id[i]);
}

/* Control tokens are left out of the text; one that a stop text spells ends the answer all the
 * same. */
static bool is_stop_token(const struct tern_request *request, const uint32_t *id)
{
    const struct tern_tokenizer *tokenizer = request->model->file->tokenizer;
    size_t length;
    if (id == NULL || request->answer.stops == NULL || !tern_token_is_control(tokenizer, *id))
        return false;
    const char *bytes = tern_token_bytes(tokenizer, *id, &length);
    return tern_stops_name(request->answer.stops, bytes, length);
}

/* Text of one more id, or of what was held back when the answer is over (id NULL), past the stop
 * texts. Ids without text in the vocabulary have none (models may have more rows than tokens). */
static enum tern_status add_text(struct tern_request *request, const uint32_t *id, char **text,
                                 size_t *length, bool *stopped, struct tern_error *error)
{
    const struct tern_tokenizer *tokenizer = request->model->file->tokenizer;
    struct tern_answer *answer = &request->answer;
    const bool last = id == NULL, stops = answer->stops != NULL;
    char *piece = NULL;
    size_t bytes = 0;
    if (tokenizer == NULL || (!last && *id >= tern_vocabulary(tokenizer)))
        return TERN_OK;
    if (is_stop_token(request, id)) {
        const enum tern_status ended = add_text(request, NULL, text, length, stopped, error);
        *stopped = true;
        return ended;
    }
    enum tern_status status = tern_decode(tokenizer, &answer->decoder, id, !last, true, last,
                                          stops ? &piece : text, stops ? &bytes : length, error);
    if (stops && status == TERN_OK)
        status = tern_stops_feed(answer->stops, piece, bytes, text, length, stopped, error);
    if (stops && status == TERN_OK && last && !*stopped)
        status = tern_stops_end(answer->stops, text, length, error);
    free(piece);
    return status;
}

/* Takes tokens up to a stop text; *taken counts them. */
static enum tern_status take_tokens(struct tern_request *request, char **text, size_t *length,
                                    uint32_t *taken, bool *stopped, struct tern_error *error)
{
    const struct tern_session *session = request->session;
    const uint32_t from = request->answer.streamed;
    enum tern_status status = TERN_OK;
    *taken = 0;
    while (status == TERN_OK && !*stopped && from + *taken < session->count) {
        status = add_text(request, &session->ids[from + *taken], text, length, stopped, error);
        ++*taken;
    }
    if (status == TERN_OK && !*stopped && session->ended)
        status = add_text(request, NULL, text, length, stopped, error);
    return status;
}

/* The texts of the tokens in `chance`, malloc'ed: what a client shows beside the figures. */
static char *token_texts(const struct tern_tokenizer *tokenizer, const struct tern_chance *chance,
                         size_t count, size_t *length)
{
    char *texts = NULL;
    *length = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        const char *text = tokenizer != NULL && chance[i].id < tern_vocabulary(tokenizer)
                               ? tern_token_bytes(tokenizer, chance[i].id, &bytes)
                               : NULL;
        const uint32_t prefix = (uint32_t)bytes;
        char *grown = realloc(texts, *length + sizeof prefix + bytes);
        if (grown == NULL) {
            free(texts);
            return NULL;
        }
        texts = grown;
        memcpy(texts + *length, &prefix, sizeof prefix);
        if (bytes > 0)
            memcpy(texts + *length + sizeof prefix, text, bytes);
        *length += sizeof prefix + bytes;
    }
    return texts;
}

/* False: no memory. */
static bool pack_chances(struct tern_pack *pack, struct tern_request *request, uint32_t tokens)
{
    struct tern_answer *answer = &request->answer;
    const size_t count = tokens * (1u + answer->likeliest);
    size_t length;
    if (count == 0 || !request->session->every_choice)
        return true;
    char *texts = token_texts(request->model->file->tokenizer, answer->chances, count, &length);
    if (texts == NULL)
        return false;
    tern_pack_u64(pack, TERN_F_LOGPROBS, answer->likeliest);
    tern_pack_bytes(pack, TERN_F_CHANCES, answer->chances, count * sizeof *answer->chances);
    tern_pack_bytes(pack, TERN_F_PIECES, texts, length);
    free(texts);
    answer->chance_count -= count;
    memmove(answer->chances, answer->chances + count,
            answer->chance_count * sizeof *answer->chances);
    return true;
}

/* Sends what is new; *stopped: the answer ended in a stop text. */
static void stream(struct tern_request *request, bool *stopped)
{
    struct tern_answer *answer = &request->answer;
    const uint32_t *ids = request->session->ids + answer->streamed;
    struct tern_error error;
    struct tern_pack pack;
    char *text = NULL;
    size_t length = 0;
    uint32_t taken;
    enum tern_status status = take_tokens(request, &text, &length, &taken, stopped, &error);
    if (status == TERN_OK && answer->failed)
        status = tern_fail(&error, TERN_NO_MEMORY, "out of memory");
    if (status != TERN_OK) {
        tern_request_give_up(request, &error);
    } else if (taken > 0 || length > 0) {
        tern_reply_begin(&pack, TERN_MSG_TOKENS, request->number);
        if (taken > 0)
            tern_pack_bytes(&pack, TERN_F_TOKENS, ids, taken * sizeof *ids);
        if (request->model->file->tokenizer != NULL)
            tern_pack_bytes(&pack, TERN_F_BYTES, text != NULL ? text : "", length);
        pack.failed |= !pack_chances(&pack, request, taken);
        answer->streamed += taken;
        tern_reply_stream(request, &pack);
    }
    free(text);
}

static void finish(struct tern_request *request, const char *reason)
{
    const struct tern_session *session = request->session;
    const struct tern_session_times *times = &session->times;
    struct tern_pack pack;
    if (reason == NULL) {
        tern_reply_error(request, &session->error);
        return;
    }
    tern_reply_begin(&pack, TERN_MSG_DONE, request->number);
    tern_pack_text(&pack, TERN_F_REASON, reason);
    tern_pack_u64(&pack, TERN_F_PROMPT_TOKENS, session->prompt);
    tern_pack_u64(&pack, TERN_F_REUSED, session->reused);
    tern_pack_u64(&pack, TERN_F_COUNT, request->answer.streamed - session->prompt);
    tern_pack_u64(&pack, TERN_F_CTX, request->model->size.context);
    if (times->first_ns != 0) {
        tern_pack_u64(&pack, TERN_F_PROMPT_NS, times->first_ns - times->began_ns);
        tern_pack_u64(&pack, TERN_F_DECODE_NS, times->last_ns - times->first_ns);
        tern_pack_u64(&pack, TERN_F_WORKER_NS, times->worker_ns);
    }
    if (!session->every_row)
        tern_pack_u64(&pack, TERN_F_SEED, request->answer.sampling.seed);
    tern_reply_last(request, &pack);
}

void tern_answer_flush(struct tern_request *request)
{
    struct tern_session *session = request->session;
    bool stopped = false;
    if (request->gone && !session->ended)
        tern_scheduler_cancel(request->service->scheduler, session);
    else if (!session->every_row && !request->finished && (session->ended || session->credit > 0))
        stream(request, &stopped);
    if (request->finished || !(session->ended || stopped))
        return;
    finish(request, stopped ? "stop" : session->reason);
    if (stopped)
        tern_scheduler_cancel(request->service->scheduler, session);
}
