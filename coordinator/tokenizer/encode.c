/* Words to ids, and the memory of words met before in the same call. */
#include "coordinator/tokenizer/encode.h"

#include "coordinator/tokenizer/hash.h"
#include "coordinator/tokenizer/unicode.h"
#include <stdlib.h>
#include <string.h>

enum {
    SEEN_LONGEST = 64, /* bytes of a word that is remembered */
    SEEN_LEAST = 64,   /* entries */
    SEEN_MOST = 16384,
};

/* A word met before: where its text and its ids are. */
struct word_entry {
    uint32_t start;
    uint32_t length; /* 0: free */
    uint32_t first_id;
    uint32_t ids;
};

void encoding_free(struct encoding *encoding)
{
    split_work_free(&encoding->split);
    merge_work_free(&encoding->merge);
    free(encoding->seen);
}

/* Without memory for it, words are just not remembered. */
static void make_room_to_remember(struct encoding *e)
{
    size_t entries = SEEN_LEAST;
    while (entries < SEEN_MOST && entries < e->length / 4)
        entries *= 2;
    e->seen = calloc(entries, sizeof *e->seen);
    e->seen_mask = entries - 1;
}

static void add_id(struct encoding *e, uint32_t id)
{
    e->ids.id[e->ids.count++] = id;
}

/* One symbol per byte. A byte without a token is dropped, so its neighbours can merge. */
static void start_with_bytes(struct encoding *e, uint32_t start, uint32_t end)
{
    struct merge_work *const work = &e->merge;
    work->count = 0;
    for (uint32_t i = start; i < end; i++) {
        const uint32_t id = e->encoder->vocabulary->byte[(uint8_t)e->text[i]];
        if (id != TOKEN_NONE)
            work->symbol[work->count++] = (struct merge_symbol){.start = i, .length = 1, .id = id};
    }
}

static void start_with_characters(struct encoding *e, uint32_t start, uint32_t end)
{
    struct merge_work *const work = &e->merge;
    work->count = 0;
    for (uint32_t i = start; i < end;) {
        unsigned bytes;
        unicode_point(e->text + i, &bytes);
        work->symbol[work->count++] = (struct merge_symbol){
            .start = i,
            .length = bytes,
            .id = vocabulary_find(e->encoder->vocabulary, e->text + i, bytes),
        };
        i += bytes;
    }
}

/* A character without a token: its bytes' tokens if all exist, else the unknown token. */
static void add_fallback(struct encoding *e, const struct merge_symbol *symbol)
{
    const struct vocabulary *const v = e->encoder->vocabulary;
    bool all = true;
    for (uint32_t i = 0; i < symbol->length; i++)
        all = all && v->byte[(uint8_t)e->text[symbol->start + i]] != TOKEN_NONE;
    for (uint32_t i = 0; all && i < symbol->length; i++)
        add_id(e, v->byte[(uint8_t)e->text[symbol->start + i]]);
    if (!all && v->unknown != TOKEN_NONE)
        add_id(e, v->unknown);
}

static enum tern_status merge_word(struct encoding *e, uint32_t start, uint32_t end,
                                   struct tern_error *error)
{
    const struct encoder *const encoder = e->encoder;
    enum tern_status status = merge_reserve(&e->merge, end - start, error);
    if (status != TERN_OK)
        return status;
    e->merge.priorities = encoder->bpe != NULL ? bpe_priorities(encoder->bpe)
                                               : sentencepiece_priorities(encoder->sentencepiece);
    if (encoder->bpe != NULL) {
        start_with_bytes(e, start, end);
        status = merge_symbols(&e->merge, bpe_find, encoder->bpe, e->text, error);
    } else {
        start_with_characters(e, start, end);
        status =
            merge_symbols(&e->merge, sentencepiece_find, encoder->sentencepiece, e->text, error);
    }
    if (status != TERN_OK)
        return status;
    for (size_t i = 0; i < e->merge.count; i++) {
        const struct merge_symbol *symbol = &e->merge.symbol[i];
        if (symbol->id == TOKEN_NONE)
            add_fallback(e, symbol);
        else
            add_id(e, symbol->id);
    }
    return TERN_OK;
}

static enum tern_status encode_new_word(struct encoding *e, uint32_t start, uint32_t end,
                                        struct tern_error *error)
{
    if (e->encoder->whole_first) {
        const uint32_t id = vocabulary_find(e->encoder->vocabulary, e->text + start, end - start);
        if (id != TOKEN_NONE) {
            add_id(e, id);
            return TERN_OK;
        }
    }
    return merge_word(e, start, end, error);
}

static enum tern_status encode_word(struct encoding *e, uint32_t start, uint32_t end,
                                    struct tern_error *error)
{
    const uint32_t length = end - start;
    if (length > SEEN_LONGEST || e->seen == NULL)
        return encode_new_word(e, start, end, error);
    const uint64_t hash = hash_bytes(e->text + start, length, e->encoder->vocabulary->seed);
    struct word_entry *const entry = &e->seen[hash & e->seen_mask];
    if (entry->length == length && memcmp(e->text + entry->start, e->text + start, length) == 0) {
        for (uint32_t i = 0; i < entry->ids; i++)
            add_id(e, e->ids.id[entry->first_id + i]);
        return TERN_OK;
    }
    const uint32_t first = (uint32_t)e->ids.count;
    const enum tern_status status = encode_new_word(e, start, end, error);
    *entry = (struct word_entry){
        .start = start, .length = length, .first_id = first, .ids = (uint32_t)e->ids.count - first};
    return status;
}

static enum tern_status encode_pieces(struct encoding *e, uint32_t start, uint32_t end,
                                      struct tern_error *error)
{
    enum tern_status status =
        split_text(e->encoder->splitter, e->text + start, end - start, &e->split, error);
    uint32_t from = start;
    for (size_t i = 0; status == TERN_OK && i < e->split.count; i++) {
        const uint32_t to = start + e->split.end[i];
        status = encode_word(e, from, to, error);
        from = to;
    }
    return status;
}

enum tern_status encode(struct encoding *encoding, uint32_t start, uint32_t end,
                        struct tern_error *error)
{
    if (encoding->seen == NULL)
        make_room_to_remember(encoding);
    if (encoding->encoder->bpe != NULL)
        return encode_pieces(encoding, start, end, error);
    enum tern_status status = TERN_OK;
    while (status == TERN_OK && start < end) {
        const uint32_t to =
            sentencepiece_word_end(encoding->encoder->sentencepiece, encoding->text, start, end);
        status = encode_word(encoding, start, to, error);
        start = to;
    }
    return status;
}
