/* Values as JSON, as Python's json.dumps writes it. */
#include "coordinator/chat/template/functions.h"

#include "coordinator/tokenizer/unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct writer {
    struct work *work;
    struct builder *out;
    const struct json_style *style;
};

static void write_escape(struct writer *j, uint32_t point, bool mark)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char text[16];
    const char *known = point < 0x80 && point != 0 ? strchr(from, (int)point) : NULL;
    if (known != NULL)
        snprintf(text, sizeof text, "\\%c", to[known - from]);
    else if (point < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", point);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                 0xdc00 + (point & 0x3ff));
    builder_bytes(j->work, j->out, text, strlen(text), mark);
}

static void write_string(struct writer *j, const struct text *text)
{
    size_t written = 0;
    builder_literal(j->work, j->out, "\"");
    for (size_t at = 0; at < text->length;) {
        unsigned bytes;
        const uint32_t point = unicode_point(text->bytes + at, &bytes);
        if (point < 0x20 || point == '"' || point == '\\' || (j->style->ascii && point >= 0x7f)) {
            builder_add(j->work, j->out, text_slice(j->work, text, written, at));
            write_escape(j, point, text->marks != NULL && text->marks[at]);
            written = at + bytes;
        }
        at += bytes;
    }
    builder_add(j->work, j->out, text_slice(j->work, text, written, text->length));
    builder_literal(j->work, j->out, "\"");
}

static void new_line(struct writer *j, size_t depth)
{
    if (j->style->indent < 0)
        return;
    builder_literal(j->work, j->out, "\n");
    for (size_t i = 0; i < depth; i++)
        builder_repeat(j->work, j->out, " ", (size_t)j->style->indent);
}

/* Between two items and before the first. */
static void separate(struct writer *j, size_t index, size_t depth)
{
    if (index > 0 && j->style->item_separator != NULL)
        builder_add(j->work, j->out, j->style->item_separator);
    else if (index > 0)
        builder_literal(j->work, j->out, j->style->indent < 0 ? ", " : ",");
    new_line(j, depth);
}

static void write_value(struct writer *j, struct value v, size_t depth);

static void write_array(struct writer *j, const struct list *list, size_t depth)
{
    builder_literal(j->work, j->out, "[");
    for (size_t i = 0; i < list->count; i++) {
        separate(j, i, depth + 1);
        write_value(j, list->item[i], depth + 1);
    }
    if (list->count > 0)
        new_line(j, depth);
    builder_literal(j->work, j->out, "]");
}

/* Keys are strings in JSON. */
static void write_key(struct writer *j, struct value key)
{
    if (key.kind == VALUE_STRING) {
        write_string(j, key.text);
        return;
    }
    if (!is_number(key) && key.kind != VALUE_NONE)
        work_fail(j->work, TERN_BAD_MODEL, "'%s' cannot be a key in JSON", value_kind_name(key));
    builder_literal(j->work, j->out, "\"");
    write_value(j, key, 0);
    builder_literal(j->work, j->out, "\"");
}

static struct value key_of(struct work *w, struct value pair, const void *context)
{
    (void)w, (void)context;
    return pair.list->item[0];
}

static void write_object(struct writer *j, const struct dict *dict, size_t depth)
{
    struct value pairs = dict_list(j->work, dict, VALUE_LIST, DICT_ITEMS);
    if (j->style->sort_keys)
        pairs = sorted(j->work, pairs, key_of, NULL, false);
    builder_literal(j->work, j->out, "{");
    for (size_t i = 0; i < dict->count; i++) {
        separate(j, i, depth + 1);
        write_key(j, pairs.list->item[i].list->item[0]);
        if (j->style->key_separator != NULL)
            builder_add(j->work, j->out, j->style->key_separator);
        else
            builder_literal(j->work, j->out, ": ");
        write_value(j, pairs.list->item[i].list->item[1], depth + 1);
    }
    if (dict->count > 0)
        new_line(j, depth);
    builder_literal(j->work, j->out, "}");
}

static void write_value(struct writer *j, struct value v, size_t depth)
{
    work_nest(j->work);
    switch (v.kind) {
    case VALUE_NONE:
        builder_literal(j->work, j->out, "null");
        break;
    case VALUE_BOOL:
        builder_literal(j->work, j->out, v.truth ? "true" : "false");
        break;
    case VALUE_INT:
        value_write(j->work, j->out, v, false);
        break;
    case VALUE_FLOAT:
        if (isnan(v.real) || isinf(v.real))
            builder_literal(j->work, j->out,
                            isnan(v.real) ? "NaN"
                            : v.real < 0  ? "-Infinity"
                                          : "Infinity");
        else
            float_write(j->work, j->out, v.real);
        break;
    case VALUE_STRING:
        write_string(j, v.text);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        write_array(j, v.list, depth);
        break;
    case VALUE_DICT:
        write_object(j, v.dict, depth);
        break;
    default:
        work_fail(j->work, TERN_BAD_MODEL, "'%s' cannot be written as JSON", value_kind_name(v));
    }
}

const struct text *json_text(struct work *w, struct value v, const struct json_style *style)
{
    struct builder out = {0};
    struct writer writer = {.work = w, .out = &out, .style = style};
    write_value(&writer, v, 0);
    return builder_text(w, &out);
}
