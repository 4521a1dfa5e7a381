/*
 * Unicode classes as the reference tokenizers see them (Unicode 16, with its own notions of digit
 * and punctuation), independent of the Unicode version of any library on this machine: two machines
 * must split a text alike.
 *
 * A text is turned into one byte per character before an expression sees it: ASCII stays as it is,
 * any other character becomes UNICODE_CODE | its class | its sets. Expressions are written over
 * these bytes (split.c), so a regular expression engine without any Unicode support gives the right
 * matches, and faster than one that decodes UTF-8.
 */
#ifndef TERN_TOKENIZER_UNICODE_H
#define TERN_TOKENIZER_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* The classes that expressions tell apart; the order is unicode_table.py's. */
enum unicode_class {
    UNICODE_OTHER,         /* controls, unassigned, private use */
    UNICODE_UPPER,         /* Lu */
    UNICODE_LOWER,         /* Ll, but U+017F */
    UNICODE_LONG_S,        /* U+017F, which matches s when case is ignored */
    UNICODE_TITLE,         /* Lt */
    UNICODE_MODIFIER,      /* Lm */
    UNICODE_LETTER,        /* Lo */
    UNICODE_MARK,          /* M */
    UNICODE_NUMBER,        /* N */
    UNICODE_PUNCTUATION,   /* P */
    UNICODE_SYMBOL,        /* S */
    UNICODE_SPACE,         /* \s; no carriage return or line feed */
    UNICODE_P_ONLY,        /* P that HF's Punctuation does not know */
    UNICODE_S_PUNCTUATION, /* S that HF's Punctuation takes */
    UNICODE_M_PUNCTUATION, /* M that HF's Punctuation takes */
    UNICODE_NEW_DIGIT,     /* only HF's Digits takes it */
};

enum { UNICODE_CODE = 0x80 };

/* Bits of a code beside its class: sets of characters that only some expressions name. */
enum unicode_set {
    UNICODE_SET_1 = 0x10,
    UNICODE_SET_2 = 0x20,
    UNICODE_SET_3 = 0x40,
};

/* Characters above ASCII that belong to a set. */
struct unicode_range {
    uint32_t first, last;
    enum unicode_set set;
};

extern const uint32_t unicode_table[]; /* code point << 4 | class, where the class changes */
extern const size_t unicode_table_entries;

struct unicode_classes; /* the table made ready for looking up */

/* With the sets that these ranges (in any order, none by default) make. NULL: no memory. */
struct unicode_classes *unicode_classes_new(const struct unicode_range *range, size_t ranges);
void unicode_classes_free(struct unicode_classes *classes);

enum unicode_class unicode_class_of(const struct unicode_classes *classes, uint32_t point);

/* One code per character of `text` (valid UTF-8) into codes[length]; returns how many. */
size_t unicode_encode(const struct unicode_classes *classes, const char *text, size_t length,
                      uint8_t *codes);

/* Decodes the character that starts at text[0] of valid UTF-8; *bytes is its length. */
static inline uint32_t unicode_point(const char *text, unsigned *bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *bytes = 1;
        return s[0];
    }
    if (s[0] < 0xe0) {
        *bytes = 2;
        return (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
    }
    if (s[0] < 0xf0) {
        *bytes = 3;
        return (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    }
    *bytes = 4;
    return (s[0] & 7u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
}

#endif
