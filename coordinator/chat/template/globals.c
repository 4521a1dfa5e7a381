/* Functions that a template can call without an object. */
#include "coordinator/chat/template/functions.h"

#include <string.h>
#include <time.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef const struct arguments *args;

enum { MOST_RANGE = 100000 /* items, as jinja2's sandbox has it */ };

static struct value raise_exception(struct work *w, struct value self, args given)
{
    struct value message;
    (void)self;
    arguments_bind(w, "raise_exception", given, NAMES("message"), 1, &message);
    const struct text *text = value_string(w, message);
    work_fail(w, TERN_USAGE, "the template refuses these messages: %.*s",
              (int)(text->length < 340 ? text->length : 340), text->bytes);
}

static struct value strftime_now(struct work *w, struct value self, args given)
{
    struct value format;
    char pattern[256], text[1024];
    (void)self;
    arguments_bind(w, "strftime_now", given, NAMES("format"), 1, &format);
    const struct text *wanted = argument_text(w, format, NULL);
    const time_t seconds = (time_t)w->seconds;
    struct tm now;
    work_spend(w, 20 + 8 * wanted->length);
    if (wanted->length >= sizeof pattern || memchr(wanted->bytes, '\0', wanted->length) != NULL ||
        localtime_r(&seconds, &now) == NULL)
        work_fail(w, TERN_BAD_MODEL, "strftime_now cannot tell the time in this form");
    for (size_t i = 0; i + 1 < wanted->length; i++) /* "%99999d" would be that many digits */
        if (wanted->bytes[i] == '%' && wanted->bytes[i + 1] >= '0' && wanted->bytes[i + 1] <= '9')
            work_fail(w, TERN_BAD_MODEL, "strftime_now cannot tell the time in this form");
    memcpy(pattern, wanted->bytes, wanted->length);
    pattern[wanted->length] = '\0';
    struct builder b = {0};
    builder_bytes(w, &b, text, strftime(text, sizeof text, pattern, &now), wanted->marks != NULL);
    return value_text(builder_text(w, &b));
}

static struct value range(struct work *w, struct value self, args given)
{
    struct value a[3];
    (void)self;
    arguments_bind(w, "range", given, NAMES("start", "stop", "step"), 1, a);
    const bool one = a[1].kind == VALUE_ABSENT;
    const int64_t from = one ? 0 : argument_int(w, a[0], 0),
                  to = one ? argument_int(w, a[0], 0) : argument_int(w, a[1], 0),
                  step = argument_int(w, a[2], 1);
    if (step == 0)
        work_fail(w, TERN_BAD_MODEL, "a range cannot have step 0");
    const struct value out = list_new(w, VALUE_RANGE, 0);
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        if (out.list->count == MOST_RANGE)
            work_fail(w, TERN_BAD_MODEL, "a range of more than %d items; use --raw", MOST_RANGE);
        list_add(w, out, value_int(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return out;
}

/* dict(...) and namespace(...): the pairs of a dict or list of pairs, then the named ones. */
static struct value named_values(struct work *w, args given, enum value_kind kind)
{
    const struct value out = dict_new(w, kind, given->count);
    if (given->positional > 1)
        work_fail(w, TERN_BAD_MODEL, "dict and namespace take at most one value without name");
    if (given->positional == 1) {
        const struct value v = given->item[0].value;
        const struct value pairs =
            v.kind == VALUE_DICT ? dict_list(w, v.dict, VALUE_LIST, DICT_ITEMS) : value_items(w, v);
        for (size_t i = 0; i < pairs.list->count; i++) {
            const struct value pair = value_items(w, pairs.list->item[i]);
            if (pair.list->count != 2)
                work_fail(w, TERN_BAD_MODEL, "a dict is made of pairs");
            dict_set(w, out, pair.list->item[0], pair.list->item[1]);
        }
    }
    for (size_t i = given->positional; i < given->count; i++)
        dict_set(w, out, value_text(given->item[i].name), given->item[i].value);
    return out;
}

static struct value dict(struct work *w, struct value self, args given)
{
    (void)self;
    return named_values(w, given, VALUE_DICT);
}

static struct value namespace(struct work *w, struct value self, args given)
{
    (void)self;
    return named_values(w, given, VALUE_NAMESPACE);
}

static struct value joiner(struct work *w, struct value self, args given)
{
    struct value between;
    (void)self;
    arguments_bind(w, "joiner", given, NAMES("sep"), 0, &between);
    const struct value out = list_new(w, VALUE_JOINER, 1);
    list_add(w, out, value_text(argument_text(w, between, text_of(w, ", "))));
    return out;
}

static struct value cycler(struct work *w, struct value self, args given)
{
    (void)self;
    if (given->positional == 0 || given->positional < given->count)
        work_fail(w, TERN_BAD_MODEL, "cycler needs values");
    const struct value out = list_new(w, VALUE_CYCLER, given->count);
    for (size_t i = 0; i < given->count; i++)
        list_add(w, out, given->item[i].value);
    return out;
}

const struct function all_globals[] = {
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"range", range},
    {"dict", dict},
    {"namespace", namespace},
    {"joiner", joiner},
    {"cycler", cycler},
    {NULL, NULL},
};
