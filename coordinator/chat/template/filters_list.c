/* Filters on lists and dicts. */
#include "coordinator/chat/template/functions.h"

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef const struct arguments *args;

static struct value length(struct work *w, struct value v, args given)
{
    arguments_bind(w, "length", given, (const char *const[]){NULL}, 0, NULL);
    return value_int(value_length(w, v));
}

static struct value list(struct work *w, struct value v, args given)
{
    arguments_bind(w, "list", given, (const char *const[]){NULL}, 0, NULL);
    const struct value items = value_items(w, v), out = list_new(w, VALUE_LIST, items.list->count);
    for (size_t i = 0; i < items.list->count; i++)
        list_add(w, out, items.list->item[i]);
    return out;
}

static struct value first(struct work *w, struct value v, args given)
{
    arguments_bind(w, "first", given, (const char *const[]){NULL}, 0, NULL);
    const struct value items = value_items(w, v);
    return items.list->count > 0 ? items.list->item[0]
                                 : value_undefined(text_of(w, "the first of no items"));
}

static struct value last(struct work *w, struct value v, args given)
{
    arguments_bind(w, "last", given, (const char *const[]){NULL}, 0, NULL);
    if (v.kind == VALUE_GENERATOR)
        work_fail(w, TERN_BAD_MODEL, "a generator has no last item");
    const struct value items = value_items(w, v);
    return items.list->count > 0 ? items.list->item[items.list->count - 1]
                                 : value_undefined(text_of(w, "the last of no items"));
}

static struct value join(struct work *w, struct value v, args given)
{
    struct value a[2];
    arguments_bind(w, "join", given, NAMES("d", "attribute"), 0, a);
    const struct value items = value_items(w, v);
    const struct text *between = a[0].kind == VALUE_ABSENT ? text_of(w, "") : value_string(w, a[0]);
    struct builder b = {0};
    for (size_t i = 0; i < items.list->count; i++) {
        struct value item = items.list->item[i];
        if (a[1].kind != VALUE_ABSENT && a[1].kind != VALUE_NONE)
            item = dotted_attribute(w, item, a[1]);
        if (i > 0)
            builder_add(w, &b, between);
        value_write(w, &b, item, false);
    }
    return value_text(builder_text(w, &b));
}

static struct value items(struct work *w, struct value v, args given)
{
    arguments_bind(w, "items", given, (const char *const[]){NULL}, 0, NULL);
    if (v.kind == VALUE_UNDEFINED)
        return list_new(w, VALUE_GENERATOR, 0);
    if (v.kind != VALUE_DICT)
        work_fail(w, TERN_BAD_MODEL, "items needs a dict, not '%s'", value_kind_name(v));
    return dict_list(w, v.dict, VALUE_GENERATOR, DICT_ITEMS);
}

static struct value reversed(struct work *w, struct value v, args given)
{
    arguments_bind(w, "reverse", given, (const char *const[]){NULL}, 0, NULL);
    const struct value all = value_items(w, v);
    const struct value out = list_new(w, VALUE_GENERATOR, all.list->count);
    struct builder b = {0};
    for (size_t i = all.list->count; i-- > 0;) {
        list_add(w, out, all.list->item[i]);
        if (v.kind == VALUE_STRING)
            builder_add(w, &b, all.list->item[i].text);
    }
    return v.kind == VALUE_STRING ? value_text(builder_text(w, &b)) : out;
}

/* ---- by a key ---- */

static struct value comparable(struct work *w, struct value v, bool case_sensitive)
{
    return !case_sensitive && v.kind == VALUE_STRING
               ? value_text(text_in_case(w, v.text, TEXT_LOWER))
               : v;
}

/* The attribute that an argument names, or the item itself. */
static struct value attribute_of(struct work *w, struct value item, struct value path)
{
    return path.kind == VALUE_ABSENT || path.kind == VALUE_NONE ? item
                                                                : dotted_attribute(w, item, path);
}

struct key {
    struct value path, otherwise; /* otherwise: for undefined ones, or absent */
    bool case_sensitive;
};

