/*
 * Merging: neighbours become one symbol, best pair first, leftmost among equals, until no pair may
 * merge. The same for BPE (rank of a merge) and SentencePiece (score of the result).
 */
#ifndef TERN_TOKENIZER_MERGE_H
#define TERN_TOKENIZER_MERGE_H

#include "proto/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge_symbol {
    uint32_t start; /* in the text */
    uint32_t length;
    uint32_t id; /* TOKEN_NONE: no token */
};

/* What two neighbours would become. */
struct merge_result {
    uint32_t priority; /* lower is merged first; below merge_work.priorities */
    uint32_t id;
};

/* May these neighbours merge? */
typedef bool merge_find(const void *rules, const char *text, const struct merge_symbol *left,
                        const struct merge_symbol *right, struct merge_result *result);

struct merge_link;
struct merge_candidate;
struct merge_bucket;

/* Memory of one call, used again from word to word. All zero at first, but `priorities`. */
struct merge_work {
    size_t priorities; /* how many there may be */
    struct merge_symbol *symbol;
    size_t count, room;
    struct merge_link *link;
    size_t links;
    struct merge_candidate *candidate; /* [0] is none */
    struct merge_bucket *bucket;       /* [priorities], all zero between words */
    uint32_t *waiting;                 /* priorities of the buckets in use: a heap */
    size_t waits;
    uint32_t unused, next_unused; /* candidates given back; those never taken */
};
void merge_work_free(struct merge_work *work);

/* Room for `count` symbols, which the caller fills. */
enum tern_status merge_reserve(struct merge_work *work, size_t count, struct tern_error *error);

/* Merges symbol[0 .. count) and leaves the outcome there. O(n log n) for n symbols. */
enum tern_status merge_symbols(struct merge_work *work, merge_find *find, const void *rules,
                               const char *text, struct tern_error *error);

#endif
