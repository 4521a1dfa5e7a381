/* Values as text: Python's str, repr and %. */
#include "coordinator/chat/template/functions.h"

#include "coordinator/tokenizer/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The fewest digits that read back as the same number, as Python's repr. */
void float_write(struct work *w, struct builder *b, double real)
{
    char digits[40], text[64];
    if (isnan(real) || isinf(real)) {
        builder_literal(w, b, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    int precision = 0;
    do
        snprintf(digits, sizeof digits, "%.*e", precision, real);
    while (strtod(digits, NULL) != real && ++precision < 17);
    const int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        snprintf(text, sizeof text, "%s", digits);
    else
        snprintf(text, sizeof text, "%.*f", precision > exponent ? precision - exponent : 1, real);
    builder_literal(w, b, text);
}

static bool is_printable(uint32_t point)
{
    switch (utf8proc_category((utf8proc_int32_t)point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return point == ' ';
    default:
        return true;
    }
}

static void write_quoted(struct work *w, struct builder *b, const struct text *text)
{
    const bool single = memchr(text->bytes, '\'', text->length) != NULL,
               twofold = memchr(text->bytes, '"', text->length) != NULL;
    const char quote = single && !twofold ? '"' : '\'';
    builder_bytes(w, b, &quote, 1, false);
    for (size_t at = 0; at < text->length;) {
        unsigned bytes;
        const uint32_t point = unicode_point(text->bytes + at, &bytes);
        const bool mark = text->marks != NULL && text->marks[at];
        char escape[16] = "";
        if (point == (uint32_t)quote || point == '\\')
            snprintf(escape, sizeof escape, "\\%c", (char)point);
        else if (point == '\n' || point == '\r' || point == '\t')
            snprintf(escape, sizeof escape, "\\%c",
                     point == '\n'   ? 'n'
                     : point == '\r' ? 'r'
                                     : 't');
        else if (!is_printable(point))
            snprintf(escape, sizeof escape,
                     point < 0x100     ? "\\x%02" PRIx32
                     : point < 0x10000 ? "\\u%04" PRIx32
                                       : "\\U%08" PRIx32,
                     point);
        if (escape[0] != '\0')
            builder_bytes(w, b, escape, strlen(escape), mark);
        else
            builder_bytes(w, b, text->bytes + at, bytes, mark);
        at += bytes;
    }
    builder_bytes(w, b, &quote, 1, false);
}

static void write_list(struct work *w, struct builder *b, struct value v)
{
    const bool tuple = v.kind == VALUE_TUPLE;
    builder_literal(w, b, tuple ? "(" : "[");
    for (size_t i = 0; i < v.list->count; i++) {
        if (i > 0)
            builder_literal(w, b, ", ");
        value_write(w, b, v.list->item[i], true);
    }
    builder_literal(w, b, !tuple ? "]" : v.list->count == 1 ? ",)" : ")");
}

static void write_dict(struct work *w, struct builder *b, const struct dict *dict)
{
    builder_literal(w, b, "{");
    for (size_t i = 0; i < dict->count; i++) {
        if (i > 0)
            builder_literal(w, b, ", ");
        value_write(w, b, dict->pair[i].key, true);
        builder_literal(w, b, ": ");
        value_write(w, b, dict->pair[i].value, true);
    }
    builder_literal(w, b, "}");
}

static void write_range(struct work *w, struct builder *b, const struct list *list)
{
    char text[100];
    const int64_t first = list->count > 0 ? list->item[0].integer : 0;
    const int64_t step = list->count > 1 ? list->item[1].integer - first : 1;
    const int64_t end = list->count > 0 ? list->item[list->count - 1].integer + step : 0;
    snprintf(text, sizeof text,
             step == 1 ? "range(%" PRId64 ", %" PRId64 ")"
                       : "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
             first, end, step);
    builder_literal(w, b, text);
}

void value_write(struct work *w, struct builder *b, struct value v, bool quoted)
{
    char number[32];
    work_nest(w);
    switch (v.kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
        builder_literal(w, b, quoted ? "Undefined" : "");
        break;
    case VALUE_NONE:
        builder_literal(w, b, "None");
        break;
    case VALUE_BOOL:
        builder_literal(w, b, v.truth ? "True" : "False");
        break;
    case VALUE_INT:
        snprintf(number, sizeof number, "%" PRId64, v.integer);
        builder_literal(w, b, number);
        break;
    case VALUE_FLOAT:
        float_write(w, b, v.real);
        break;
    case VALUE_STRING:
        if (quoted)
            write_quoted(w, b, v.text);
        else
            builder_add(w, b, v.text);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        write_list(w, b, v);
        break;
    case VALUE_RANGE:
        write_range(w, b, v.list);
        break;
    case VALUE_DICT:
    case VALUE_NAMESPACE:
        write_dict(w, b, v.dict);
        break;
    default: /* has no text worth having */
        builder_literal(w, b, "<");
        builder_literal(w, b, value_kind_name(v));
        builder_literal(w, b, ">");
    }
}

const struct text *value_string(struct work *w, struct value v)
{
    if (v.kind == VALUE_STRING)
        return v.text;
    struct builder b = {0};
    value_write(w, &b, v, false);
    return builder_text(w, &b);
}

/* One conversion, whose flags, width and precision are in `spec` without its letter. */
static void convert(struct work *w, struct builder *b, const char *spec, char letter,
                    struct value v)
{
    char format[40], text[512];
    if (letter == 's' || letter == 'r') {
        struct builder one = {0};
        value_write(w, &one, v, letter == 'r');
        const struct text *whole = builder_text(w, &one);
        const char *dot = strchr(spec, '.');
        const int width = atoi(spec + 1 + strspn(spec + 1, "-0+ #"));
        if (dot != NULL)
            whole = text_slice(w, whole, 0, text_position(w, whole, (size_t)atoi(dot + 1)));
        const int64_t pad = width - (int64_t)text_characters(w, whole);
        if (pad > 0 && strchr(spec, '-') == NULL)
            builder_repeat(w, b, " ", (size_t)pad);
        builder_add(w, b, whole);
        if (pad > 0 && strchr(spec, '-') != NULL)
            builder_repeat(w, b, " ", (size_t)pad);
        return;
    }
    if (!is_number(v))
        work_fail(w, TERN_BAD_MODEL, "%%%c needs a number, not '%s'", letter, value_kind_name(v));
    if (strchr("eEfFgG", letter) != NULL) {
        snprintf(format, sizeof format, "%s%c", spec, letter);
        snprintf(text, sizeof text, format, real_of(v));
    } else {
        const double real = real_of(v);
        if (!is_whole(v) && !(fabs(real) < 9e18))
            work_fail(w, TERN_BAD_MODEL, "an integer of more than 64 bits");
        snprintf(format, sizeof format, "%sll%c", spec,
                 letter == 'u' || letter == 'i' ? 'd' : letter);
        snprintf(text, sizeof text, format, (long long)(is_whole(v) ? whole_of(v) : (int64_t)real));
    }
    builder_literal(w, b, text);
}

/* Copies the flags, width and precision after a '%' at `at`; returns the position after them. */
static size_t read_spec(struct work *w, const struct text *format, size_t at, char spec[16])
{
    size_t length = 0, digits = 0;
    spec[length++] = '%';
    while (at < format->length && memchr("-+ #0123456789.", format->bytes[at], 15) != NULL) {
        digits = format->bytes[at] >= '0' && format->bytes[at] <= '9' ? digits + 1 : 0;
        if (length == 15 || digits > 3)
            work_fail(w, TERN_BAD_MODEL, "a format with too many digits");
        spec[length++] = format->bytes[at++];
    }
    spec[length] = '\0';
    return at;
}

const struct text *text_format(struct work *w, const struct text *format, struct value arguments)
{
    const bool tuple = arguments.kind == VALUE_TUPLE;
    const size_t count = tuple ? arguments.list->count : 1;
    size_t used = 0;
    struct builder b = {0};
    for (size_t at = 0; at < format->length;) {
        const char *percent = memchr(format->bytes + at, '%', format->length - at);
        const size_t next = percent == NULL ? format->length : (size_t)(percent - format->bytes);
        builder_add(w, &b, text_slice(w, format, at, next));
        if (percent == NULL)
            break;
        char spec[16];
        at = read_spec(w, format, next + 1, spec);
        const char letter = at < format->length ? format->bytes[at++] : '\0';
        if (letter == '%') {
            builder_literal(w, &b, "%");
        } else if (letter == '\0' || strchr("srdiuxXoeEfFgG", letter) == NULL) {
            work_fail(w, TERN_UNSUPPORTED, "a format of this kind is not supported; use --raw");
        } else {
            if (used == count)
                work_fail(w, TERN_BAD_MODEL, "not enough values for the format");
            convert(w, &b, spec, letter, tuple ? arguments.list->item[used] : arguments);
            used++;
        }
    }
    if (tuple && used < count)
        work_fail(w, TERN_BAD_MODEL, "more values than the format has places for");
    return builder_text(w, &b);
}
