/* Filters that apply another filter or a test to each item, and default and attr. */
#include "coordinator/chat/template/functions.h"

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef const struct arguments *args;

static struct value otherwise(struct work *w, struct value v, args given)
{
    struct value a[2];
    arguments_bind(w, "default", given, NAMES("default_value", "boolean"), 0, a);
    const struct value value = a[0].kind == VALUE_ABSENT ? value_literal(w, "") : a[0];
    return v.kind == VALUE_UNDEFINED || (value_truth(a[1]) && !value_truth(v)) ? value : v;
}

static struct value attribute(struct work *w, struct value v, args given)
{
    struct value name;
    arguments_bind(w, "attr", given, NAMES("name"), 1, &name);
    if (v.kind == VALUE_DICT) {
        const struct text *text = argument_text(w, name, NULL);
        return find_method(v.kind, text) != NULL ? value_attribute(w, v, text)
                                                 : value_undefined(text);
    }
    return value_attribute(w, v, argument_text(w, name, NULL));
}

/* As value_items, but none for what is false (also none itself), as jinja2 has it here. */
static struct value items_if_any(struct work *w, struct value v)
{
    return value_truth(v) ? value_items(w, v) : list_new(w, VALUE_LIST, 0);
}

/* The arguments after the first `count`. */
static struct arguments rest(args given, size_t count)
{
    return (struct arguments){.item = count > 0 ? given->item + count : given->item,
                              .count = given->count - count,
                              .positional = given->positional - count};
}

static const struct text *first_name(struct work *w, args given, size_t place)
{
    if (given->positional <= place)
        work_fail(w, TERN_BAD_MODEL, "the name of a filter, test or attribute is missing");
    return argument_text(w, given->item[place].value, NULL);
}

static struct value map_attribute(struct work *w, struct value v, args given)
{
    struct value a[2];
    arguments_bind(w, "map", given, NAMES("attribute", "default"), 1, a);
    const struct value all = items_if_any(w, v), out = list_new(w, VALUE_GENERATOR, 0);
    for (size_t i = 0; i < all.list->count; i++) {
        const struct value item = dotted_attribute(w, all.list->item[i], a[0]);
        list_add(w, out, item.kind == VALUE_UNDEFINED && a[1].kind != VALUE_ABSENT ? a[1] : item);
    }
    return out;
}

static struct value map(struct work *w, struct value v, args given)
{
    if (given->positional == 0)
        return map_attribute(w, v, given);
    const struct text *name = first_name(w, given, 0);
    const struct arguments more = rest(given, 1);
    const struct value all = items_if_any(w, v), out = list_new(w, VALUE_GENERATOR, 0);
    for (size_t i = 0; i < all.list->count; i++)
        list_add(w, out, apply_filter(w, name, all.list->item[i], &more));
    return out;
}

/* The items whose value (or an attribute of it) passes a test (or is true), or does not. */
static struct value chosen(struct work *w, struct value v, args given, bool by_attribute,
                           bool wanted)
{
    const struct value path =
        by_attribute ? (first_name(w, given, 0), given->item[0].value) : value_of(VALUE_ABSENT);
    const bool tested = given->positional > by_attribute;
    const struct text *test = tested ? first_name(w, given, by_attribute) : NULL;
    const struct arguments more = rest(given, (size_t)by_attribute + tested);
    const struct value all = items_if_any(w, v), out = list_new(w, VALUE_GENERATOR, 0);
    for (size_t i = 0; i < all.list->count; i++) {
        struct value item = all.list->item[i];
        if (by_attribute)
            item = dotted_attribute(w, item, path);
        if ((tested ? apply_test(w, test, item, &more) : value_truth(item)) == wanted)
            list_add(w, out, all.list->item[i]);
    }
    return out;
}

static struct value select_items(struct work *w, struct value v, args given)
{
    return chosen(w, v, given, false, true);
}

static struct value reject_items(struct work *w, struct value v, args given)
{
    return chosen(w, v, given, false, false);
}

static struct value select_by_attribute(struct work *w, struct value v, args given)
{
    return chosen(w, v, given, true, true);
}

static struct value reject_by_attribute(struct work *w, struct value v, args given)
{
    return chosen(w, v, given, true, false);
}

const struct function choice_filters[] = {
    {"default", otherwise},
    {"d", otherwise},
    {"attr", attribute},
    {"map", map},
    {"select", select_items},
    {"reject", reject_items},
    {"selectattr", select_by_attribute},
    {"rejectattr", reject_by_attribute},
    {NULL, NULL},
};
