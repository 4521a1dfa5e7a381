#include "proto/utf8.h"

#include <string.h>

int tern_utf8_character(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    const int bytes = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    /* The second byte rules out overlong forms, surrogates and what lies above U+10FFFF. */
    const unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < bytes; i++) {
        if ((size_t)i >= length)
            return -1;
        if (s[i] < (i == 1 ? low : 0x80) || s[i] > (i == 1 ? high : 0xbf))
            return 0;
    }
    return bytes;
}

bool tern_utf8_valid(const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        const int bytes = tern_utf8_character(text + i, length - i);
        if (bytes <= 0)
            return false;
        i += (size_t)bytes;
    }
    return true;
}

size_t tern_utf8_control(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x20 || s[0] == 0x7f)
        return 1;
    return s[0] == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f ? 2 : 0;
}

size_t tern_utf8_complete(const char *text, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        const size_t start = length - back;
        if (((unsigned char)text[start] & 0xc0) == 0x80)
            continue;
        return tern_utf8_character(text + start, back) == -1 ? start : length;
    }
    return length;
}

void tern_utf8_show(char *text)
{
    text[tern_utf8_complete(text, strlen(text))] = '\0';
    const bool utf8 = tern_utf8_valid(text, strlen(text));
    for (char *p = text; *p != '\0'; p++) {
        memset(p, '?', tern_utf8_control(p));
        if ((unsigned char)*p >= 0x80 && !utf8)
            *p = '?';
    }
}
