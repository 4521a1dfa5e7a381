/* Lists, dicts and what is true of values whatever they are. */
#include "coordinator/chat/template/value.h"

struct value value_literal(struct work *w, const char *literal)
{
    return value_text(text_of(w, literal));
}

struct value list_new(struct work *w, enum value_kind kind, size_t room)
{
    struct list *list = work_take(w, sizeof *list);
    list->item = work_take_array(w, room, sizeof *list->item);
    list->room = room;
    return (struct value){.kind = kind, .list = list};
}

void list_add(struct work *w, struct value list, struct value item)
{
    struct list *l = list.list;
    work_spend(w, 1);
    l->item = work_grow(w, l->item, l->count, &l->room, sizeof *l->item);
    l->item[l->count++] = item;
}

struct value dict_new(struct work *w, enum value_kind kind, size_t room)
{
    struct dict *dict = work_take(w, sizeof *dict);
    dict->pair = work_take_array(w, room, sizeof *dict->pair);
    dict->room = room;
    return (struct value){.kind = kind, .dict = dict};
}

struct value *dict_find(struct work *w, const struct dict *dict, struct value key)
{
    if (has_items(key) && key.kind != VALUE_TUPLE)
        work_fail(w, TERN_BAD_MODEL, "unhashable type: '%s'", value_kind_name(key));
    if (key.kind == VALUE_DICT)
        work_fail(w, TERN_BAD_MODEL, "unhashable type: 'dict'");
    work_spend(w, 1 + dict->count / 8);
    for (size_t i = 0; i < dict->count; i++)
        if (value_equal(w, dict->pair[i].key, key))
            return &dict->pair[i].value;
    return NULL;
}

void dict_set(struct work *w, struct value dict, struct value key, struct value value)
{
    struct value *found = dict_find(w, dict.dict, key);
    if (found != NULL)
        *found = value;
    else
        dict_add(w, dict, key, value);
}

void dict_add(struct work *w, struct value dict, struct value key, struct value value)
{
    struct dict *d = dict.dict;
    work_spend(w, 1);
    d->pair = work_grow(w, d->pair, d->count, &d->room, sizeof *d->pair);
    d->pair[d->count++] = (struct pair){key, value};
}

struct value dict_list(struct work *w, const struct dict *dict, enum value_kind kind,
                       enum dict_part part)
{
    const struct value out = list_new(w, kind, dict->count);
    for (size_t i = 0; i < dict->count; i++) {
        struct value item = part == DICT_KEYS ? dict->pair[i].key : dict->pair[i].value;
        if (part == DICT_ITEMS) {
            item = list_new(w, VALUE_TUPLE, 2);
            list_add(w, item, dict->pair[i].key);
            list_add(w, item, dict->pair[i].value);
        }
        list_add(w, out, item);
    }
    return out;
}

const char *value_kind_name(struct value v)
{
    static const char *const names[] = {
        [VALUE_ABSENT] = "nothing",    [VALUE_UNDEFINED] = "Undefined",
        [VALUE_NONE] = "NoneType",     [VALUE_BOOL] = "bool",
        [VALUE_INT] = "int",           [VALUE_FLOAT] = "float",
        [VALUE_STRING] = "str",        [VALUE_LIST] = "list",
        [VALUE_TUPLE] = "tuple",       [VALUE_RANGE] = "range",
        [VALUE_VIEW] = "dict view",    [VALUE_GENERATOR] = "generator",
        [VALUE_DICT] = "dict",         [VALUE_NAMESPACE] = "Namespace",
        [VALUE_LOOP] = "LoopContext",  [VALUE_MACRO] = "Macro",
        [VALUE_FUNCTION] = "function", [VALUE_METHOD] = "method",
        [VALUE_CYCLER] = "Cycler",     [VALUE_JOINER] = "Joiner",
    };
    return names[v.kind];
}

bool value_truth(struct value v)
{
    switch (v.kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return v.truth;
    case VALUE_INT:
        return v.integer != 0;
    case VALUE_FLOAT:
        return v.real != 0;
    case VALUE_STRING:
        return v.text->length > 0;
    case VALUE_DICT:
        return v.dict->count > 0;
    default:
        return v.kind == VALUE_GENERATOR || !has_items(v) || v.list->count > 0;
    }
}

static bool equal_lists(struct work *w, const struct list *a, const struct list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        work_spend(w, 1);
        if (!value_equal(w, a->item[i], b->item[i]))
            return false;
    }
    return true;
}

static bool equal_dicts(struct work *w, const struct dict *a, const struct dict *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct value *other = dict_find(w, b, a->pair[i].key);
        if (other == NULL || !value_equal(w, a->pair[i].value, *other))
            return false;
    }
    return true;
}

/* Integers have more bits than a double. */
static long double exact_of(struct value v)
{
    return v.kind == VALUE_FLOAT ? (long double)v.real : (long double)whole_of(v);
}

bool value_equal(struct work *w, struct value a, struct value b)
{
    if (is_whole(a) && is_whole(b))
        return whole_of(a) == whole_of(b);
    if (is_number(a) && is_number(b))
        return exact_of(a) == exact_of(b);
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    case VALUE_STRING:
        if (a.text->length == b.text->length && a.text->length > 64)
            work_spend_bytes(w, a.text->length);
        return text_equal(a.text, b.text);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
        work_nest(w);
        return a.list == b.list || equal_lists(w, a.list, b.list);
    case VALUE_DICT:
        work_nest(w);
        return a.dict == b.dict || equal_dicts(w, a.dict, b.dict);
    default:
        return a.list == b.list; /* the same object */
    }
}

