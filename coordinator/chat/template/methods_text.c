/* Methods of strings that give a string. */
#include "coordinator/chat/template/functions.h"

#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef const struct arguments *args;

static struct value strip_sides(struct work *w, struct value self, args given, int sides)
{
    struct value chars;
    arguments_bind(w, "strip", given, NAMES("chars"), 0, &chars);
    const struct text *set = chars.kind == VALUE_NONE ? NULL : argument_text(w, chars, NULL);
    return value_text(text_strip(w, self.text, set, sides));
}

static struct value strip(struct work *w, struct value self, args given)
{
    return strip_sides(w, self, given, TEXT_LEFT | TEXT_RIGHT);
}

static struct value lstrip(struct work *w, struct value self, args given)
{
    return strip_sides(w, self, given, TEXT_LEFT);
}

static struct value rstrip(struct work *w, struct value self, args given)
{
    return strip_sides(w, self, given, TEXT_RIGHT);
}

static struct value in_case(struct work *w, struct value self, args given, enum text_case which)
{
    arguments_bind(w, "method", given, (const char *const[]){NULL}, 0, NULL);
    return value_text(text_in_case(w, self.text, which));
}

static struct value upper(struct work *w, struct value self, args given)
{
    return in_case(w, self, given, TEXT_UPPER);
}

static struct value lower(struct work *w, struct value self, args given)
{
    return in_case(w, self, given, TEXT_LOWER);
}

static struct value title(struct work *w, struct value self, args given)
{
    return in_case(w, self, given, TEXT_TITLE);
}

static struct value capitalize(struct work *w, struct value self, args given)
{
    return in_case(w, self, given, TEXT_CAPITALIZE);
}

static struct value replace(struct work *w, struct value self, args given)
{
    struct value a[3];
    arguments_bind(w, "replace", given, NAMES("old", "new", "count"), 2, a);
    return value_text(text_replace(w, self.text, argument_text(w, a[0], NULL),
                                   argument_text(w, a[1], NULL), argument_int(w, a[2], -1)));
}

static struct value join(struct work *w, struct value self, args given)
{
    struct value iterable;
    struct builder b = {0};
    arguments_bind(w, "join", given, NAMES("iterable"), 1, &iterable);
    check_defined(w, iterable);
    const struct value items = value_items(w, iterable);
    for (size_t i = 0; i < items.list->count; i++) {
        if (i > 0)
            builder_add(w, &b, self.text);
        builder_add(w, &b, argument_text(w, items.list->item[i], NULL));
    }
    return value_text(builder_text(w, &b));
}

static struct value remove_prefix(struct work *w, struct value self, args given)
{
    struct value prefix;
    arguments_bind(w, "removeprefix", given, NAMES("prefix"), 1, &prefix);
    const struct text *start = argument_text(w, prefix, NULL);
    const bool there = text_starts(w, self.text, start);
    return value_text(text_slice(w, self.text, there ? start->length : 0, self.text->length));
}

static struct value remove_suffix(struct work *w, struct value self, args given)
{
    struct value suffix;
    arguments_bind(w, "removesuffix", given, NAMES("suffix"), 1, &suffix);
    const struct text *end = argument_text(w, suffix, NULL);
    const bool there = text_ends(w, self.text, end);
    return value_text(text_slice(w, self.text, 0, self.text->length - (there ? end->length : 0)));
}

/* Padded with a character to a width; `left` and `right` say on which sides. */
static struct value pad(struct work *w, struct value self, args given, bool left, bool right)
{
    struct value a[2];
    arguments_bind(w, "ljust", given, NAMES("width", "fillchar"), 1, a);
    const struct text *fill = argument_text(w, a[1], text_of(w, " "));
    const int64_t width = argument_int(w, a[0], 0), has = (int64_t)text_characters(w, self.text);
    if (text_characters(w, fill) != 1)
        work_fail(w, TERN_BAD_MODEL, "one character is needed to fill with");
    if (width > (int64_t)w->output_limit)
        work_fail(w, TERN_BAD_MODEL, "a string of more than %zu bytes; use --raw", w->output_limit);
    const int64_t all = width > has ? width - has : 0;
    const int64_t before = !left ? 0 : right ? all / 2 + (all & width & 1) : all;
    struct builder b = {0};
    for (int64_t i = 0; i < before; i++)
        builder_add(w, &b, fill);
    builder_add(w, &b, self.text);
    for (int64_t i = before; i < all; i++)
        builder_add(w, &b, fill);
    return value_text(builder_text(w, &b));
}

static struct value ljust(struct work *w, struct value self, args given)
{
    return pad(w, self, given, false, true);
}

static struct value rjust(struct work *w, struct value self, args given)
{
    return pad(w, self, given, true, false);
}

static struct value center(struct work *w, struct value self, args given)
{
    return pad(w, self, given, true, true);
}

static struct value zfill(struct work *w, struct value self, args given)
{
    struct value width;
    arguments_bind(w, "zfill", given, NAMES("width"), 1, &width);
    const struct text *text = self.text;
    const bool sign = text->length > 0 && (text->bytes[0] == '-' || text->bytes[0] == '+');
    const int64_t wanted = argument_int(w, width, 0), has = (int64_t)text_characters(w, text);
    struct builder b = {0};
    builder_add(w, &b, text_slice(w, text, 0, sign));
    builder_repeat(w, &b, "0", wanted < has ? 0 : (size_t)(wanted - has));
    builder_add(w, &b, text_slice(w, text, sign, text->length));
    return value_text(builder_text(w, &b));
}

/* {} , {0} and {name} without formats. */
static struct value format(struct work *w, struct value self, args given)
{
    struct builder b = {0};
    size_t next = 0;
    const struct text *text = self.text;
    for (size_t at = 0; at < text->length;) {
        size_t brace = at;
        while (brace < text->length && text->bytes[brace] != '{' && text->bytes[brace] != '}')
            brace++;
        const char c = brace < text->length ? text->bytes[brace] : '\0';
        const bool twice = brace + 1 < text->length && text->bytes[brace + 1] == c;
        builder_add(w, &b, text_slice(w, text, at, brace + twice));
        at = brace + 2 * twice;
        if (twice || at == text->length)
            continue;
        const size_t end = text_find(w, text, text_of(w, "}"), at);
        if (c == '}' || end == SIZE_MAX)
            work_fail(w, TERN_BAD_MODEL, "a single brace in a format");
        const struct text *field = text_slice(w, text, at + 1, end);
        size_t place = given->positional;
        if (field->length == 0)
            place = next++;
        else if (field->length == 1 && field->bytes[0] >= '0' && field->bytes[0] <= '9')
            place = (size_t)(field->bytes[0] - '0');
        else
            while (place < given->count && !text_equal(given->item[place].name, field))
                place++;
        if (place >= given->count)
            work_fail(w, TERN_BAD_MODEL, "a field of the format has no value");
        const size_t before = b.length;
        value_write(w, &b, given->item[place].value, false);
        if (text->marks != NULL && text->marks[at]) /* what a user places is the user's */
            builder_mark(w, &b, before);
        at = end + 1;
    }
    return value_text(builder_text(w, &b));
}

const struct function text_methods[] = {
    {"strip", strip},
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"upper", upper},
    {"lower", lower},
    {"casefold", lower},
    {"title", title},
    {"capitalize", capitalize},
    {"replace", replace},
    {"join", join},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
    {"ljust", ljust},
    {"rjust", rjust},
    {"center", center},
    {"zfill", zfill},
    {"format", format},
    {NULL, NULL},
};
