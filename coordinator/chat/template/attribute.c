/* obj.name, obj[key] and obj[from:to:step]. */
#include "coordinator/chat/template/evaluate.h"
#include "coordinator/chat/template/functions.h"

static struct value loop_attribute(struct work *w, const struct loop *loop, const struct text *name)
{
    const size_t count = loop->items->count, index = loop->index;
    const struct {
        const char *name;
        struct value value;
    } attributes[] = {
        {"index", value_int((int64_t)index + 1)},
        {"index0", value_int((int64_t)index)},
        {"revindex", value_int((int64_t)(count - index))},
        {"revindex0", value_int((int64_t)(count - index) - 1)},
        {"first", value_bool(index == 0)},
        {"last", value_bool(index + 1 == count)},
        {"length", value_int((int64_t)count)},
        {"depth", value_int((int64_t)loop->depth + 1)},
        {"depth0", value_int((int64_t)loop->depth)},
        {"previtem", index > 0 ? loop->items->item[index - 1]
                               : value_undefined(text_of(w, "there is no previous item"))},
        {"nextitem", index + 1 < count ? loop->items->item[index + 1]
                                       : value_undefined(text_of(w, "there is no next item"))},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (text_is(name, attributes[i].name))
            return attributes[i].value;
    return value_undefined(name);
}

struct value value_attribute(struct work *w, struct value v, const struct text *name)
{
    check_defined(w, v);
    if (v.kind == VALUE_NAMESPACE) {
        const struct value *found = dict_find(w, v.dict, value_text(name));
        return found == NULL ? value_undefined(name) : *found;
    }
    const struct function *function = find_method(v.kind, name);
    if (function != NULL) {
        struct method *method = work_take(w, sizeof *method);
        *method = (struct method){v, function};
        return (struct value){.kind = VALUE_METHOD, .method = method};
    }
    if (v.kind == VALUE_DICT) {
        const struct value *found = dict_find(w, v.dict, value_text(name));
        return found == NULL ? value_undefined(name) : *found;
    }
    if (v.kind == VALUE_LOOP)
        return loop_attribute(w, v.loop, name);
    if (v.kind == VALUE_MACRO && text_is(name, "name"))
        return value_text(v.macro->node->name);
    if (v.kind == VALUE_CYCLER && text_is(name, "current"))
        return v.list->item[v.list->next % v.list->count];
    return value_undefined(name);
}

static struct value character(struct work *w, const struct text *text, int64_t index)
{
    const int64_t count = (int64_t)text_characters(w, text);
    if (index < 0)
        index += count;
    if (index < 0 || index >= count)
        return value_undefined(text_of(w, "a character past the string's end"));
    const size_t from = text_position(w, text, (size_t)index);
    const struct text *rest = text_slice(w, text, from, text->length);
    return value_text(text_slice(w, rest, 0, text_position(w, rest, 1)));
}

struct value value_item(struct work *w, struct value v, struct value key)
{
    check_defined(w, v);
    if (v.kind == VALUE_DICT) {
        const struct value *found = dict_find(w, v.dict, key);
        if (found != NULL)
            return *found;
    }
    const bool indexed = v.kind == VALUE_LIST || v.kind == VALUE_TUPLE || v.kind == VALUE_RANGE;
    if (indexed && is_whole(key)) {
        const int64_t count = (int64_t)v.list->count;
        const int64_t index = whole_of(key) < 0 ? whole_of(key) + count : whole_of(key);
        if (index >= 0 && index < count)
            return v.list->item[index];
        return value_undefined(text_of(w, "an item past the list's end"));
    }
    if (v.kind == VALUE_STRING && is_whole(key))
        return character(w, v.text, whole_of(key));
    if (key.kind == VALUE_STRING)
        return value_attribute(w, v, key.text);
    return value_undefined(text_of(w, "the item"));
}

/* One bound of a slice, brought into low .. high. */
static int64_t bound(struct work *w, struct value v, int64_t otherwise, int64_t count, int64_t low,
                     int64_t high)
{
    if (v.kind == VALUE_NONE || v.kind == VALUE_ABSENT)
        return otherwise;
    int64_t at = argument_int(w, v, 0);
    if (at < 0)
        at += count;
    return at < low ? low : at > high ? high : at;
}

struct value value_slice(struct work *w, struct value v, const struct value part[3])
{
    check_defined(w, v);
    const bool text = v.kind == VALUE_STRING;
    if (!text && v.kind != VALUE_LIST && v.kind != VALUE_TUPLE && v.kind != VALUE_RANGE)
        return value_undefined(text_of(w, "the slice"));
    const int64_t step = part[2].kind == VALUE_NONE ? 1 : argument_int(w, part[2], 1);
    if (step == 0)
        work_fail(w, TERN_BAD_MODEL, "a slice cannot have step 0");
    const int64_t count = value_length(w, v), low = step < 0 ? -1 : 0,
                  high = step < 0 ? count - 1 : count;
    const int64_t from = bound(w, part[0], step < 0 ? high : low, count, low, high);
    const int64_t to = bound(w, part[1], step < 0 ? low : high, count, low, high);
    if (text && step == 1)
        return value_text(text_slice(w, v.text, text_position(w, v.text, (size_t)from),
                                     text_position(w, v.text, (size_t)(to < from ? from : to))));
    const struct value all = text ? value_items(w, v) : v;
    const struct value out = list_new(w, text ? VALUE_LIST : v.kind, 0);
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        list_add(w, out, all.list->item[i]);
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    if (!text)
        return out;
    struct builder b = {0};
    for (size_t i = 0; i < out.list->count; i++)
        builder_add(w, &b, out.list->item[i].text);
    return value_text(builder_text(w, &b));
}

struct value dotted_attribute(struct work *w, struct value item, struct value path)
{
    if (path.kind != VALUE_STRING)
        return value_item(w, item, path);
    for (size_t from = 0; from <= path.text->length;) {
        size_t dot = from;
        bool number = true;
        while (dot < path.text->length && path.text->bytes[dot] != '.') {
            number &= path.text->bytes[dot] >= '0' && path.text->bytes[dot] <= '9';
            dot++;
        }
        const struct text *part = text_slice(w, path.text, from, dot);
        int64_t index = 0;
        for (size_t i = 0; number && i < part->length && i < 15; i++)
            index = 10 * index + (part->bytes[i] - '0');
        item =
            value_item(w, item, number && part->length > 0 ? value_int(index) : value_text(part));
        work_spend(w, 1);
        from = dot + 1;
    }
    return item;
}