int value_compare(struct work *w, struct value a, struct value b)
{
    if (is_whole(a) && is_whole(b))
        return (whole_of(a) > whole_of(b)) - (whole_of(a) < whole_of(b));
    if (is_number(a) && is_number(b))
        return (exact_of(a) > exact_of(b)) - (exact_of(a) < exact_of(b));
    if (a.kind == VALUE_STRING && b.kind == VALUE_STRING) {
        work_spend_bytes(w, a.text->length < b.text->length ? a.text->length : b.text->length);
        return text_compare(a.text, b.text);
    }
    if (a.kind != b.kind || (a.kind != VALUE_LIST && a.kind != VALUE_TUPLE))
        work_fail(w, TERN_BAD_MODEL, "'%s' and '%s' have no order", value_kind_name(a),
                  value_kind_name(b));
    work_nest(w);
    for (size_t i = 0; i < a.list->count && i < b.list->count; i++) {
        work_spend(w, 1);
        if (!value_equal(w, a.list->item[i], b.list->item[i]))
            return value_compare(w, a.list->item[i], b.list->item[i]);
    }
    return (a.list->count > b.list->count) - (a.list->count < b.list->count);
}

bool value_contains(struct work *w, struct value container, struct value item)
{
    if (container.kind == VALUE_STRING) {
        if (item.kind != VALUE_STRING)
            work_fail(w, TERN_BAD_MODEL, "'in' a string needs a string on its left, not '%s'",
                      value_kind_name(item));
        return text_find(w, container.text, item.text, 0) != SIZE_MAX;
    }
    if (container.kind == VALUE_DICT)
        return dict_find(w, container.dict, item) != NULL;
    const struct value items = value_items(w, container);
    for (size_t i = 0; i < items.list->count; i++) {
        work_spend(w, 1);
        if (value_equal(w, items.list->item[i], item))
            return true;
    }
    return false;
}

int64_t value_length(struct work *w, struct value v)
{
    if (v.kind == VALUE_UNDEFINED)
        return 0;
    if (v.kind == VALUE_STRING)
        return (int64_t)text_characters(w, v.text);
    if (v.kind == VALUE_DICT)
        return (int64_t)v.dict->count;
    if (!has_items(v) || v.kind == VALUE_GENERATOR)
        work_fail(w, TERN_BAD_MODEL, "'%s' has no length", value_kind_name(v));
    return (int64_t)v.list->count;
}

bool value_is_iterable(struct value v)
{
    return v.kind == VALUE_UNDEFINED || v.kind == VALUE_STRING || v.kind == VALUE_DICT ||
           v.kind == VALUE_LOOP || has_items(v);
}

static struct value characters(struct work *w, const struct text *text)
{
    const size_t count = text_characters(w, text);
    const struct value out = list_new(w, VALUE_LIST, count);
    for (size_t at = 0; at < text->length;) {
        const size_t from = at++;
        while (at < text->length && ((unsigned char)text->bytes[at] & 0xc0) == 0x80)
            at++;
        list_add(w, out, value_text(text_slice(w, text, from, at)));
    }
    return out;
}

struct value value_items(struct work *w, struct value v)
{
    if (v.kind == VALUE_GENERATOR) {
        const struct value rest = list_new(w, VALUE_LIST, 0);
        *rest.list = *v.list;
        *v.list = (struct list){0};
        return rest;
    }
    if (has_items(v))
        return v;
    if (v.kind == VALUE_STRING)
        return characters(w, v.text);
    if (v.kind == VALUE_DICT)
        return dict_list(w, v.dict, VALUE_LIST, DICT_KEYS);
    if (v.kind == VALUE_UNDEFINED)
        return list_new(w, VALUE_LIST, 0);
    work_fail(w, TERN_BAD_MODEL, "'%s' is not iterable", value_kind_name(v));
}

void check_defined(struct work *w, struct value v)
{
    if (v.kind == VALUE_UNDEFINED)
        work_fail(w, TERN_BAD_MODEL, "'%.*s' is undefined",
                  (int)(v.text->length < 100 ? v.text->length : 100), v.text->bytes);
}

static void too_many(struct work *w, const char *function)
{
    work_fail(w, TERN_BAD_MODEL, "%s() got an argument that it does not know", function);
}

void arguments_bind(struct work *w, const char *function, const struct arguments *arguments,
                    const char *const *names, size_t required, struct value *out)
{
    size_t count = 0;
    for (; names[count] != NULL; count++)
        out[count] = value_of(VALUE_ABSENT);
    if (arguments->positional > count)
        too_many(w, function);
    for (size_t i = 0; i < arguments->count; i++) {
        const struct argument *given = &arguments->item[i];
        size_t slot = i;
        if (given->name != NULL)
            for (slot = 0; slot < count && !text_is(given->name, names[slot]); slot++)
                ;
        if (slot == count || out[slot].kind != VALUE_ABSENT)
            too_many(w, function);
        out[slot] = given->value;
    }
    for (size_t i = 0; i < required; i++)
        if (out[i].kind == VALUE_ABSENT)
            work_fail(w, TERN_BAD_MODEL, "%s() misses its argument '%s'", function, names[i]);
}

int64_t argument_int(struct work *w, struct value v, int64_t otherwise)
{
    if (v.kind == VALUE_ABSENT)
        return otherwise;
    if (!is_whole(v))
        work_fail(w, TERN_BAD_MODEL, "an integer is needed, not '%s'", value_kind_name(v));
    return whole_of(v);
}

const struct text *argument_text(struct work *w, struct value v, const struct text *otherwise)
{
    if (v.kind == VALUE_ABSENT)
        return otherwise;
    if (v.kind != VALUE_STRING)
        work_fail(w, TERN_BAD_MODEL, "a string is needed, not '%s'", value_kind_name(v));
    return v.text;
}
