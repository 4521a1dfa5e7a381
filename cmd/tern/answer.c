#include "cmd/tern/answer.h"

#include "proto/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Does a character begin here that the end cuts off? */
static bool is_cut(const char *bytes, size_t length)
{
    const unsigned char first = (unsigned char)bytes[0];
    const size_t whole = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first >= 0xf5 || length >= whole)
        return false;
    for (size_t i = 1; i < length; i++)
        if (((unsigned char)bytes[i] & 0xc0) != 0x80)
            return false;
    return true;
}

json_t *json_of_bytes(const char *bytes, size_t length)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *text = malloc(3 * length + 1);
    size_t out = 0;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < length;) {
        const int character = tern_utf8_character(bytes + i, length - i);
        const bool good = character > 0;
        const size_t step = good                            ? (size_t)character
                            : is_cut(bytes + i, length - i) ? length - i
                                                            : 1;
        memcpy(text + out, good ? bytes + i : replacement, good ? step : 3);
        out += good ? step : 3;
        i += step;
    }
    json_t *json = json_stringn(text, out);
    free(text);
    return json;
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

/* jansson's integers end at 2^63 - 1: larger seeds are strings. */
static json_t *json_of_seed(uint64_t seed)
{
    return seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_sprintf("%" PRIu64, seed);
}

bool answer_json_print(const struct answer_json *answer, const struct collected *collected,
                       const struct tern_message *done)
{
    static const struct {
        const char *name;
        enum tern_field field;
    } counts[] = {{"prompt_tokens", TERN_F_PROMPT_TOKENS},
                  {"reused", TERN_F_REUSED},
                  {"tokens", TERN_F_COUNT},
                  {"context", TERN_F_CTX},
                  {"seed", TERN_F_SEED}};
    size_t length;
    const char *reason = tern_message_text(done, TERN_F_REASON, &length);
    json_t *object = json_object();
    json_object_set_new(object, "text",
                        answer->no_text ? json_null()
                                        : json_of_bytes(collected->bytes, collected->length));
    json_object_set_new(object, "ids", json_of_ids(collected));
    json_object_set_new(object, "reason", json_of_bytes(reason, length));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        json_object_set_new(object, counts[i].name,
                            json_integer((json_int_t)tern_message_u64(done, counts[i].field, 0)));
    json_object_set_new(object, "seed", json_of_seed(tern_message_u64(done, TERN_F_SEED, 0)));
    json_object_set_new(object, "prompt_s",
                        json_real((double)tern_message_u64(done, TERN_F_PROMPT_NS, 0) * 1e-9));
    json_object_set_new(object, "decode_s",
                        json_real((double)tern_message_u64(done, TERN_F_DECODE_NS, 0) * 1e-9));
    if (answer->logprobs != NULL)
        json_object_set(object, "logprobs", answer->logprobs);
    char *text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(object);
    const bool written = text != NULL && write_out(text, strlen(text)) && write_out("\n", 1);
    free(text);
    return written;
}
