/* Methods of strings that look into them: splitting, finding, asking. */
#include "coordinator/chat/template/functions.h"

#include "coordinator/tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef const struct arguments *args;

/* ---- splitting ---- */

static void add_part(struct work *w, struct value out, const struct text *text, size_t from,
                     size_t to)
{
    list_add(w, out, value_text(text_slice(w, text, from, to)));
}

/* At white space, of which any amount separates. */
static struct value split_words(struct work *w, const struct text *text, int64_t limit)
{
    const struct value out = list_new(w, VALUE_LIST, 0);
    for (;;) {
        text = text_strip(w, text, NULL, TEXT_LEFT);
        if (text->length == 0)
            return out;
        unsigned bytes;
        size_t end = 0;
        while (end < text->length && !text_is_space(unicode_point(text->bytes + end, &bytes)))
            end += bytes;
        work_spend_bytes(w, end);
        if (limit >= 0 && (int64_t)out.list->count == limit) {
            add_part(w, out, text, 0, text->length);
            return out;
        }
        add_part(w, out, text, 0, end);
        text = text_slice(w, text, end, text->length);
    }
}

static struct value split_at(struct work *w, const struct text *text, const struct text *by,
                             int64_t limit)
{
    const struct value out = list_new(w, VALUE_LIST, 0);
    size_t from = 0;
    if (by->length == 0)
        work_fail(w, TERN_BAD_MODEL, "a string cannot be split at an empty separator");
    while (limit < 0 || (int64_t)out.list->count < limit) {
        const size_t at = text_find(w, text, by, from);
        if (at == SIZE_MAX)
            break;
        add_part(w, out, text, from, at);
        from = at + by->length;
    }
    add_part(w, out, text, from, text->length);
    return out;
}

static struct value split(struct work *w, struct value self, args given)
{
    struct value a[2];
    arguments_bind(w, "split", given, NAMES("sep", "maxsplit"), 0, a);
    const int64_t limit = argument_int(w, a[1], -1);
    if (a[0].kind == VALUE_NONE || a[0].kind == VALUE_ABSENT)
        return split_words(w, self.text, limit);
    return split_at(w, self.text, argument_text(w, a[0], NULL), limit);
}

/* Position of the last `what` that ends at or before `end`. */
static size_t find_last(struct work *w, const struct text *text, const struct text *what,
                        size_t end)
{
    for (size_t at = end < what->length ? 0 : end - what->length + 1; at-- > 0;) {
        work_spend_bytes(w, what->length);
        if (memcmp(text->bytes + at, what->bytes, what->length) == 0)
            return at;
    }
    return SIZE_MAX;
}

static struct value reversed_list(struct work *w, struct value list)
{
    const struct value out = list_new(w, VALUE_LIST, list.list->count);
    for (size_t i = list.list->count; i-- > 0;)
        list_add(w, out, list.list->item[i]);
    return out;
}

static struct value rsplit_words(struct work *w, const struct text *text, int64_t limit)
{
    const struct value parts = list_new(w, VALUE_LIST, 0);
    for (;;) {
        text = text_strip(w, text, NULL, TEXT_RIGHT);
        if (text->length == 0)
            return reversed_list(w, parts);
        size_t start = text->length;
        unsigned bytes;
        while (start > 0) {
            const size_t before = text_before(text, start);
            if (text_is_space(unicode_point(text->bytes + before, &bytes)))
                break;
            start = before;
        }
        work_spend_bytes(w, text->length - start);
        if ((int64_t)parts.list->count == limit) {
            list_add(w, parts, value_text(text));
            return reversed_list(w, parts);
        }
        add_part(w, parts, text, start, text->length);
        text = text_slice(w, text, 0, start);
    }
}

static struct value rsplit(struct work *w, struct value self, args given)
{
    struct value a[2];
    arguments_bind(w, "rsplit", given, NAMES("sep", "maxsplit"), 0, a);
    const int64_t limit = argument_int(w, a[1], -1);
    if (a[0].kind == VALUE_NONE || a[0].kind == VALUE_ABSENT)
        return limit < 0 ? split_words(w, self.text, limit) : rsplit_words(w, self.text, limit);
    const struct text *by = argument_text(w, a[0], NULL);
    if (limit < 0 || by->length == 0)
        return split_at(w, self.text, by, limit);
    const struct value parts = list_new(w, VALUE_LIST, 0);
    size_t end = self.text->length;
    while ((int64_t)parts.list->count < limit) {
        const size_t at = find_last(w, self.text, by, end);
        if (at == SIZE_MAX)
            break;
        add_part(w, parts, self.text, at + by->length, end);
        end = at;
    }
    add_part(w, parts, self.text, 0, end);
    return reversed_list(w, parts);
}

static struct value split_lines(struct work *w, struct value self, args given)
{
    struct value keep;
    arguments_bind(w, "splitlines", given, NAMES("keepends"), 0, &keep);
    const struct value out = list_new(w, VALUE_LIST, 0);
    const struct text *text = self.text;
    for (size_t from = 0, next; from < text->length; from = next) {
        const size_t end = text_line_end(w, text, from, &next);
        add_part(w, out, text, from, value_truth(keep) ? next : end);
    }
    return out;
}

