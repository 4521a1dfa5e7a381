/* Filters on texts. */
#include "coordinator/chat/template/functions.h"

#include "coordinator/tokenizer/unicode.h"

#include <string.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef const struct arguments *args;

static void no_arguments(struct work *w, const char *name, args given)
{
    arguments_bind(w, name, given, (const char *const[]){NULL}, 0, NULL);
}

static struct value in_case(struct work *w, struct value v, args given, enum text_case which)
{
    no_arguments(w, "filter", given);
    return value_text(text_in_case(w, value_string(w, v), which));
}

static struct value upper(struct work *w, struct value v, args given)
{
    return in_case(w, v, given, TEXT_UPPER);
}

static struct value lower(struct work *w, struct value v, args given)
{
    return in_case(w, v, given, TEXT_LOWER);
}

static struct value capitalize(struct work *w, struct value v, args given)
{
    return in_case(w, v, given, TEXT_CAPITALIZE);
}

/* Position of the first character at or after `at` that is white space or one of - ( { [ <, or is
 * none of those. */
static size_t find_gap(const struct text *text, size_t at, bool wanted)
{
    while (at < text->length) {
        unsigned bytes;
        const uint32_t c = unicode_point(text->bytes + at, &bytes);
        const bool gap =
            text_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
        if (gap == wanted)
            break;
        at += bytes;
    }
    return at;
}

/* Words begin after gaps. */
static struct value title(struct work *w, struct value v, args given)
{
    no_arguments(w, "title", given);
    const struct text *text = value_string(w, v);
    struct builder b = {0};
    for (size_t at = 0; at < text->length;) {
        const size_t end = find_gap(text, at, true);
        builder_add(w, &b, text_in_case(w, text_slice(w, text, at, end), TEXT_CAPITALIZE));
        at = find_gap(text, end, false);
        builder_add(w, &b, text_slice(w, text, end, at));
    }
    return value_text(builder_text(w, &b));
}

static struct value string(struct work *w, struct value v, args given)
{
    no_arguments(w, "string", given);
    return value_text(value_string(w, v));
}

static struct value trim(struct work *w, struct value v, args given)
{
    struct value chars;
    arguments_bind(w, "trim", given, NAMES("chars"), 0, &chars);
    const struct text *set = chars.kind == VALUE_NONE ? NULL : argument_text(w, chars, NULL);
    return value_text(text_strip(w, value_string(w, v), set, TEXT_LEFT | TEXT_RIGHT));
}

static struct value replace(struct work *w, struct value v, args given)
{
    struct value a[3];
    arguments_bind(w, "replace", given, NAMES("old", "new", "count"), 2, a);
    const int64_t limit = a[2].kind == VALUE_NONE ? -1 : argument_int(w, a[2], -1);
    return value_text(
        text_replace(w, value_string(w, v), value_string(w, a[0]), value_string(w, a[1]), limit));
}

static struct value escape(struct work *w, struct value v, args given)
{
    no_arguments(w, "escape", given);
    return value_text(text_escape(w, value_string(w, v)));
}

static struct value force_escape(struct work *w, struct value v, args given)
{
    no_arguments(w, "forceescape", given);
    return value_text(text_escape(w, text_with_safe(w, value_string(w, v), false)));
}

static struct value safe(struct work *w, struct value v, args given)
{
    no_arguments(w, "safe", given);
    return value_text(text_with_safe(w, value_string(w, v), true));
}

static struct value tojson(struct work *w, struct value v, args given)
{
    struct value a[4];
    struct json_style style = {.indent = -1};
    arguments_bind(w, "tojson", given, NAMES("ensure_ascii", "indent", "separators", "sort_keys"),
                   0, a);
    style.ascii = value_truth(a[0]);
    if (a[1].kind != VALUE_NONE)
        style.indent = argument_int(w, a[1], -1);
    if (a[2].kind != VALUE_NONE && a[2].kind != VALUE_ABSENT) {
        const struct value both = value_items(w, a[2]);
        if (both.list->count != 2)
            work_fail(w, TERN_BAD_MODEL, "two separators are needed");
        style.item_separator = argument_text(w, both.list->item[0], NULL);
        style.key_separator = argument_text(w, both.list->item[1], NULL);
    }
    style.sort_keys = value_truth(a[3]);
    return value_text(json_text(w, v, &style));
}

