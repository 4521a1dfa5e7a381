/* The keys and values of a model file, for `tern info --metadata`: long ones cut, all bounded. */
#include "coordinator/service/request.h"
#include "coordinator/service/values.h"
#include "proto/utf8.h"

#include <string.h>

enum {
    TEXT = 2000,   /* bytes shown of a string */
    ITEM = 100,    /* of a string in an array */
    ITEMS = 8,     /* elements shown of an array */
    ALL = 4 << 20, /* bytes of text shown in all */
    KEYS = 4096,   /* keys shown: some ten milliseconds, and all that real files have */
};

static const char *const types[] = {
    [TERN_V_U8] = "u8",       [TERN_V_I8] = "i8",         [TERN_V_U16] = "u16",
    [TERN_V_I16] = "i16",     [TERN_V_U32] = "u32",       [TERN_V_I32] = "i32",
    [TERN_V_F32] = "f32",     [TERN_V_BOOL] = "bool",     [TERN_V_U64] = "u64",
    [TERN_V_I64] = "i64",     [TERN_V_STRING] = "string", [TERN_V_F64] = "f64",
    [TERN_V_ARRAY] = "array",
};

/* At most `most` bytes of it, whole characters. */
static json_t *cut_text(struct tern_string text, size_t most, uint64_t *left)
{
    size_t length = text.length < most ? text.length : most;
    if (length < text.length)
        length = tern_utf8_complete(text.bytes, length);
    *left -= length < *left ? length : *left;
    return text_value(text.bytes, length);
}

static json_t *array_value(const struct tern_array *array, uint64_t *left)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < array->count && i < ITEMS; i++) {
        if (array->type == TERN_V_STRING)
            json_array_append_new(list, cut_text(tern_array_string(array, i), ITEM, left));
        else if (array->type == TERN_V_F32 || array->type == TERN_V_F64)
            json_array_append_new(list, json_real(tern_array_f64(array, i)));
        else
            json_array_append_new(list, json_integer(tern_array_i64(array, i)));
    }
    return list;
}

/* NULL where JSON has no such number: not finite, or an integer that no reader wants. */
static json_t *key_value(const struct tern_catalog *catalog, const char *key,
                         enum tern_value_type type, uint64_t *left)
{
    struct tern_string text;
    struct tern_array array;
    uint64_t number;
    double real;
    bool flag;
    if (tern_catalog_string(catalog, key, &text))
        return cut_text(text, TEXT, left);
    if (tern_catalog_bool(catalog, key, &flag))
        return json_boolean(flag);
    if (tern_catalog_u64(catalog, key, &number) && number <= INT64_MAX)
        return json_integer((json_int_t)number);
    if (tern_catalog_f64(catalog, key, &real))
        return json_real(real);
    if (tern_catalog_numbers(catalog, key, &array) ||
        tern_catalog_array(catalog, key, type, &array))
        return array_value(&array, left);
    return NULL;
}

void tern_describe_metadata(json_t *root, const struct tern_catalog *catalog)
{
    json_t *list = json_array();
    const uint32_t keys = tern_catalog_keys(catalog);
    uint64_t left = ALL;
    uint32_t i = 0;
    for (; i < keys && i < KEYS && left > 0; i++) {
        enum tern_value_type type;
        uint64_t count;
        char name[TERN_MAX_NAME + 1];
        const struct tern_string key = tern_catalog_key(catalog, i, &type, &count);
        const size_t length = key.length < sizeof name ? key.length : sizeof name - 1;
        memcpy(name, key.bytes, length);
        name[length] = '\0';
        json_t *value = key_value(catalog, name, type, &left);
        json_t *entry = json_object();
        put_value(entry, "key", cut_text(key, TERN_MAX_NAME, &left));
        put_text(entry, "type", types[type]);
        put_number(entry, "count", count);
        put_value(entry, "value", value != NULL ? value : json_null());
        json_array_append_new(list, entry);
    }
    put_value(root, "metadata", list);
    put_number(root, "metadata_left_out", keys - i);
}
