/*
 * Strings, immutable, that know which of their bytes come from the input (the messages) and which
 * are the template's own. Always valid UTF-8. Positions are in bytes unless said otherwise.
 */
#ifndef TERN_TEMPLATE_TEXT_H
#define TERN_TEMPLATE_TEXT_H

#include "coordinator/chat/template/work.h"

struct text {
    const char *bytes;
    const uint8_t *marks; /* one per byte, 1: from the input; NULL: none is */
    size_t length;
    struct text_tail *tail; /* NULL: nothing can be written after it */
    bool safe; /* what the filter "safe" gives: what is added to it by + is escaped for HTML */
};

/* What is free after a long text. The first one that adds to the text writes there instead of
 * copying it, so that templates may collect their output piece by piece. */
struct text_tail {
    char *at;       /* the text that ends here is the one that may be added to; NULL: taken */
    uint8_t *marks; /* at the same place, or NULL */
    size_t room;
};

/* `bytes` must live as long as the work. */
const struct text *text_borrow(struct work *w, const char *bytes, size_t length);
const struct text *text_of(struct work *w, const char *literal);
/* A copy whose every byte is marked as input. */
const struct text *text_from_input(struct work *w, const char *bytes, size_t length);
/* Shares the bytes. */
const struct text *text_slice(struct work *w, const struct text *text, size_t from, size_t to);

bool text_equal(const struct text *a, const struct text *b);
bool text_is(const struct text *text, const char *literal);
int text_compare(const struct text *a, const struct text *b);
/* Position of `what` at or after `from`, SIZE_MAX if it is not there. Linear. */
size_t text_find(struct work *w, const struct text *in, const struct text *what, size_t from);
bool text_starts(struct work *w, const struct text *text, const struct text *start);
bool text_ends(struct work *w, const struct text *text, const struct text *end);
/* Where the line that begins at `at` ends, as Python's splitlines takes it; *next: the next one. */
size_t text_line_end(struct work *w, const struct text *text, size_t at, size_t *next);

/* In characters. */
size_t text_characters(struct work *w, const struct text *text);
/* Position of the character with this index (at most their count). */
size_t text_position(struct work *w, const struct text *text, size_t character);
/* The character before position `at` (> 0) starts at... */
size_t text_before(const struct text *text, size_t at);
bool text_is_space(uint32_t point); /* as Python's str.strip takes it */
bool text_is_word(uint32_t point);  /* as \w in Python's expressions */

enum text_sides { TEXT_LEFT = 1, TEXT_RIGHT = 2 };
/* Without the characters of `set` (NULL: white space) at the sides. */
const struct text *text_strip(struct work *w, const struct text *text, const struct text *set,
                              int sides);

enum text_case { TEXT_UPPER, TEXT_LOWER, TEXT_TITLE, TEXT_CAPITALIZE };
const struct text *text_in_case(struct work *w, const struct text *text, enum text_case which);

/* & < > ' " as HTML entities. */
const struct text *text_escape(struct work *w, const struct text *text);
const struct text *text_with_safe(struct work *w, const struct text *text, bool safe);

/* At most `limit` replacements; negative: all. What replaces input is input. */
const struct text *text_replace(struct work *w, const struct text *text, const struct text *old,
                                const struct text *by, int64_t limit);

/* A text that is being written. Zeroed it is empty. */
struct builder {
    char *bytes;
    uint8_t *marks; /* NULL as long as nothing is marked */
    size_t length, room;
    struct text_tail *tail; /* that it took over, or NULL */
};

void builder_add(struct work *w, struct builder *b, const struct text *text);
void builder_bytes(struct work *w, struct builder *b, const char *bytes, size_t length, bool mark);
void builder_literal(struct work *w, struct builder *b, const char *literal);
void builder_point(struct work *w, struct builder *b, uint32_t point, bool mark);
void builder_repeat(struct work *w, struct builder *b, const char *literal, size_t times);
/* What was written from this length on is input. */
void builder_mark(struct work *w, struct builder *b, size_t from);
/* Takes the bytes over; the builder must not be used again. */
const struct text *builder_text(struct work *w, const struct builder *b);

#endif
