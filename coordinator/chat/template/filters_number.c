/* Filters that give a number. */
#include "coordinator/chat/template/functions.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef const struct arguments *args;

static bool in_number(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A text as a C string of at most 60 bytes without white space around and without single
 * underscores between digits; "" if it is longer or no number. `refused`: characters that the C
 * library would take in numbers and Python does not. */
static void number_text(struct work *w, struct value v, const char *refused, char out[64])
{
    size_t length = 0;
    const struct text *text = v.kind == VALUE_STRING
                                  ? text_strip(w, v.text, NULL, TEXT_LEFT | TEXT_RIGHT)
                                  : text_of(w, "");
    for (size_t i = 0; i < text->length && length <= 60; i++) {
        const char c = text->bytes[i];
        const bool between = c == '_' && i > 0 && i + 1 < text->length &&
                             in_number(text->bytes[i - 1]) && in_number(text->bytes[i + 1]);
        if (c == '\0' || strchr(refused, c) != NULL)
            length = 61;
        else if (!between)
            out[length++] = c;
    }
    out[length > 60 ? 0 : length] = '\0';
}

static struct value to_int(struct work *w, struct value v, args given)
{
    struct value a[2];
    char text[64], *end;
    arguments_bind(w, "int", given, NAMES("default", "base"), 0, a);
    const struct value otherwise = a[0].kind == VALUE_ABSENT ? value_int(0) : a[0];
    const int64_t base = argument_int(w, a[1], 10);
    check_defined(w, v);
    if (is_whole(v))
        return value_int(whole_of(v));
    if (base != 10 && base != 16 && base != 8 && base != 2)
        work_fail(w, TERN_UNSUPPORTED, "int to this base is not supported");
    double real = v.kind == VALUE_FLOAT ? v.real : NAN;
    if (v.kind == VALUE_STRING) {
        number_text(w, v, base == 10 ? "(xX" : "(", text);
        errno = 0;
        const long long whole = strtoll(text, &end, (int)base);
        if (text[0] != '\0' && *end == '\0' && errno == 0)
            return value_int(whole);
        number_text(w, v, "(xX", text);
        real = strtod(text, &end);
        if (text[0] == '\0' || *end != '\0')
            return otherwise;
    }
    if (isfinite(real) && !(fabs(real) < 0x1p63))
        work_fail(w, TERN_BAD_MODEL, "an integer of more than 64 bits");
    return isfinite(real) ? value_int((int64_t)real) : otherwise;
}

static struct value to_float(struct work *w, struct value v, args given)
{
    struct value otherwise;
    char text[64], *end;
    arguments_bind(w, "float", given, NAMES("default"), 0, &otherwise);
    if (otherwise.kind == VALUE_ABSENT)
        otherwise = value_float(0);
    check_defined(w, v);
    if (is_number(v))
        return value_float(real_of(v));
    number_text(w, v, "(xX", text);
    const double real = strtod(text, &end);
    return text[0] != '\0' && *end == '\0' ? value_float(real) : otherwise;
}

static struct value absolute(struct work *w, struct value v, args given)
{
    arguments_bind(w, "abs", given, (const char *const[]){NULL}, 0, NULL);
    if (v.kind == VALUE_FLOAT)
        return value_float(fabs(v.real));
    if (!is_whole(v))
        work_fail(w, TERN_BAD_MODEL, "abs needs a number, not '%s'", value_kind_name(v));
    return whole_of(v) < 0 ? value_binary(w, '-', value_int(0), v) : value_int(whole_of(v));
}

/* To a multiple of 10 to some power. */
static struct value round_whole(struct work *w, int64_t whole, int zeros)
{
    int64_t unit = 1, down;
    for (; zeros > 0; zeros--)
        unit *= 10;
    const int64_t rest = (whole % unit + unit) % unit;
    const bool overflow = __builtin_sub_overflow(whole, rest, &down);
    const bool up = 2 * rest > unit || (2 * rest == unit && down / unit % 2 != 0);
    if (overflow || __builtin_add_overflow(down, up ? unit : 0, &down))
        work_fail(w, TERN_BAD_MODEL, "an integer of more than 64 bits");
    return value_int(down);
}

/* As Python's round: of what the number is exactly, halves to even; integers stay integers. */
static struct value round_to_even(struct work *w, struct value v, int precision)
{
    char text[400];
    if (is_whole(v))
        return round_whole(w, whole_of(v), precision < 0 ? -precision : 0);
    if (precision < 0) {
        const double unit = pow(10, -precision);
        return value_float(rint(v.real / unit) * unit);
    }
    snprintf(text, sizeof text, "%.*f", precision, v.real);
    work_spend(w, 40);
    return value_float(strtod(text, NULL));
}

static struct value rounded(struct work *w, struct value v, args given)
{
    struct value a[2];
    arguments_bind(w, "round", given, NAMES("precision", "method"), 0, a);
    const int64_t precision = argument_int(w, a[0], 0);
    const struct text *method = argument_text(w, a[1], text_of(w, "common"));
    if (!is_number(v) || precision < -15 || precision > 15)
        work_fail(w, TERN_BAD_MODEL, "round needs a number and a precision of -15 to 15");
    if (text_is(method, "common"))
        return round_to_even(w, v, (int)precision);
    if (!text_is(method, "ceil") && !text_is(method, "floor"))
        work_fail(w, TERN_BAD_MODEL, "round knows the methods common, ceil and floor");
    const double scale = pow(10, (double)precision), real = real_of(v) * scale;
    /* There are integers between in Python, which know no -0. */
    return value_float(((text_is(method, "ceil") ? ceil(real) : floor(real)) + 0.0) / scale);
}

const struct function number_filters[] = {
    {"int", to_int}, {"float", to_float}, {"abs", absolute}, {"round", rounded}, {NULL, NULL},
};