/* Each line but the first (unless `first`) gets `by` before it; empty ones only if `blank`. */
static struct value indent(struct work *w, struct value v, args given)
{
    struct value a[3];
    struct builder by = {0}, b = {0};
    arguments_bind(w, "indent", given, NAMES("width", "first", "blank"), 0, a);
    if (a[0].kind == VALUE_STRING) {
        builder_add(w, &by, a[0].text);
    } else {
        const int64_t width = argument_int(w, a[0], 4);
        builder_repeat(w, &by, " ", width < 0 ? 0 : (size_t)width);
    }
    if (v.kind != VALUE_STRING)
        work_fail(w, TERN_BAD_MODEL, "indent needs a string, not '%s'", value_kind_name(v));
    const struct text *text = v.text, *margin = builder_text(w, &by);
    bool wanted = value_truth(a[1]);
    for (size_t at = 0, next;; at = next) {
        const size_t end = text_line_end(w, text, at, &next);
        if (wanted && (at == 0 || end > at || value_truth(a[2])))
            builder_add(w, &b, margin);
        builder_add(w, &b, text_slice(w, text, at, end));
        if (next == end)
            return value_text(builder_text(w, &b));
        builder_bytes(w, &b, "\n", 1, text->marks != NULL && text->marks[end]);
        wanted = true;
    }
}

static struct value format(struct work *w, struct value v, args given)
{
    const struct value tuple = list_new(w, VALUE_TUPLE, given->count);
    for (size_t i = 0; i < given->count; i++)
        list_add(w, tuple, given->item[i].value);
    return value_text(text_format(w, value_string(w, v), tuple));
}

static struct value center(struct work *w, struct value v, args given)
{
    struct value width;
    arguments_bind(w, "center", given, NAMES("width"), 0, &width);
    const struct text *text = value_string(w, v);
    const int64_t wanted = argument_int(w, width, 80), has = (int64_t)text_characters(w, text);
    const int64_t pad = wanted > has ? wanted - has : 0;
    const int64_t left = pad / 2 + (pad & wanted & 1);
    struct builder b = {0};
    builder_repeat(w, &b, " ", (size_t)left);
    builder_add(w, &b, text);
    builder_repeat(w, &b, " ", (size_t)(pad - left));
    return value_text(builder_text(w, &b));
}

static struct value word_count(struct work *w, struct value v, args given)
{
    no_arguments(w, "wordcount", given);
    const struct text *text = value_string(w, v);
    int64_t words = 0;
    bool inside = false;
    work_spend_bytes(w, 16 * text->length);
    for (size_t at = 0; at < text->length;) {
        unsigned bytes;
        const bool before = inside;
        inside = text_is_word(unicode_point(text->bytes + at, &bytes));
        words += inside && !before;
        at += bytes;
    }
    return value_int(words);
}

static struct value truncate(struct work *w, struct value v, args given)
{
    struct value a[4];
    arguments_bind(w, "truncate", given, NAMES("length", "killwords", "end", "leeway"), 0, a);
    const struct text *end = argument_text(w, a[2], text_of(w, "..."));
    const int64_t length = argument_int(w, a[0], 255), leeway = argument_int(w, a[3], 5);
    const int64_t ending = (int64_t)text_characters(w, end);
    if (length < ending || leeway < 0 || leeway > INT32_MAX || length > INT32_MAX)
        work_fail(w, TERN_BAD_MODEL, "truncate to this length is not possible");
    if (value_length(w, v) <= length + leeway)
        return v;
    if (v.kind != VALUE_STRING)
        work_fail(w, TERN_BAD_MODEL, "truncate needs a string, not '%s'", value_kind_name(v));
    const struct text *text = v.text;
    size_t cut = text_position(w, text, (size_t)(length - ending));
    if (!value_truth(a[1])) { /* back to the last space */
        const char *space = memrchr(text->bytes, ' ', cut);
        if (space != NULL)
            cut = (size_t)(space - text->bytes);
    }
    struct builder b = {0};
    builder_add(w, &b, text_slice(w, text, 0, cut));
    builder_add(w, &b, end);
    return value_text(builder_text(w, &b));
}

const struct function text_filters[] = {
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"string", string},
    {"trim", trim},
    {"safe", safe},
    {"replace", replace},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"tojson", tojson},
    {"indent", indent},
    {"format", format},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", word_count},
    {NULL, NULL},
};
