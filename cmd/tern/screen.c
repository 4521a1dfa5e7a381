#include "cmd/tern/screen.h"

#include "proto/utf8.h"

#include <string.h>

static const char unknown[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* One whole character (or one byte that is none: bytes 0) to `out`. Returns its end. */
static char *put_character(const char *text, int bytes, char *out)
{
    const unsigned char first = (unsigned char)text[0];
    const bool c1 = bytes == 2 && first == 0xC2 && (unsigned char)text[1] < 0xA0;
    if (bytes <= 0 || c1)
        return mempcpy(out, unknown, 3);
    if (first == 0x7F) /* U+2421, the picture of DEL */
        return mempcpy(out, "\xE2\x90\xA1", 3);
    if (first < 0x20 && first != '\n' && first != '\t') {
        *out++ = '\xE2';
        *out++ = '\x90';
        *out++ = (char)(0x80 + first);
        return out;
    }
    return mempcpy(out, text, (size_t)bytes);
}

/* The character that began in an earlier piece, if there is one. Returns the bytes used. */
static size_t finish_rest(struct screen *screen, const char *text, size_t length, char **out)
{
    size_t used = 0;
    while (screen->waiting > 0) {
        const int bytes = tern_utf8_character(screen->rest, screen->waiting);
        if (bytes < 0) {
            if (used == length)
                return used;
            screen->rest[screen->waiting++] = text[used++];
            continue;
        }
        *out = put_character(screen->rest, bytes, *out);
        const size_t gone = bytes > 0 ? (size_t)bytes : 1;
        screen->waiting -= gone;
        memmove(screen->rest, screen->rest + gone, screen->waiting);
    }
    return used;
}

size_t screen_clean(struct screen *screen, const char *text, size_t length, char *out)
{
    char *end = out;
    for (size_t i = finish_rest(screen, text, length, &end); i < length;) {
        const int bytes = tern_utf8_character(text + i, length - i);
        if (bytes < 0) {
            screen->waiting = length - i;
            memcpy(screen->rest, text + i, screen->waiting);
            break;
        }
        end = put_character(text + i, bytes, end);
        i += bytes > 0 ? (size_t)bytes : 1;
    }
    return (size_t)(end - out);
}
