#include "proto/status.h"

#include "proto/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Replaces control characters, and all bytes above ASCII unless the whole text is valid UTF-8. */
static void make_printable(char *text)
{
    /* vsnprintf may have cut the text inside a character. */
    text[tern_utf8_complete(text, strlen(text))] = '\0';
    const bool utf8 = tern_utf8_valid(text, strlen(text));
    for (char *p = text; *p != '\0'; p++) {
        const size_t control = tern_utf8_control(p);
        memset(p, '?', control);
        if ((unsigned char)*p >= 0x80 && !utf8)
            *p = '?';
    }
}

enum tern_status tern_fail(struct tern_error *error, enum tern_status status, const char *format,
                           ...)
{
    if (error == NULL)
        return status;
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    make_printable(error->message);
    error->status = status;
    return status;
}