static struct value key_of(struct work *w, struct value item, const void *context)
{
    const struct key *key = context;
    const struct value v = attribute_of(w, item, key->path);
    const bool missing = v.kind == VALUE_UNDEFINED && key->otherwise.kind != VALUE_ABSENT;
    return comparable(w, missing ? key->otherwise : v, key->case_sensitive);
}

/* Several attributes with commas between, as a list. */
static struct value keys_of(struct work *w, struct value item, const void *context)
{
    const struct key *key = context;
    const struct value out = list_new(w, VALUE_LIST, 1);
    const struct text *paths = key->path.kind == VALUE_STRING ? key->path.text : NULL;
    if (paths == NULL)
        list_add(w, out, key_of(w, item, key));
    for (size_t from = 0; paths != NULL && from <= paths->length;) {
        size_t to = text_find(w, paths, text_of(w, ","), from);
        to = to == SIZE_MAX ? paths->length : to;
        const struct key one = {.path = value_text(text_slice(w, paths, from, to)),
                                .case_sensitive = key->case_sensitive};
        list_add(w, out, key_of(w, item, &one));
        from = to + 1;
    }
    return out;
}

static struct value sort(struct work *w, struct value v, args given)
{
    struct value a[3];
    arguments_bind(w, "sort", given, NAMES("reverse", "case_sensitive", "attribute"), 0, a);
    const struct key key = {.path = a[2], .case_sensitive = value_truth(a[1])};
    return sorted(w, v, keys_of, &key, value_truth(a[0]));
}

static struct value dictsort(struct work *w, struct value v, args given)
{
    struct value a[3];
    arguments_bind(w, "dictsort", given, NAMES("case_sensitive", "by", "reverse"), 0, a);
    if (v.kind != VALUE_DICT) {
        check_defined(w, v);
        work_fail(w, TERN_BAD_MODEL, "dictsort needs a dict, not '%s'", value_kind_name(v));
    }
    const struct text *by = argument_text(w, a[1], text_of(w, "key"));
    const struct key key = {.path = value_int(text_is(by, "value")),
                            .case_sensitive = value_truth(a[0])};
    return sorted(w, dict_list(w, v.dict, VALUE_LIST, DICT_ITEMS), key_of, &key, value_truth(a[2]));
}

static struct value unique(struct work *w, struct value v, args given)
{
    struct value a[2];
    arguments_bind(w, "unique", given, NAMES("case_sensitive", "attribute"), 0, a);
    const struct key by = {.path = a[1], .case_sensitive = value_truth(a[0])};
    const struct value all = value_items(w, v), seen = dict_new(w, VALUE_DICT, 0),
                       out = list_new(w, VALUE_GENERATOR, 0);
    for (size_t i = 0; i < all.list->count; i++) {
        const struct value key = key_of(w, all.list->item[i], &by);
        if (dict_find(w, seen.dict, key) != NULL)
            continue;
        dict_add(w, seen, key, value_of(VALUE_NONE));
        list_add(w, out, all.list->item[i]);
    }
    return out;
}

static struct value extreme(struct work *w, struct value v, args given, int wanted)
{
    struct value a[2];
    arguments_bind(w, "min", given, NAMES("case_sensitive", "attribute"), 0, a);
    const struct key by = {.path = a[1], .case_sensitive = value_truth(a[0])};
    const struct value all = value_items(w, v);
    struct value best = value_undefined(text_of(w, "the largest or smallest of no items")),
                 best_key;
    for (size_t i = 0; i < all.list->count; i++) {
        const struct value key = key_of(w, all.list->item[i], &by);
        if (i > 0 && value_compare(w, key, best_key) * wanted <= 0)
            continue;
        best = all.list->item[i];
        best_key = key;
    }
    return best;
}

static struct value smallest(struct work *w, struct value v, args given)
{
    return extreme(w, v, given, -1);
}

static struct value largest(struct work *w, struct value v, args given)
{
    return extreme(w, v, given, 1);
}

