/* The merges of byte-level BPE, as a hash from a pair of ids to the rank and the id of what they
 * become. */
#include "coordinator/tokenizer/encode.h"
#include "coordinator/tokenizer/hash.h"
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_MERGE = 4096, /* bytes of one merge's text */
    BATCH = 32,           /* merges read at once, so that their cache misses overlap */
};

struct merge_slot {
    uint32_t left, right;
    uint32_t rank; /* TOKEN_NONE: free */
    uint32_t id;
};

struct bpe {
    struct merge_slot *slot;
    size_t mask;
    uint64_t seed;
    uint32_t merges;
};

static size_t home_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    return hash_word((uint64_t)left << 32 | right, bpe->seed) & bpe->mask;
}

static struct merge_slot *find_slot(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    for (size_t at = home_of(bpe, left, right);; at = (at + 1) & bpe->mask) {
        struct merge_slot *slot = &bpe->slot[at];
        if (slot->rank == TOKEN_NONE || (slot->left == left && slot->right == right))
            return slot;
    }
}

size_t bpe_priorities(const struct bpe *bpe)
{
    return bpe->merges;
}

bool bpe_find(const void *rules, const char *text, const struct merge_symbol *left,
              const struct merge_symbol *right, struct merge_result *result)
{
    (void)text;
    const struct merge_slot *slot = find_slot(rules, left->id, right->id);
    if (slot->rank == TOKEN_NONE)
        return false;
    *result = (struct merge_result){.priority = slot->rank, .id = slot->id};
    return true;
}

/* A merge on its way: the bytes of both sides, one after the other, and of their union. */
struct reading {
    char bytes[LONGEST_MERGE];
    size_t left, all;
    uint64_t prepared[3]; /* left, right, union */
    struct merge_slot made;
};

struct merge_reader {
    struct tern_array merges;
    const struct vocabulary *vocabulary;
    struct reading *batch;
    uint32_t last_id;
};

/* A merge that names what is no ordinary token can never apply. */
static enum tern_status refuse(const struct merge_reader *reader, uint32_t rank,
                               struct tern_error *error)
{
    const struct tern_string text = tern_array_string(&reader->merges, rank);
    const int shown = text.length > 80 ? 80 : (int)text.length;
    return tern_fail(error, TERN_BAD_MODEL,
                     "tokenizer.ggml.merges entry %u (\"%.*s\") does not name two tokens whose "
                     "union is a token",
                     rank, shown, text.bytes);
}

static bool take_apart(struct merge_reader *reader, uint32_t rank, struct reading *r)
{
    const struct tern_string text = tern_array_string(&reader->merges, rank);
    const char *space = text.length < 3 ? NULL : memchr(text.bytes + 1, ' ', text.length - 2);
    if (space == NULL || text.length > LONGEST_MERGE)
        return false;
    const struct tern_string left = {text.bytes, (size_t)(space - text.bytes)};
    const struct tern_string right = {space + 1, text.length - left.length - 1};
    const int64_t left_bytes = vocabulary_unmap_bytes(left, r->bytes);
    if (left_bytes < 0)
        return false;
    const int64_t right_bytes = vocabulary_unmap_bytes(right, r->bytes + left_bytes);
    if (right_bytes < 0)
        return false;
    r->left = (size_t)left_bytes;
    r->all = (size_t)(left_bytes + right_bytes);
    r->prepared[0] = vocabulary_prepare(reader->vocabulary, r->bytes, r->left);
    r->prepared[1] = vocabulary_prepare(reader->vocabulary, r->bytes + r->left, r->all - r->left);
    r->prepared[2] = vocabulary_prepare(reader->vocabulary, r->bytes, r->all);
    return true;
}

/* Most merges make the token after the one that the merge before made. */
static uint32_t find_made(struct merge_reader *reader, const struct reading *r)
{
    const struct vocabulary *const v = reader->vocabulary;
    const uint32_t next = reader->last_id + 1;
    if (next < v->count && v->type[next] == TOKEN_NORMAL) {
        size_t length;
        const char *there = vocabulary_bytes(v, next, &length);
        if (length == r->all && memcmp(there, r->bytes, length) == 0)
            return reader->last_id = next;
    }
    const uint32_t id = vocabulary_find_prepared(v, r->prepared[2], r->bytes, r->all);
    if (id != TOKEN_NONE)
        reader->last_id = id;
    return id;
}

