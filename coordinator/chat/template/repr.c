/* Values as text: Python's str and repr. */
#include "coordinator/chat/template/functions.h"

#include "coordinator/tokenizer/unicode.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The fewest digits that read back as the same number, as Python's repr. Those are at most 17; 15
 * hold any that were written with fewer, but for the smallest numbers. */
void float_write(struct work *w, struct builder *b, double real)
{
    char digits[40], text[64];
    if (isnan(real) || isinf(real)) {
        builder_literal(w, b, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    int precision = fabs(real) < DBL_MIN ? 0 : 14;
    do {
        snprintf(digits, sizeof digits, "%.*e", precision, real);
        work_spend(w, 40);
    } while (strtod(digits, NULL) != real && ++precision < 17);
    const size_t before_dot = 1 + (digits[0] == '-');
    while (precision > 0 && digits[before_dot + (size_t)precision] == '0')
        precision--;
    snprintf(digits, sizeof digits, "%.*e", precision, real);
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
        if (!quoted) {
            builder_add(w, b, v.text);
            break;
        }
        builder_literal(w, b, v.text->safe ? "Markup(" : "");
        write_quoted(w, b, v.text);
        builder_literal(w, b, v.text->safe ? ")" : "");
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        write_list(w, b, v);
        break;
    case VALUE_RANGE:
        work_fail(w, TERN_UNSUPPORTED, "a range as text is not supported; use --raw");
    case VALUE_DICT:
        write_dict(w, b, v.dict);
        break;
    case VALUE_NAMESPACE:
        builder_literal(w, b, "<Namespace ");
        write_dict(w, b, v.dict);
        builder_literal(w, b, ">");
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
