/* UTF-8 as every process checks it: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef TERN_PROTO_UTF8_H
#define TERN_PROTO_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that starts at text[0] (length >= 1): 1..4, or 0 if it is not valid,
 * or -1 if it is valid so far but cut off by the end of the text. */
int tern_utf8_character(const char *text, size_t length);

bool tern_utf8_valid(const char *text, size_t length);

/* Bytes of the control character that a NUL-terminated text starts with, or 0: U+0000 to U+001F,
 * U+007F, and U+0080 to U+009F, which terminals obey too. */
size_t tern_utf8_control(const char *text);

/* Makes a text one that may be shown: control characters become '?', and so do all bytes above
 * ASCII unless the whole is valid UTF-8. A character that is cut off by its end is left out. */
void tern_utf8_show(char *text);

/* Length of the longest prefix that does not end inside a character that could still be completed;
 * for text that arrives in pieces. Invalid bytes count as complete. */
size_t tern_utf8_complete(const char *text, size_t length);

#endif