static struct value part_at(struct work *w, struct value self, args given, bool last)
{
    struct value sep;
    arguments_bind(w, "partition", given, NAMES("sep"), 1, &sep);
    const struct text *by = argument_text(w, sep, NULL), *text = self.text;
    if (by->length == 0)
        work_fail(w, TERN_BAD_MODEL, "a string cannot be split at an empty separator");
    const size_t at = last ? find_last(w, text, by, text->length) : text_find(w, text, by, 0);
    const bool found = at != SIZE_MAX;
    const size_t start = found  ? at
                         : last ? 0
                                : text->length,
                 end = found ? at + by->length : start;
    const struct value out = list_new(w, VALUE_TUPLE, 3);
    add_part(w, out, text, 0, start);
    add_part(w, out, text, start, end); /* the text's own, which may be input */
    add_part(w, out, text, end, text->length);
    return out;
}

static struct value partition(struct work *w, struct value self, args given)
{
    return part_at(w, self, given, false);
}

static struct value rpartition(struct work *w, struct value self, args given)
{
    return part_at(w, self, given, true);
}

/* ---- finding ---- */

static bool begins_or_ends(struct work *w, struct value self, struct value with, bool begins)
{
    if (with.kind == VALUE_TUPLE) {
        work_nest(w);
        for (size_t i = 0; i < with.list->count; i++)
            if (begins_or_ends(w, self, with.list->item[i], begins))
                return true;
        return false;
    }
    const struct text *part = argument_text(w, with, NULL);
    return begins ? text_starts(w, self.text, part) : text_ends(w, self.text, part);
}

static struct value starts_with(struct work *w, struct value self, args given)
{
    struct value with;
    arguments_bind(w, "startswith", given, NAMES("prefix"), 1, &with);
    return value_bool(begins_or_ends(w, self, with, true));
}

static struct value ends_with(struct work *w, struct value self, args given)
{
    struct value with;
    arguments_bind(w, "endswith", given, NAMES("suffix"), 1, &with);
    return value_bool(begins_or_ends(w, self, with, false));
}

/* Index in characters, or -1. */
static int64_t index_of(struct work *w, struct value self, args given, bool last)
{
    struct value a;
    arguments_bind(w, "find", given, NAMES("sub"), 1, &a);
    const struct text *what = argument_text(w, a, NULL);
    const size_t at =
        last ? find_last(w, self.text, what, self.text->length) : text_find(w, self.text, what, 0);
    return at == SIZE_MAX ? -1 : (int64_t)text_characters(w, text_slice(w, self.text, 0, at));
}

static struct value find(struct work *w, struct value self, args given)
{
    return value_int(index_of(w, self, given, false));
}

static struct value rfind(struct work *w, struct value self, args given)
{
    return value_int(index_of(w, self, given, true));
}

static struct value index_or_fail(struct work *w, struct value self, args given)
{
    const int64_t index = index_of(w, self, given, false);
    if (index < 0)
        work_fail(w, TERN_BAD_MODEL, "index: the substring is not there");
    return value_int(index);
}

static struct value count(struct work *w, struct value self, args given)
{
    struct value a;
    arguments_bind(w, "count", given, NAMES("sub"), 1, &a);
    const struct text *what = argument_text(w, a, NULL);
    if (what->length == 0)
        return value_int((int64_t)text_characters(w, self.text) + 1);
    int64_t times = 0;
    for (size_t at = 0; (at = text_find(w, self.text, what, at)) != SIZE_MAX; at += what->length)
        times++;
    return value_int(times);
}

/* ---- asking ---- */

enum kind { LETTER = 1, DIGIT = 2, NUMBER = 4, SPACE = 8 };

static int kind_of(uint32_t point)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
        return LETTER;
    if (category == UTF8PROC_CATEGORY_ND)
        return DIGIT;
    if (category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO)
        return NUMBER;
    return text_is_space(point) ? SPACE : 0;
}

static struct value all_are(struct work *w, struct value self, args given, int kinds)
{
    arguments_bind(w, "method", given, (const char *const[]){NULL}, 0, NULL);
    work_spend_bytes(w, 16 * self.text->length);
    for (size_t at = 0; at < self.text->length;) {
        unsigned bytes;
        if ((kind_of(unicode_point(self.text->bytes + at, &bytes)) & kinds) == 0)
            return value_bool(false);
        at += bytes;
    }
    return value_bool(self.text->length > 0);
}

static struct value is_alpha(struct work *w, struct value self, args given)
{
    return all_are(w, self, given, LETTER);
}

static struct value is_digit(struct work *w, struct value self, args given)
{
    return all_are(w, self, given, DIGIT);
}

static struct value is_numeric(struct work *w, struct value self, args given)
{
    return all_are(w, self, given, DIGIT | NUMBER);
}

static struct value is_alnum(struct work *w, struct value self, args given)
{
    return all_are(w, self, given, LETTER | DIGIT | NUMBER);
}

static struct value is_space(struct work *w, struct value self, args given)
{
    return all_are(w, self, given, SPACE);
}

static struct value is_case(struct work *w, struct value self, args given, const char *test)
{
    return value_bool(apply_test(w, text_of(w, test), self, given));
}

static struct value is_upper(struct work *w, struct value self, args given)
{
    return is_case(w, self, given, "upper");
}

static struct value is_lower(struct work *w, struct value self, args given)
{
    return is_case(w, self, given, "lower");
}

const struct function text_search_methods[] = {
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", split_lines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"startswith", starts_with},
    {"endswith", ends_with},
    {"find", find},
    {"rfind", rfind},
    {"index", index_or_fail},
    {"count", count},
    {"isalpha", is_alpha},
    {"isdigit", is_digit},
    {"isdecimal", is_digit},
    {"isnumeric", is_numeric},
    {"isalnum", is_alnum},
    {"isspace", is_space},
    {"isupper", is_upper},
    {"islower", is_lower},
    {NULL, NULL},
};