static bool find_ids(struct merge_reader *reader, uint32_t rank, struct reading *r,
                     const struct bpe *bpe)
{
    const struct vocabulary *const v = reader->vocabulary;
    r->made = (struct merge_slot){
        .left = vocabulary_find_prepared(v, r->prepared[0], r->bytes, r->left),
        .right = vocabulary_find_prepared(v, r->prepared[1], r->bytes + r->left, r->all - r->left),
        .rank = rank,
        .id = find_made(reader, r),
    };
    __builtin_prefetch(&bpe->slot[home_of(bpe, r->made.left, r->made.right)], 1);
    return r->made.left != TOKEN_NONE && r->made.right != TOKEN_NONE && r->made.id != TOKEN_NONE;
}

/* Of two equal merges the first counts. */
static enum tern_status read_batch(struct merge_reader *reader, uint32_t first, uint32_t count,
                                   struct bpe *bpe, struct tern_error *error)
{
    for (uint32_t i = 0; i < count; i++)
        if (!take_apart(reader, first + i, &reader->batch[i]))
            return refuse(reader, first + i, error);
    for (uint32_t i = 0; i < count; i++)
        if (!find_ids(reader, first + i, &reader->batch[i], bpe))
            return refuse(reader, first + i, error);
    for (uint32_t i = 0; i < count; i++) {
        const struct merge_slot *made = &reader->batch[i].made;
        struct merge_slot *slot = find_slot(bpe, made->left, made->right);
        if (slot->rank == TOKEN_NONE)
            *slot = *made;
    }
    return TERN_OK;
}

static enum tern_status read_merges(struct merge_reader *reader, struct bpe *bpe,
                                    struct tern_error *error)
{
    const uint32_t count = (uint32_t)reader->merges.count;
    size_t slots = 16;
    while (slots < count + (size_t)count / 2)
        slots *= 2;
    bpe->slot = malloc(slots * sizeof *bpe->slot);
    if (bpe->slot == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for %u merges", count);
    memset(bpe->slot, 0xff, slots * sizeof *bpe->slot);
    bpe->mask = slots - 1;
    bpe->merges = count;
    bpe->seed = reader->vocabulary->seed;
    enum tern_status status = TERN_OK;
    for (uint32_t first = 0; status == TERN_OK && first < count; first += BATCH)
        status =
            read_batch(reader, first, count - first < BATCH ? count - first : BATCH, bpe, error);
    return status;
}

enum tern_status bpe_new(const struct tern_catalog *catalog, const struct vocabulary *vocabulary,
                         struct bpe **out, struct tern_error *error)
{
    struct merge_reader reader = {.vocabulary = vocabulary};
    if (!tern_catalog_array(catalog, "tokenizer.ggml.merges", TERN_V_STRING, &reader.merges))
        return tern_fail(error, TERN_BAD_MODEL,
                         "the file has no list of merges (tokenizer.ggml.merges)");
    if (reader.merges.count > TERN_MAX_STRINGS)
        return tern_fail(error, TERN_BAD_MODEL, "%llu merges; the limit is %d",
                         (unsigned long long)reader.merges.count, TERN_MAX_STRINGS);
    struct bpe *bpe = calloc(1, sizeof *bpe);
    reader.batch = malloc(BATCH * sizeof *reader.batch);
    enum tern_status status = bpe == NULL || reader.batch == NULL
                                  ? tern_fail(error, TERN_NO_MEMORY, "no memory for merges")
                                  : read_merges(&reader, bpe, error);
    free(reader.batch);
    if (status != TERN_OK) {
        bpe_free(bpe);
        return status;
    }
    *out = bpe;
    return TERN_OK;
}

void bpe_free(struct bpe *bpe)
{
    if (bpe == NULL)
        return;
    free(bpe->slot);
    free(bpe);
}
