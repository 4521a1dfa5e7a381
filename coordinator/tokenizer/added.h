/*
 * Added tokens: those whose text is taken out of the input before anything else looks at it.
 * Leftmost first, then longest.
 */
#ifndef TERN_TOKENIZER_ADDED_H
#define TERN_TOKENIZER_ADDED_H

#include "coordinator/tokenizer/vocabulary.h"

/* A longer one would make matching slow, and no vocabulary has one. */
enum { ADDED_LONGEST = 256 };

struct added_token {
    uint32_t offset; /* into text */
    uint16_t length; /* 1 .. 3 * ADDED_LONGEST: spaces may be written as U+2581 */
    bool control;    /* CONTROL or UNKNOWN: only where special tokens are parsed */
    bool markup;     /* like "<think>": not in what a user wrote */
    bool strips;     /* takes the white space behind it */
    uint32_t id;
};

struct added {
    struct added_token *token; /* sorted by text; equal texts: lowest id only */
    size_t count;
    char *text;
    /* Tokens that begin with this byte: token[first[b]] to token[first[b + 1]]. */
    uint32_t first[257];
};

/* CONTROL, UNKNOWN and USER_DEFINED tokens. TERN_BAD_MODEL if one is longer than ADDED_LONGEST in
 * the file, or all of them together than 4 GiB. */
enum tern_status added_read(const struct tern_catalog *catalog, const struct vocabulary *vocabulary,
                            struct added *out, struct tern_error *error);
void added_free(struct added *added);

/* Of a SentencePiece vocabulary: finds the tokens that take the white space behind them. */
void added_mark_stripping(struct added *added);

/* How many bytes a token of each kind may take. */
struct added_limits {
    size_t control, markup, other;
};

/* The longest added token at the beginning of the text that its limit allows. NULL if none. */
const struct added_token *added_match(const struct added *added, const char *text,
                                      const struct added_limits *limits);

/* The added token with exactly this text, or NULL. */
const struct added_token *added_find(const struct added *added, const char *text, size_t length);

#endif
