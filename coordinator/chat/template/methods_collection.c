/*
 * Methods of dicts, lists, tuples, loops and cyclers. Dicts and lists do not change, as in jinja2's
 * immutable sandbox: the methods that would change them are there and fail.
 */
#include "coordinator/chat/template/evaluate.h"
#include "coordinator/chat/template/functions.h"

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef const struct arguments *args;

static struct value refused(struct work *w, struct value self, args given)
{
    (void)given;
    work_fail(w, TERN_BAD_MODEL, "a template may not change a %s", value_kind_name(self));
}

static struct value part(struct work *w, struct value self, args given, enum dict_part which)
{
    arguments_bind(w, "method", given, (const char *const[]){NULL}, 0, NULL);
    return dict_list(w, self.dict, VALUE_VIEW, which);
}

static struct value keys(struct work *w, struct value self, args given)
{
    return part(w, self, given, DICT_KEYS);
}

static struct value values(struct work *w, struct value self, args given)
{
    return part(w, self, given, DICT_VALUES);
}

static struct value items(struct work *w, struct value self, args given)
{
    return part(w, self, given, DICT_ITEMS);
}

static struct value get(struct work *w, struct value self, args given)
{
    struct value a[2];
    arguments_bind(w, "get", given, NAMES("key", "default"), 1, a);
    const struct value *found = dict_find(w, self.dict, a[0]);
    if (found != NULL)
        return *found;
    return a[1].kind == VALUE_ABSENT ? value_of(VALUE_NONE) : a[1];
}

static struct value copy_dict(struct work *w, struct value self, args given)
{
    arguments_bind(w, "copy", given, (const char *const[]){NULL}, 0, NULL);
    const struct value out = dict_new(w, VALUE_DICT, self.dict->count);
    for (size_t i = 0; i < self.dict->count; i++)
        dict_add(w, out, self.dict->pair[i].key, self.dict->pair[i].value);
    return out;
}

static struct value copy_list(struct work *w, struct value self, args given)
{
    arguments_bind(w, "copy", given, (const char *const[]){NULL}, 0, NULL);
    const struct value out = list_new(w, VALUE_LIST, self.list->count);
    for (size_t i = 0; i < self.list->count; i++)
        list_add(w, out, self.list->item[i]);
    return out;
}

static struct value count(struct work *w, struct value self, args given)
{
    struct value item;
    int64_t times = 0;
    arguments_bind(w, "count", given, NAMES("value"), 1, &item);
    for (size_t i = 0; i < self.list->count; i++) {
        work_spend(w, 1);
        times += value_equal(w, self.list->item[i], item);
    }
    return value_int(times);
}

static struct value index_of(struct work *w, struct value self, args given)
{
    struct value item;
    arguments_bind(w, "index", given, NAMES("value"), 1, &item);
    for (size_t i = 0; i < self.list->count; i++) {
        work_spend(w, 1);
        if (value_equal(w, self.list->item[i], item))
            return value_int((int64_t)i);
    }
    work_fail(w, TERN_BAD_MODEL, "index: the value is not in the list");
}

/* The first letter is the kind: d, l or t. */
const struct function collection_methods[] = {
    {"dkeys", keys},          {"dvalues", values},  {"ditems", items},    {"dget", get},
    {"dcopy", copy_dict},     {"dclear", refused},  {"dpop", refused},    {"dpopitem", refused},
    {"dsetdefault", refused}, {"dupdate", refused}, {"lcopy", copy_list}, {"lcount", count},
    {"lindex", index_of},     {"lappend", refused}, {"lclear", refused},  {"lextend", refused},
    {"linsert", refused},     {"lpop", refused},    {"lremove", refused}, {"lreverse", refused},
    {"lsort", refused},       {"tcount", count},    {"tindex", index_of}, {NULL, NULL},
};

/* ---- loops and cyclers ---- */

static struct value cycle(struct work *w, struct value self, args given)
{
    if (self.kind != VALUE_LOOP || given->positional == 0 || given->positional < given->count)
        work_fail(w, TERN_BAD_MODEL, "cycle needs a loop and values");
    return given->item[self.loop->index % given->count].value;
}

static struct value changed(struct work *w, struct value self, args given)
{
    const struct value now = list_new(w, VALUE_TUPLE, given->count);
    if (self.kind != VALUE_LOOP)
        work_fail(w, TERN_BAD_MODEL, "changed needs a loop");
    for (size_t i = 0; i < given->positional; i++)
        list_add(w, now, given->item[i].value);
    const bool same =
        self.loop->before.kind == VALUE_TUPLE && value_equal(w, now, self.loop->before);
    self.loop->before = now;
    return value_bool(!same);
}

static struct value next(struct work *w, struct value self, args given)
{
    arguments_bind(w, "next", given, (const char *const[]){NULL}, 0, NULL);
    if (self.kind != VALUE_CYCLER)
        work_fail(w, TERN_BAD_MODEL, "next needs a cycler");
    return self.list->item[self.list->next++ % self.list->count];
}

static struct value reset(struct work *w, struct value self, args given)
{
    arguments_bind(w, "reset", given, (const char *const[]){NULL}, 0, NULL);
    if (self.kind != VALUE_CYCLER)
        work_fail(w, TERN_BAD_MODEL, "reset needs a cycler");
    self.list->next = 0;
    return value_of(VALUE_NONE);
}

const struct function loop_methods[] = {
    {"cycle", cycle}, {"changed", changed}, {"next", next}, {"reset", reset}, {NULL, NULL},
};
