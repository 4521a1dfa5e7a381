#include "cmd/tern/answer.h"

#include "cmd/tern/json_output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- figures ---- */

static double seconds_of(const struct tern_message *done, enum tern_field field)
{
    return (double)tern_message_u64(done, field, 0) * 1e-9;
}

void answer_figures_take(struct answer_figures *figures, const struct tern_message *done)
{
    size_t length;
    const char *reason = tern_message_text(done, TERN_F_REASON, &length);
    *figures = (struct answer_figures){
        .prompt_tokens = tern_message_u64(done, TERN_F_PROMPT_TOKENS, 0),
        .reused = tern_message_u64(done, TERN_F_REUSED, 0),
        .tokens = tern_message_u64(done, TERN_F_COUNT, 0),
        .context = tern_message_u64(done, TERN_F_CTX, 0),
        .seed = tern_message_u64(done, TERN_F_SEED, 0),
        .prompt_s = seconds_of(done, TERN_F_PROMPT_NS),
        .decode_s = seconds_of(done, TERN_F_DECODE_NS),
    };
    if (reason != NULL)
        snprintf(figures->reason, sizeof figures->reason, "%.*s", (int)length, reason);
}

static double rate(uint64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

bool answer_filled_context(const struct answer_figures *f)
{
    return strcmp(f->reason, "length") == 0 && f->prompt_tokens + f->tokens >= f->context;
}

void answer_figures_print(const struct answer_figures *f)
{
    const uint64_t computed = f->reused < f->prompt_tokens ? f->prompt_tokens - f->reused : 0;
    const uint64_t steps = f->tokens > 1 ? f->tokens - 1 : 0; /* the prompt gives the first */
    fprintf(stderr,
            "prompt: %" PRIu64 " tokens, %.3f s, %.1f tokens/s\n"
            "answer: %" PRIu64 " tokens, %.3f s, %.1f tokens/s (%s)\ncontext: %" PRIu64
            "\nseed: %" PRIu64 "\nreused: %" PRIu64 " tokens of the prompt\n",
            f->prompt_tokens, f->prompt_s, rate(computed, f->prompt_s), f->tokens, f->decode_s,
            rate(steps, f->decode_s), f->reason, f->context, f->seed, f->reused);
}

void answer_figures_add(const struct answer_figures *figures, json_t *object)
{
    json_object_set_new(object, "reason", json_of_text(figures->reason));
    json_object_set_new(object, "prompt_tokens", json_of_count(figures->prompt_tokens));
    json_object_set_new(object, "reused", json_of_count(figures->reused));
    json_object_set_new(object, "tokens", json_of_count(figures->tokens));
    json_object_set_new(object, "context", json_of_count(figures->context));
    json_object_set_new(object, "seed", json_of_count(figures->seed));
    json_object_set_new(object, "prompt_s", json_real(figures->prompt_s));
    json_object_set_new(object, "decode_s", json_real(figures->decode_s));
}

/* ---- log-probabilities ---- */

struct chance {
    uint32_t id;
    float logprob;
};

/* The pairs and texts of a reply that are still to be read. */
struct reader {
    const char *chances, *pieces;
    size_t chance_bytes, piece_bytes;
};

/* {"id", "token", "logprob"} of the next pair; NULL: the reply is broken, or no memory. */
static json_t *next_chance(struct reader *in)
{
    struct chance chance;
    uint32_t length;
    if (in->chance_bytes < sizeof chance || in->piece_bytes < sizeof length)
        return NULL;
    memcpy(&chance, in->chances, sizeof chance);
    memcpy(&length, in->pieces, sizeof length);
    if (length > in->piece_bytes - sizeof length)
        return NULL;
    json_t *token = json_of_bytes(in->pieces + sizeof length, length);
    in->chances += sizeof chance;
    in->chance_bytes -= sizeof chance;
    in->pieces += sizeof length + length;
    in->piece_bytes -= sizeof length + length;
    json_t *logprob = isfinite(chance.logprob) ? json_real((double)chance.logprob) : json_null();
    return json_pack("{s:I, s:o, s:o}", "id", (json_int_t)chance.id, "token", token, "logprob",
                     logprob);
}

/* One token's object: itself and the likeliest ones; NULL as above. */
static json_t *next_token(struct reader *in, uint64_t likeliest)
{
    json_t *token = next_chance(in), *top = json_array();
    bool good = token != NULL && top != NULL;
    for (uint64_t i = 0; i < likeliest && good; i++) {
        struct chance chance = {0};
        if (in->chance_bytes >= sizeof chance)
            memcpy(&chance, in->chances, sizeof chance);
        json_t *other = next_chance(in);
        good = other != NULL;
        if (good && chance.id != UINT32_MAX) /* the vocabulary has fewer than were asked for */
            good = json_array_append_new(top, other) == 0;
        else
            json_decref(other);
    }
    if (good && json_object_set(token, "top", top) == 0) {
        json_decref(top);
        return token;
    }
    json_decref(token);
    json_decref(top);
    return NULL;
}

bool answer_json_take(struct answer_json *answer, const struct tern_message *reply)
{
    struct reader in;
    answer->no_text |=
        tern_message_has(reply, TERN_F_TOKENS) && !tern_message_has(reply, TERN_F_BYTES);
    if (!tern_message_has(reply, TERN_F_CHANCES))
        return true;
    in.chances = tern_message_text(reply, TERN_F_CHANCES, &in.chance_bytes);
    in.pieces = tern_message_text(reply, TERN_F_PIECES, &in.piece_bytes);
    if (answer->logprobs == NULL)
        answer->logprobs = json_array();
    while (in.chance_bytes > 0)
        if (json_array_append_new(answer->logprobs,
                                  next_token(&in, tern_message_u64(reply, TERN_F_LOGPROBS, 0))) !=
            0)
            return false;
    return true;
}

void answer_json_free(struct answer_json *answer)
{
    json_decref(answer->logprobs);
}

/* ---- the whole ---- */

static json_t *json_of_ids(const struct collected *collected)
{
    json_t *list = json_array();
    for (size_t i = 0; i < collected->count; i++)
        json_array_append_new(list, json_integer(collected->ids[i]));
    return list;
}

bool answer_json_print(const struct answer_json *answer, const struct collected *collected,
                       const struct answer_figures *figures)
{
    json_t *object = json_object();
    json_object_set_new(object, "text",
                        answer->no_text ? json_null()
                                        : json_of_bytes(collected->bytes, collected->length));
    json_object_set_new(object, "ids", json_of_ids(collected));
    answer_figures_add(figures, object);
    if (answer->logprobs != NULL)
        json_object_set(object, "logprobs", answer->logprobs);
    const bool printed = print_json_line(object);
    json_decref(object);
    return printed;
}
