/* Strings and numbers within tags, as Python reads them. */
#include "coordinator/chat/template/lex.h"

#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

/* `count` digits after x->at; fails if there are fewer or they name no character. */
static uint32_t hexadecimal(struct work *w, struct lexer *x, int count)
{
    uint32_t point = 0;
    for (int i = 0; i < count; i++) {
        const int d = x->at < x->length ? digit(x->source[x->at]) : 16;
        if (d == 16)
            work_fail(w, TERN_BAD_MODEL, "an escape in a string misses digits");
        point = point << 4 | (uint32_t)d;
        x->at++;
    }
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        work_fail(w, TERN_BAD_MODEL, "an escape in a string names no character");
    return point;
}

/* After a backslash. */
static void escape(struct work *w, struct lexer *x, struct builder *b)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = x->source[x->at++];
    const char *known = c == '\0' ? NULL : strchr(from, c);
    if (known != NULL) {
        builder_bytes(w, b, &to[known - from], 1, false);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        builder_point(w, b, hexadecimal(w, x, c == 'x' ? 2 : c == 'u' ? 4 : 8), false);
    } else if (c >= '0' && c <= '7') {
        uint32_t point = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && x->at < x->length && digit(x->source[x->at]) < 8; i++)
            point = point << 3 | (uint32_t)digit(x->source[x->at++]);
        builder_point(w, b, point, false);
    } else if (c != '\n') { /* a line end that is escaped is left out */
        builder_bytes(w, b, "\\", 1, false);
        builder_bytes(w, b, &c, 1, false);
    }
}

const struct text *lex_string(struct work *w, struct lexer *x)
{
    struct builder b = {0};
    const char quote = x->source[x->at++];
    while (x->at < x->length) {
        const size_t from = x->at;
        while (x->at < x->length && x->source[x->at] != quote && x->source[x->at] != '\\')
            x->at++;
        builder_bytes(w, &b, x->source + from, x->at - from, false);
        if (x->at == x->length)
            break;
        if (x->source[x->at++] == quote)
            return builder_text(w, &b);
        if (x->at < x->length)
            escape(w, x, &b);
    }
    work_fail(w, TERN_BAD_MODEL, "the string has no end");
}

/* Digits of a base, perhaps with single underscores between, to `to`; returns how many there are.
 */
static size_t digits(struct lexer *x, int base, char *to, size_t room)
{
    size_t count = 0;
    while (x->at < x->length) {
        if (x->source[x->at] == '_' && count > 0 && x->at + 1 < x->length &&
            digit(x->source[x->at + 1]) < base)
            x->at++;
        if (digit(x->source[x->at]) >= base)
            break;
        if (count < room)
            to[count] = x->source[x->at];
        count++;
        x->at++;
    }
    return count;
}

static struct value whole(struct work *w, const char *text, size_t count, int base)
{
    int64_t number = 0;
    for (size_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit(text[i]), &number))
            work_fail(w, TERN_BAD_MODEL, "an integer of more than 64 bits");
    return value_int(number);
}

struct value lex_number(struct work *w, struct lexer *x)
{
    char text[128];
    const char kind = x->at + 1 < x->length && x->source[x->at] == '0' ? x->source[x->at + 1] : '0';
    const int base = kind == 'x' || kind == 'X'   ? 16
                     : kind == 'o' || kind == 'O' ? 8
                     : kind == 'b' || kind == 'B' ? 2
                                                  : 10;
    if (base != 10)
        x->at += 2;
    /* After a dot it is an index, not the whole part of a number. */
    const bool index = x->at > 0 && x->source[x->at - 1] == '.';
    size_t count = digits(x, base, text, 40);
    if (count == 0 || count > 40)
        work_fail(w, TERN_BAD_MODEL, "a number of %zu digits", count);
    bool real = false;
    if (base == 10 && !index && x->at + 1 < x->length && x->source[x->at] == '.' &&
        digit(x->source[x->at + 1]) < 10) {
        x->at++;
        text[count++] = '.';
        size_t more = digits(x, 10, text + count, 40);
        count += more < 40 ? more : 40;
        real = true;
    }
    const char e = base == 10 && !index && x->at < x->length ? x->source[x->at] : '\0';
    if (e == 'e' || e == 'E') {
        struct lexer y = *x;
        char exponent[8] = "e", *to = exponent + 1;
        y.at++;
        if (y.at < y.length && (y.source[y.at] == '-' || y.source[y.at] == '+'))
            *to++ = y.source[y.at++];
        const size_t more = digits(&y, 10, to, 4);
        if (more > 0 && more <= 4) {
            to[more] = '\0';
            memcpy(text + count, exponent, strlen(exponent));
            count += strlen(exponent);
            *x = y;
            real = true;
        }
    }
    text[count] = '\0';
    return real ? value_float(strtod(text, NULL)) : whole(w, text, count, base);
}
