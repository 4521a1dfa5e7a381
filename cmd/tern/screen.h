/* Text of a model on a terminal: it must not be able to drive it. */
#ifndef TERN_CMD_SCREEN_H
#define TERN_CMD_SCREEN_H

#include <stddef.h>

/* Bytes that screen_clean may write for `length` bytes. */
#define SCREEN_ROOM(length) (3 * (length) + 16)

/* A text that arrives in pieces, which may end inside a character. Starts as zeros. */
struct screen {
    char rest[4];
    size_t waiting; /* bytes in rest */
};

/* The next piece with everything a terminal obeys made visible: control characters but newline and
 * tab become their pictures (U+2400 and on), C1 controls and bytes that are no UTF-8 become U+FFFD.
 * A character that is cut off by the end of the piece waits for the next. Returns the bytes written
 * to out[SCREEN_ROOM(length)]. */
size_t screen_clean(struct screen *screen, const char *text, size_t length, char *out);

#endif
