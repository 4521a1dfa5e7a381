/* JSON to values. */
#include "coordinator/chat/template/input.h"

#include <string.h>

enum { DEEPEST = 100, VALUE_SIZE = 32 };

static size_t size_of(const json_t *json, unsigned depth)
{
    size_t size = VALUE_SIZE, index;
    const char *key;
    json_t *item;
    if (depth == DEEPEST)
        return size;
    if (json_is_string(json))
        return size + json_string_length(json);
    if (json_is_array(json))
        json_array_foreach(json, index, item) size += size_of(item, depth + 1);
    else if (json_is_object(json))
        json_object_foreach((json_t *)json, key, item) size +=
            VALUE_SIZE + size_of(item, depth + 1);
    return size;
}

size_t input_size(const json_t *json)
{
    return size_of(json, 0);
}

static const struct text *text_from(struct work *w, const char *bytes, size_t length, bool mark)
{
    return mark ? text_from_input(w, bytes, length) : text_borrow(w, bytes, length);
}

static bool is_role(const char *key, const json_t *json)
{
    static const char *const roles[] = {"system",    "developer", "user",       "assistant",
                                        "tool",      "function",  "model",      "ipython",
                                        "documents", "document",  "observation"};
    const struct text text = {.bytes = json_string_value(json), .length = json_string_length(json)};
    if (text.bytes == NULL || !text_is(&(struct text){.bytes = key, .length = strlen(key)}, "role"))
        return false;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (text_is(&text, roles[i]))
            return true;
    return false;
}

static struct value value_from(struct work *w, const json_t *json, bool mark, unsigned depth);

static struct value object_from(struct work *w, const json_t *json, bool mark, unsigned depth)
{
    const struct value dict = dict_new(w, VALUE_DICT, json_object_size(json));
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)json, key, item)
    {
        const struct value name = value_text(text_from(w, key, strlen(key), mark));
        dict_add(w, dict, name, value_from(w, item, mark && !is_role(key, item), depth + 1));
    }
    return dict;
}

static struct value array_from(struct work *w, const json_t *json, bool mark, unsigned depth)
{
    const struct value list = list_new(w, VALUE_LIST, json_array_size(json));
    size_t index;
    json_t *item;
    json_array_foreach(json, index, item) list_add(w, list, value_from(w, item, mark, depth + 1));
    return list;
}

static struct value value_from(struct work *w, const json_t *json, bool mark, unsigned depth)
{
    if (depth == DEEPEST)
        work_fail(w, TERN_USAGE, "the messages are nested more than %d deep", DEEPEST);
    work_spend(w, 1);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return object_from(w, json, mark, depth);
    case JSON_ARRAY:
        return array_from(w, json, mark, depth);
    case JSON_STRING:
        return value_text(text_from(w, json_string_value(json), json_string_length(json), mark));
    case JSON_INTEGER:
        return value_int(json_integer_value(json));
    case JSON_REAL:
        return value_float(json_real_value(json));
    case JSON_NULL:
        return value_of(VALUE_NONE);
    default:
        return value_bool(json_is_true(json));
    }
}

void input_variables(struct work *w, struct frame *frame, const json_t *variables, bool mark)
{
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)variables, key, item)
        frame_set(w, frame, text_of(w, key), value_from(w, item, mark, 0));
}
