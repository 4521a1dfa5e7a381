/*
 * Merging by score, as SentencePiece's BPE models do: two neighbours merge if their text together
 * is a token, the one with the highest score first. The whole text is one word there; here it is
 * cut where two characters meet that no token has side by side, which changes nothing, because no
 * merge could reach across.
 */
#include "coordinator/tokenizer/encode.h"
#include "coordinator/tokenizer/hash.h"
#include "coordinator/tokenizer/unicode.h"
#include "proto/utf8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bits of the set of neighbours. A pair that is in it by accident only makes a word longer. */
enum { NEIGHBOUR_BITS = 1 << 21 };

struct sentencepiece {
    const struct vocabulary *vocabulary;
    uint32_t *priority; /* per token: place of its score among all, equal ones together */
    uint32_t priorities;
    uint8_t *neighbours;
};

bool sentencepiece_find(const void *rules, const char *text, const struct merge_symbol *left,
                        const struct merge_symbol *right, struct merge_result *result)
{
    const struct sentencepiece *const s = rules;
    const uint32_t id =
        vocabulary_find(s->vocabulary, text + left->start, (size_t)left->length + right->length);
    if (id == TOKEN_NONE)
        return false;
    *result = (struct merge_result){.priority = s->priority[id], .id = id};
    return true;
}

size_t sentencepiece_priorities(const struct sentencepiece *sentencepiece)
{
    return sentencepiece->priorities;
}

static uint32_t neighbour_bit(uint32_t left, uint32_t right)
{
    return (uint32_t)(hash_word((uint64_t)left << 32 | right, 0x5bd1e995) % NEIGHBOUR_BITS);
}

static bool are_neighbours(const struct sentencepiece *s, uint32_t left, uint32_t right)
{
    const uint32_t bit = neighbour_bit(left, right);
    return s->neighbours[bit / 8] >> bit % 8 & 1;
}

uint32_t sentencepiece_word_end(const struct sentencepiece *sentencepiece, const char *text,
                                uint32_t start, uint32_t end)
{
    unsigned bytes;
    uint32_t left = unicode_point(text + start, &bytes);
    for (uint32_t at = start + bytes; at < end; at += bytes) {
        const uint32_t right = unicode_point(text + at, &bytes);
        if (!are_neighbours(sentencepiece, left, right))
            return at;
        left = right;
    }
    return end;
}

static void add_neighbours(struct sentencepiece *s, const char *text, size_t length)
{
    if (length == 0 || !tern_utf8_valid(text, length))
        return;
    unsigned bytes;
    uint32_t left = unicode_point(text, &bytes);
    for (size_t at = bytes; at < length; at += bytes) {
        const uint32_t right = unicode_point(text + at, &bytes);
        const uint32_t bit = neighbour_bit(left, right);
        s->neighbours[bit / 8] |= (uint8_t)(1 << bit % 8);
        left = right;
    }
}

/* Runs of spaces that the model's author added come before all merges: files give them no score of
 * use. */
static float score_of(const struct vocabulary *v, const struct tern_array *scores, uint32_t id)
{
    return v->type[id] == TOKEN_USER_DEFINED ? INFINITY : (float)tern_array_f64(scores, id);
}

struct scored {
    float score;
    uint32_t id;
};

static int compare_scores(const void *left, const void *right)
{
    const float a = ((const struct scored *)left)->score, b = ((const struct scored *)right)->score;
    return a > b ? -1 : a < b;
}

/* The best score becomes priority 0, the next one 1, ... */
static enum tern_status rank_scores(const struct tern_array *scores, struct sentencepiece *s,
                                    struct tern_error *error)
{
    const uint32_t count = s->vocabulary->count;
    struct scored *sorted = malloc(count * sizeof *sorted);
    if (sorted == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for %u scores", count);
    for (uint32_t id = 0; id < count; id++)
        sorted[id] = (struct scored){score_of(s->vocabulary, scores, id), id};
    qsort(sorted, count, sizeof *sorted, compare_scores);
    for (uint32_t i = 0; i < count; i++) {
        s->priorities += i == 0 || sorted[i].score < sorted[i - 1].score;
        s->priority[sorted[i].id] = s->priorities - 1;
    }
    free(sorted);
    return TERN_OK;
}

static enum tern_status read_scores(const struct tern_array *scores, struct sentencepiece *s,
                                    struct tern_error *error)
{
    const struct vocabulary *const v = s->vocabulary;
    for (uint32_t id = 0; id < v->count; id++) {
        const double score = tern_array_f64(scores, id);
        if (!isfinite(score))
            return tern_fail(error, TERN_BAD_MODEL, "token %u has a score that is no number", id);
        if (v->type[id] == TOKEN_USER_DEFINED || v->type[id] == TOKEN_NORMAL) {
            size_t length;
            const char *bytes = vocabulary_bytes(v, id, &length);
            add_neighbours(s, bytes, length);
        }
    }
    return rank_scores(scores, s, error);
}

enum tern_status sentencepiece_new(const struct tern_catalog *catalog,
                                   const struct vocabulary *vocabulary, struct sentencepiece **out,
                                   struct tern_error *error)
{
    struct tern_array scores;
    if (!tern_catalog_numbers(catalog, "tokenizer.ggml.scores", &scores) ||
        scores.count != vocabulary->count)
        return tern_fail(error, TERN_BAD_MODEL, "tokenizer.ggml.scores must hold %u numbers",
                         vocabulary->count);
    struct sentencepiece *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->vocabulary = vocabulary;
        s->priority = malloc(vocabulary->count * sizeof *s->priority);
        s->neighbours = calloc(NEIGHBOUR_BITS / 8, 1);
    }
    enum tern_status status =
        s == NULL || s->priority == NULL || s->neighbours == NULL
            ? tern_fail(error, TERN_NO_MEMORY, "no memory for %u scores", vocabulary->count)
            : read_scores(&scores, s, error);
    if (status != TERN_OK) {
        sentencepiece_free(s);
        return status;
    }
    *out = s;
    return TERN_OK;
}

void sentencepiece_free(struct sentencepiece *sentencepiece)
{
    if (sentencepiece == NULL)
        return;
    free(sentencepiece->priority);
    free(sentencepiece->neighbours);
    free(sentencepiece);
}
