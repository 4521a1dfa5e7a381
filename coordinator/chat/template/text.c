/* What Python does with strings. */
#include "coordinator/chat/template/text.h"

#include "coordinator/tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

bool text_equal(const struct text *a, const struct text *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->bytes, b->bytes, a->length) == 0);
}

bool text_is(const struct text *text, const char *literal)
{
    return strlen(literal) == text->length && memcmp(text->bytes, literal, text->length) == 0;
}

/* The order of code points is that of UTF-8's bytes. */
int text_compare(const struct text *a, const struct text *b)
{
    const size_t common = a->length < b->length ? a->length : b->length;
    const int order = common == 0 ? 0 : memcmp(a->bytes, b->bytes, common);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

size_t text_find(struct work *w, const struct text *in, const struct text *what, size_t from)
{
    if (from > in->length)
        return SIZE_MAX;
    const char *found = memmem(in->bytes + from, in->length - from, what->bytes, what->length);
    const size_t at = found == NULL ? SIZE_MAX : (size_t)(found - in->bytes);
    /* Preparing to search costs the length of what is searched; texts can be made in which each
     * place agrees with much of a long one. */
    const size_t seen = found == NULL ? in->length - from : at - from;
    work_spend_bytes(w, (what->length > 16 ? 8 : 1) * seen + what->length);
    return at;
}

bool text_starts(struct work *w, const struct text *text, const struct text *start)
{
    work_spend_bytes(w, start->length);
    return text->length >= start->length && memcmp(text->bytes, start->bytes, start->length) == 0;
}

bool text_ends(struct work *w, const struct text *text, const struct text *end)
{
    work_spend_bytes(w, end->length);
    return text->length >= end->length &&
           memcmp(text->bytes + text->length - end->length, end->bytes, end->length) == 0;
}

size_t text_line_end(struct work *w, const struct text *text, size_t at, size_t *next)
{
    const size_t from = at;
    *next = text->length;
    while (at < text->length) {
        unsigned bytes;
        const uint32_t c = unicode_point(text->bytes + at, &bytes);
        if ((c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
            c == 0x2029) {
            const bool pair = c == '\r' && at + 1 < text->length && text->bytes[at + 1] == '\n';
            *next = at + bytes + pair;
            break;
        }
        at += bytes;
    }
    work_spend_bytes(w, 4 * (*next - from));
    return at;
}

size_t text_characters(struct work *w, const struct text *text)
{
    size_t count = 0;
    for (size_t i = 0; i < text->length; i++)
        count += ((unsigned char)text->bytes[i] & 0xc0) != 0x80;
    work_spend_bytes(w, text->length);
    return count;
}

size_t text_position(struct work *w, const struct text *text, size_t character)
{
    size_t at = 0;
    for (; character > 0 && at < text->length; character--) {
        unsigned bytes;
        unicode_point(text->bytes + at, &bytes);
        at += bytes;
    }
    work_spend_bytes(w, 4 * at);
    return at;
}

size_t text_before(const struct text *text, size_t at)
{
    at--;
    while (at > 0 && ((unsigned char)text->bytes[at] & 0xc0) == 0x80)
        at--;
    return at;
}

bool text_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool text_is_word(uint32_t point)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
           (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) || point == '_';
}

/* Is the character of `bytes` bytes one to strip? */
static bool in_set(struct work *w, const char *at, unsigned bytes, const struct text *set)
{
    unsigned same;
    if (set == NULL)
        return text_is_space(unicode_point(at, &same));
    work_spend_bytes(w, set->length);
    return memmem(set->bytes, set->length, at, bytes) != NULL;
}

const struct text *text_strip(struct work *w, const struct text *text, const struct text *set,
                              int sides)
{
    size_t from = 0, to = text->length;
    unsigned bytes;
    while ((sides & TEXT_LEFT) && from < to) {
        unicode_point(text->bytes + from, &bytes);
        if (!in_set(w, text->bytes + from, bytes, set))
            break;
        from += bytes;
    }
    while ((sides & TEXT_RIGHT) && to > from) {
        const size_t start = text_before(text, to);
        if (!in_set(w, text->bytes + start, (unsigned)(to - start), set))
            break;
        to = start;
    }
    work_spend_bytes(w, 4 * (text->length - (to - from)));
    return text_slice(w, text, from, to);
}

static bool is_cased(uint32_t point)
{
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

const struct text *text_in_case(struct work *w, const struct text *text, enum text_case which)
{
    struct builder b = {0};
    bool inside = false; /* a word */
    work_spend(w, text->length / 4);
    for (size_t at = 0; at < text->length;) {
        unsigned bytes;
        const uint32_t point = unicode_point(text->bytes + at, &bytes);
        const bool mark = text->marks != NULL && text->marks[at];
        const bool first = which == TEXT_CAPITALIZE ? at == 0 : !inside;
        const bool up = which == TEXT_UPPER || (which != TEXT_LOWER && first);
        inside = is_cased(point);
        at += bytes;
        if (up && point == 0xdf) /* sharp s has no capital of its own in Python */
            builder_bytes(w, &b, which == TEXT_UPPER ? "SS" : "Ss", 2, mark);
        else if (!up)
            builder_point(w, &b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)point), mark);
        else if (which == TEXT_UPPER)
            builder_point(w, &b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)point), mark);
        else
            builder_point(w, &b, (uint32_t)utf8proc_totitle((utf8proc_int32_t)point), mark);
    }
    return text_with_safe(w, builder_text(w, &b), text->safe);
}

const struct text *text_escape(struct work *w, const struct text *text)
{
    static const char *const pairs[][2] = {
        {"&", "&amp;"}, {">", "&gt;"}, {"<", "&lt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
    if (text->safe)
        return text;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        text = text_replace(w, text, text_of(w, pairs[i][0]), text_of(w, pairs[i][1]), -1);
    return text_with_safe(w, text, true);
}

static bool has_input(const struct text *text, size_t from, size_t to)
{
    return text->marks != NULL && to > from && memchr(text->marks + from, 1, to - from) != NULL;
}

const struct text *text_replace(struct work *w, const struct text *text, const struct text *old,
                                const struct text *by, int64_t limit)
{
    struct builder b = {0};
    size_t from = 0;
    for (; limit != 0; limit -= limit > 0) {
        const size_t at = text_find(w, text, old, from);
        if (at == SIZE_MAX)
            break;
        builder_add(w, &b, text_slice(w, text, from, at));
        if (has_input(text, at, at + old->length))
            builder_bytes(w, &b, by->bytes, by->length, true);
        else
            builder_add(w, &b, by);
        from = at + old->length;
        if (old->length == 0) { /* before each character and at the end */
            if (at == text->length)
                return builder_text(w, &b);
            const size_t next = at + text_position(w, text_slice(w, text, at, text->length), 1);
            builder_add(w, &b, text_slice(w, text, at, next));
            from = next;
        }
    }
    builder_add(w, &b, text_slice(w, text, from, text->length));
    return builder_text(w, &b);
}
