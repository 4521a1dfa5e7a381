/* The merges of byte-level BPE, as a hash from a pair of ids to the rank and the id of what they
 * become. */
#include "coordinator/tokenizer/encode.h"
#include "coordinator/tokenizer/hash.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST_MERGE = 64 << 10 }; /* bytes of one merge's text */

struct merge_slot {
    uint32_t left, right;
    uint32_t rank; /* TOKEN_NONE: free */
    uint32_t id;
};

struct bpe {
    struct merge_slot *slot;
    size_t mask;
    uint64_t seed;
};

static struct merge_slot *find_slot(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    size_t at = hash_word((uint64_t)left << 32 | right, bpe->seed) & bpe->mask;
    for (;; at = (at + 1) & bpe->mask) {
        struct merge_slot *slot = &bpe->slot[at];
        if (slot->rank == TOKEN_NONE || (slot->left == left && slot->right == right))
            return slot;
    }
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

struct merge_reader {
    const struct tern_catalog *catalog;
    struct tern_array merges;
    const struct vocabulary *vocabulary;
    char *bytes; /* room for the longest merge */
    uint32_t last_id;
};

/* Most merges make the token after the one that the merge before made. */
static uint32_t find_made(struct merge_reader *reader, size_t length)
{
    const struct vocabulary *const v = reader->vocabulary;
    const uint32_t next = reader->last_id + 1;
    if (next < v->count && v->type[next] == TOKEN_NORMAL) {
        size_t length_there;
        const char *there = vocabulary_bytes(v, next, &length_there);
        if (length_there == length && memcmp(there, reader->bytes, length) == 0)
            return reader->last_id = next;
    }
    const uint32_t id = vocabulary_find(v, reader->bytes, length);
    if (id != TOKEN_NONE)
        reader->last_id = id;
    return id;
}

/* A merge that names what is no ordinary token can never apply. */
static enum tern_status refuse(uint32_t rank, struct tern_string text, struct tern_error *error)
{
    const int shown = text.length > 80 ? 80 : (int)text.length;
    return tern_fail(error, TERN_BAD_MODEL,
                     "tokenizer.ggml.merges entry %u (\"%.*s\") does not name two tokens whose "
                     "union is a token",
                     rank, shown, text.bytes);
}

static enum tern_status read_merge(struct merge_reader *reader, uint32_t rank, struct bpe *bpe,
                                   struct tern_error *error)
{
    const struct tern_string text = tern_array_string(reader->catalog, &reader->merges, rank);
    const char *space = text.length < 3 ? NULL : memchr(text.bytes + 1, ' ', text.length - 2);
    if (space == NULL || text.length > LONGEST_MERGE)
        return refuse(rank, text, error);
    const struct tern_string left = {text.bytes, (size_t)(space - text.bytes)};
    const struct tern_string right = {space + 1, text.length - left.length - 1};
    const int64_t left_bytes = vocabulary_unmap_bytes(left, reader->bytes);
    if (left_bytes < 0)
        return refuse(rank, text, error);
    const int64_t right_bytes = vocabulary_unmap_bytes(right, reader->bytes + left_bytes);
    if (right_bytes < 0)
        return refuse(rank, text, error);
    const uint32_t left_id = vocabulary_find(reader->vocabulary, reader->bytes, (size_t)left_bytes);
    const uint32_t right_id =
        vocabulary_find(reader->vocabulary, reader->bytes + left_bytes, (size_t)right_bytes);
    const uint32_t id = find_made(reader, (size_t)(left_bytes + right_bytes));
    if (left_id == TOKEN_NONE || right_id == TOKEN_NONE || id == TOKEN_NONE)
        return refuse(rank, text, error);
    struct merge_slot *slot = find_slot(bpe, left_id, right_id);
    if (slot->rank == TOKEN_NONE)
        *slot = (struct merge_slot){.left = left_id, .right = right_id, .rank = rank, .id = id};
    return TERN_OK;
}

static enum tern_status read_merges(struct merge_reader *reader, struct bpe *bpe,
                                    struct tern_error *error)
{
    size_t slots = 16;
    while (slots < reader->merges.count + reader->merges.count / 2)
        slots *= 2;
    bpe->slot = malloc(slots * sizeof *bpe->slot);
    if (bpe->slot == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for %llu merges",
                         (unsigned long long)reader->merges.count);
    memset(bpe->slot, 0xff, slots * sizeof *bpe->slot);
    bpe->mask = slots - 1;
    bpe->seed = reader->vocabulary->seed;
    for (uint32_t rank = 0; rank < reader->merges.count; rank++) {
        const enum tern_status status = read_merge(reader, rank, bpe, error);
        if (status != TERN_OK)
            return status;
    }
    return TERN_OK;
}

enum tern_status bpe_new(const struct tern_catalog *catalog, const struct vocabulary *vocabulary,
                         struct bpe **out, struct tern_error *error)
{
    struct merge_reader reader = {.catalog = catalog, .vocabulary = vocabulary};
    if (!tern_catalog_array(catalog, "tokenizer.ggml.merges", TERN_V_STRING, &reader.merges))
        return tern_fail(error, TERN_BAD_MODEL, "the file has no merges (tokenizer.ggml.merges)");
    if (reader.merges.count > TERN_MAX_STRINGS)
        return tern_fail(error, TERN_BAD_MODEL, "%llu merges; the limit is %d",
                         (unsigned long long)reader.merges.count, TERN_MAX_STRINGS);
    struct bpe *bpe = calloc(1, sizeof *bpe);
    reader.bytes = malloc(LONGEST_MERGE);
    enum tern_status status = bpe == NULL || reader.bytes == NULL
                                  ? tern_fail(error, TERN_NO_MEMORY, "no memory for merges")
                                  : read_merges(&reader, bpe, error);
    free(reader.bytes);
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
