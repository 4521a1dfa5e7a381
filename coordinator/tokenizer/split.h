/*
 * Pre-tokenizers: how a text is cut into pieces before byte-level BPE merges inside each piece.
 * One row of a table per pre-tokenizer that files name in tokenizer.ggml.pre.
 */
#ifndef TERN_TOKENIZER_SPLIT_H
#define TERN_TOKENIZER_SPLIT_H

#include "coordinator/tokenizer/unicode.h"
#include "proto/catalog.h"

enum { SPLIT_STEPS = 6 };

/* How pieces are cut: by an expression, or into runs of one class. Classes are written as between
 * the brackets of an expression. */
struct split_step {
    const char *expression; /* NULL: a run */
    const char *run;
    const char *before;   /* one of this class before the run belongs to it; NULL: none */
    uint32_t least, most; /* characters of a run; 0: 1 and any */
    bool at_end;          /* only a run that ends the piece */
};

struct split_rule {
    const char *name;
    /* Applied one after another: each cuts the pieces of the one before. What a step does not
     * match, between two matches, is a piece too. */
    struct split_step step[SPLIT_STEPS];
    /* From this step on they see the bytes of the text, not its characters, and may cut a
     * character; 0: none does. */
    size_t bytes_from;
    const struct unicode_range *set; /* characters that steps know by more than class */
    size_t ranges;
    bool nfc;         /* the text is brought to NFC first */
    bool whole_first; /* a piece that is a token as a whole is that token, before any merge */
    bool bos;         /* BOS is added if the file does not say */
};

/* NULL if there is none of that name. */
const struct split_rule *split_rule_find(struct tern_string name);

struct splitter; /* a rule made ready; immutable */

enum tern_status splitter_new(const struct split_rule *rule, struct splitter **out,
                              struct tern_error *error);
void splitter_free(struct splitter *splitter);

/* Memory of one call, used again from text to text. All zero at first. */
struct split_work {
    uint8_t *code; /* one byte per character */
    uint32_t *end; /* ends of pieces, in bytes of the text */
    size_t count;
    uint32_t *other; /* the same of the expression before */
    size_t room;     /* of the three, in elements */
    void *match;     /* pcre2_match_data */
    void *context;   /* pcre2_match_context */
};
void split_work_free(struct split_work *work);

/* Cuts valid UTF-8 of less than 4 GiB; the ends of the pieces are in work->end[0 .. count). Takes
 * time linear in the length, and a stack that does not depend on it. */
enum tern_status split_text(const struct splitter *splitter, const char *text, size_t length,
                            struct split_work *work, struct tern_error *error);

#endif