static struct value sum(struct work *w, struct value v, args given)
{
    struct value a[2];
    arguments_bind(w, "sum", given, NAMES("attribute", "start"), 0, a);
    const struct value all = value_items(w, v);
    struct value total = a[1].kind == VALUE_ABSENT ? value_int(0) : a[1];
    for (size_t i = 0; i < all.list->count; i++)
        total = value_binary(w, '+', total, attribute_of(w, all.list->item[i], a[0]));
    return total;
}

static struct value group_by(struct work *w, struct value v, args given)
{
    struct value a[3];
    arguments_bind(w, "groupby", given, NAMES("attribute", "default", "case_sensitive"), 1, a);
    const struct key by = {.path = a[0], .otherwise = a[1], .case_sensitive = value_truth(a[2])};
    const struct value all = sorted(w, v, key_of, &by, false);
    const struct value out = list_new(w, VALUE_LIST, 0);
    struct value last_key = value_of(VALUE_ABSENT), group = last_key;
    for (size_t i = 0; i < all.list->count; i++) {
        const struct value folded = key_of(w, all.list->item[i], &by);
        if (i == 0 || !value_equal(w, folded, last_key)) {
            const struct value pair = list_new(w, VALUE_TUPLE, 2);
            const struct key exact = {.path = a[0], .otherwise = a[1], .case_sensitive = true};
            group = list_new(w, VALUE_LIST, 0);
            list_add(w, pair, key_of(w, all.list->item[i], &exact));
            list_add(w, pair, group);
            list_add(w, out, pair);
            last_key = folded;
        }
        list_add(w, group, all.list->item[i]);
    }
    return out;
}

/* ---- in parts ---- */

static struct value batch(struct work *w, struct value v, args given)
{
    struct value a[2], now = value_of(VALUE_ABSENT);
    arguments_bind(w, "batch", given, NAMES("linecount", "fill_with"), 1, a);
    const struct value all = value_items(w, v), out = list_new(w, VALUE_GENERATOR, 0);
    const int64_t size = argument_int(w, a[0], 1);
    if (size < 1)
        work_fail(w, TERN_BAD_MODEL, "batch needs a size of at least 1");
    for (size_t i = 0; i < all.list->count; i++) {
        if ((int64_t)i % size == 0) {
            now = list_new(w, VALUE_LIST, 0);
            list_add(w, out, now);
        }
        list_add(w, now, all.list->item[i]);
    }
    if (now.kind == VALUE_LIST && a[1].kind != VALUE_ABSENT && a[1].kind != VALUE_NONE)
        while ((int64_t)now.list->count < size)
            list_add(w, now, a[1]);
    return out;
}

static struct value slice(struct work *w, struct value v, args given)
{
    struct value a[2];
    arguments_bind(w, "slice", given, NAMES("slices", "fill_with"), 1, a);
    const struct value all = value_items(w, v), out = list_new(w, VALUE_GENERATOR, 0);
    const int64_t parts = argument_int(w, a[0], 1);
    if (parts < 1)
        work_fail(w, TERN_BAD_MODEL, "slice needs at least one part");
    const int64_t each = (int64_t)all.list->count / parts,
                  longer = (int64_t)all.list->count % parts;
    size_t next = 0;
    for (int64_t i = 0; i < parts; i++) {
        const struct value part = list_new(w, VALUE_LIST, 0);
        for (int64_t j = 0; j < each + (i < longer); j++)
            list_add(w, part, all.list->item[next++]);
        if (a[1].kind != VALUE_ABSENT && a[1].kind != VALUE_NONE && i >= longer)
            list_add(w, part, a[1]);
        list_add(w, out, part);
    }
    return out;
}

const struct function list_filters[] = {
    {"length", length}, {"count", length},      {"list", list},        {"first", first},
    {"last", last},     {"join", join},         {"items", items},      {"reverse", reversed},
    {"sort", sort},     {"dictsort", dictsort}, {"unique", unique},    {"min", smallest},
    {"max", largest},   {"sum", sum},           {"groupby", group_by}, {"batch", batch},
    {"slice", slice},   {NULL, NULL},
};
