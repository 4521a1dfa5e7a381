/* Python's text % arguments. */
#include "coordinator/chat/template/functions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What stands between a '%' and its letter. */
struct spec {
    bool left, zero, plus, space, alternate;
    int width, precision; /* precision < 0: not given */
};

/* `head` (sign and prefix), then `body`, brought to the width. */
static void write_padded(struct work *w, struct builder *b, const struct spec *spec, bool zeros,
                         const char *head, const char *body)
{
    const size_t length = strlen(head) + strlen(body), width = (size_t)spec->width,
                 fill = width > length ? width - length : 0;
    zeros = zeros && spec->zero && !spec->left;
    builder_repeat(w, b, " ", zeros || spec->left ? 0 : fill);
    builder_literal(w, b, head);
    builder_repeat(w, b, "0", zeros ? fill : 0);
    builder_literal(w, b, body);
    builder_repeat(w, b, " ", spec->left ? fill : 0);
}

static const char *sign_of(const struct spec *spec, bool negative)
{
    return negative ? "-" : spec->plus ? "+" : spec->space ? " " : "";
}

static void write_real(struct work *w, struct builder *b, const struct spec *spec, char letter,
                       double real)
{
    char form[8], body[1400]; /* 309 digits, a dot, 999 digits */
    snprintf(form, sizeof form, spec->alternate ? "%%#.*%c" : "%%.*%c", letter);
    const int length =
        snprintf(body, sizeof body, form, spec->precision < 0 ? 6 : spec->precision, fabs(real));
    work_spend(w, 10 + (uint64_t)length);
    write_padded(w, b, spec, isfinite(real), sign_of(spec, !isnan(real) && signbit(real)), body);
}

static void write_whole(struct work *w, struct builder *b, const struct spec *spec, char letter,
                        int64_t whole)
{
    char form[8], head[8], body[1024];
    const uint64_t size = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
    snprintf(form, sizeof form, "%%.*ll%c", letter);
    snprintf(body, sizeof body, form, spec->precision < 1 ? 1 : spec->precision,
             (unsigned long long)size);
    snprintf(head, sizeof head, spec->alternate && letter != 'u' ? "%s0%c" : "%s",
             sign_of(spec, whole < 0), letter);
    write_padded(w, b, spec, true, head, body);
}

static void write_text(struct work *w, struct builder *b, const struct spec *spec,
                       const struct text *text)
{
    if (spec->precision >= 0)
        text = text_slice(w, text, 0, text_position(w, text, (size_t)spec->precision));
    const size_t length = text_characters(w, text), width = (size_t)spec->width,
                 fill = width > length ? width - length : 0;
    builder_repeat(w, b, " ", spec->left ? 0 : fill);
    builder_add(w, b, text);
    builder_repeat(w, b, " ", spec->left ? fill : 0);
}

static void convert(struct work *w, struct builder *b, const struct spec *spec, char letter,
                    struct value v)
{
    if (letter == 's' || letter == 'r') {
        struct builder one = {0};
        value_write(w, &one, v, letter == 'r');
        write_text(w, b, spec, builder_text(w, &one));
        return;
    }
    if (!is_number(v) || (v.kind == VALUE_FLOAT && strchr("xXo", letter) != NULL))
        work_fail(w, TERN_BAD_MODEL, "%%%c needs a number, not '%s'", letter, value_kind_name(v));
    if (strchr("eEfFgG", letter) != NULL) {
        write_real(w, b, spec, letter, real_of(v));
        return;
    }
    if (!is_whole(v) && !(fabs(v.real) < 0x1p63))
        work_fail(w, TERN_BAD_MODEL, "an integer of more than 64 bits");
    write_whole(w, b, spec, letter == 'd' || letter == 'i' ? 'u' : letter,
                is_whole(v) ? whole_of(v) : (int64_t)v.real);
}

/* A number of at most three digits. */
static int read_digits(struct work *w, const struct text *format, size_t *at)
{
    int number = 0;
    for (; *at < format->length && format->bytes[*at] >= '0' && format->bytes[*at] <= '9'; ++*at) {
        number = 10 * number + (format->bytes[*at] - '0');
        if (number > 999)
            work_fail(w, TERN_BAD_MODEL, "a format with too many digits");
    }
    return number;
}

/* Flags, width and precision at *at, which goes past them. */
static struct spec read_spec(struct work *w, const struct text *format, size_t *at)
{
    struct spec spec = {.precision = -1};
    for (; *at < format->length; ++*at) {
        const char c = format->bytes[*at];
        bool *flag = c == '-'   ? &spec.left
                     : c == '0' ? &spec.zero
                     : c == '+' ? &spec.plus
                     : c == ' ' ? &spec.space
                     : c == '#' ? &spec.alternate
                                : NULL;
        if (flag == NULL)
            break;
        *flag = true;
    }
    spec.width = read_digits(w, format, at);
    if (*at < format->length && format->bytes[*at] == '.') {
        ++*at;
        spec.precision = read_digits(w, format, at);
    }
    return spec;
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
        const size_t before = b.length;
        at = next + 1;
        const struct spec spec = read_spec(w, format, &at);
        const char letter = at < format->length ? format->bytes[at++] : '\0';
        if (letter == '%') {
            builder_literal(w, &b, "%");
        } else if (letter == '\0' || strchr("srdiuxXoeEfFgG", letter) == NULL) {
            work_fail(w, TERN_UNSUPPORTED, "a format of this kind is not supported; use --raw");
        } else {
            if (used == count)
                work_fail(w, TERN_BAD_MODEL, "not enough values for the format");
            convert(w, &b, &spec, letter, tuple ? arguments.list->item[used] : arguments);
            used++;
        }
        if (format->marks != NULL && format->marks[next]) /* what a user places is the user's */
            builder_mark(w, &b, before);
    }
    if (used < count && arguments.kind != VALUE_LIST && arguments.kind != VALUE_DICT)
        work_fail(w, TERN_BAD_MODEL, "more values than the format has places for");
    return builder_text(w, &b);
}
