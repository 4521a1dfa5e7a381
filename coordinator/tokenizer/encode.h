/*
 * From text to ids within one stretch of plain text: cutting into words, merging, and remembering
 * the words of this call, because texts repeat theirs.
 */
#ifndef TERN_TOKENIZER_ENCODE_H
#define TERN_TOKENIZER_ENCODE_H

#include "coordinator/tokenizer/merge.h"
#include "coordinator/tokenizer/split.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "coordinator/tokenizer/vocabulary.h"

struct bpe;           /* merges of byte-level BPE */
struct sentencepiece; /* scores, and which characters never stand side by side in a token */

enum tern_status bpe_new(const struct tern_catalog *catalog, const struct vocabulary *vocabulary,
                         struct bpe **out, struct tern_error *error);
void bpe_free(struct bpe *bpe);
merge_find bpe_find; /* rules: struct bpe */
size_t bpe_priorities(const struct bpe *bpe);

enum tern_status sentencepiece_new(const struct tern_catalog *catalog,
                                   const struct vocabulary *vocabulary, struct sentencepiece **out,
                                   struct tern_error *error);
void sentencepiece_free(struct sentencepiece *sentencepiece);
merge_find sentencepiece_find; /* rules: struct sentencepiece */
size_t sentencepiece_priorities(const struct sentencepiece *sentencepiece);
/* End of the word that begins at text[start]: nothing merges across it. */
uint32_t sentencepiece_word_end(const struct sentencepiece *sentencepiece, const char *text,
                                uint32_t start, uint32_t end);

struct encoder {
    const struct vocabulary *vocabulary;
    const struct splitter *splitter;           /* byte level */
    const struct bpe *bpe;                     /* byte level */
    const struct sentencepiece *sentencepiece; /* else */
    bool whole_first;
};

struct word_entry;

/* One call's memory. All zero but `encoder`, `text` and `ids` at first. */
struct encoding {
    const struct encoder *encoder;
    const char
        *text; /* everything that this call encodes, so that words can be remembered by place */
    size_t length;
    struct tern_ids ids; /* room for one id per byte of text and what the caller adds */
    struct split_work split;
    struct merge_work merge;
    struct word_entry *seen;
    size_t seen_mask;
};
void encoding_free(struct encoding *encoding); /* but for ids */

/* Appends the ids of text[start .. end), valid UTF-8. */
enum tern_status encode(struct encoding *encoding, uint32_t start, uint32_t end,
                        struct tern_error *error);

#endif
