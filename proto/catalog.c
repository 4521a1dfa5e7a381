/*
 * Reading an open catalog. Names are found by binary search in sorted indexes (no hash that a file
 * could flood).
 */
#include "proto/catalog_reader.h"

#include <inttypes.h>

size_t tern_value_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {
        [TERN_V_U8] = 1,  [TERN_V_I8] = 1,  [TERN_V_U16] = 2, [TERN_V_I16] = 2,
        [TERN_V_U32] = 4, [TERN_V_I32] = 4, [TERN_V_F32] = 4, [TERN_V_BOOL] = 1,
        [TERN_V_U64] = 8, [TERN_V_I64] = 8, [TERN_V_F64] = 8,
    };
    return type < sizeof bytes ? bytes[type] : 0;
}

bool tern_tensor_bytes(uint32_t type, const uint64_t size[TERN_MAX_DIMENSIONS], uint64_t *bytes)
{
    uint64_t total;
    if (!tern_row_bytes(type, size[0], &total))
        return false;
    for (int i = 1; i < TERN_MAX_DIMENSIONS; i++)
        if (size[i] == 0 || !tern_mul(total, size[i], &total))
            return false;
    return tern_add(total, type == TERN_I2_S ? TERN_I2_S_TAIL : 0, bytes);
}

/* ---- names ---- */

static int64_t find(const struct tern_catalog *catalog, const char *name, const uint32_t *order,
                    uint32_t count,
                    struct tern_string (*name_of)(const struct tern_catalog *, uint32_t))
{
    const struct tern_string wanted = {name, strlen(name)};
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int side = catalog_compare_names(name_of(catalog, order[middle]), wanted);
        if (side == 0)
            return order[middle];
        if (side < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- tensors ---- */

uint32_t tern_catalog_tensors(const struct tern_catalog *catalog)
{
    return catalog->header.tensors;
}

void tern_catalog_tensor(const struct tern_catalog *catalog, uint32_t index,
                         struct tern_tensor *out)
{
    const struct catalog_tensor *record = &catalog->tensors[index];
    *out = (struct tern_tensor){
        .name = catalog_tensor_name(catalog, index),
        .type = record->type,
        .dimensions = record->dimensions,
        .file_offset = record->file_offset,
        .bytes = record->bytes,
    };
    memcpy(out->size, record->size, sizeof out->size);
}

int64_t tern_catalog_find(const struct tern_catalog *catalog, const char *name)
{
    return find(catalog, name, catalog->tensor_order, catalog->header.tensors, catalog_tensor_name);
}

enum tern_status tern_catalog_layout(const struct tern_catalog *catalog, uint64_t *offsets,
                                     uint64_t *total, struct tern_error *error)
{
    enum { SMALL = 256, PAGE = 4096, LARGE_FROM = 64 * 1024 };
    uint64_t end = 0;
    for (uint32_t i = 0; i < catalog->header.tensors; i++) {
        const uint64_t bytes = catalog->tensors[i].bytes;
        if (!tern_align(end, bytes >= LARGE_FROM ? PAGE : SMALL, &offsets[i]) ||
            !tern_add(offsets[i], bytes, &end)) {
            const struct tern_string name = catalog_tensor_name(catalog, i);
            return tern_fail(error, TERN_BAD_MODEL,
                             "tensor '%.*s' of %" PRIu64
                             " bytes: all tensors together are too large",
                             (int)name.length, name.bytes, bytes);
        }
    }
    *total = end;
    return TERN_OK;
}

/* ---- keys ---- */

uint32_t tern_catalog_keys(const struct tern_catalog *catalog)
{
    return catalog->header.keys;
}

struct tern_string tern_catalog_key(const struct tern_catalog *catalog, uint32_t index,
                                    enum tern_value_type *type, uint64_t *count)
{
    *type = catalog->keys[index].type;
    *count = catalog->keys[index].count;
    return catalog_key_name(catalog, index);
}

static const struct catalog_key *find_key(const struct tern_catalog *catalog, const char *name,
                                          bool is_array)
{
    const int64_t index =
        find(catalog, name, catalog->key_order, catalog->header.keys, catalog_key_name);
    if (index < 0 || catalog->keys[index].is_array != is_array)
        return NULL;
    return &catalog->keys[index];
}

bool tern_catalog_has(const struct tern_catalog *catalog, const char *key)
{
    return find(catalog, key, catalog->key_order, catalog->header.keys, catalog_key_name) >= 0;
}

static struct tern_array value_of(const struct tern_catalog *catalog, const struct catalog_key *key)
{
    return (struct tern_array){
        .elements = catalog->data + key->value, .count = key->count, .type = key->type};
}

static bool is_integer(uint32_t type)
{
    return tern_value_bytes(type) > 0 && type != TERN_V_F32 && type != TERN_V_F64 &&
           type != TERN_V_BOOL;
}

static bool is_float(uint32_t type)
{
    return type == TERN_V_F32 || type == TERN_V_F64;
}

bool tern_catalog_u64(const struct tern_catalog *catalog, const char *key, uint64_t *value)
{
    const struct catalog_key *found = find_key(catalog, key, false);
    if (found == NULL || !is_integer(found->type))
        return false;
    const struct tern_array array = value_of(catalog, found);
    const int64_t number = tern_array_i64(&array, 0);
    if (number < 0 && found->type != TERN_V_U64)
        return false;
    *value = (uint64_t)number;
    return true;
}

bool tern_catalog_f64(const struct tern_catalog *catalog, const char *key, double *value)
{
    const struct catalog_key *found = find_key(catalog, key, false);
    if (found == NULL || !is_float(found->type))
        return false;
    const struct tern_array array = value_of(catalog, found);
    *value = tern_array_f64(&array, 0);
    return true;
}

bool tern_catalog_bool(const struct tern_catalog *catalog, const char *key, bool *value)
{
    const struct catalog_key *found = find_key(catalog, key, false);
    if (found == NULL || found->type != TERN_V_BOOL)
        return false;
    *value = catalog->data[found->value] != 0;
    return true;
}

bool tern_catalog_string(const struct tern_catalog *catalog, const char *key,
                         struct tern_string *value)
{
    const struct catalog_key *found = find_key(catalog, key, false);
    if (found == NULL || found->type != TERN_V_STRING)
        return false;
    value->bytes = (const char *)catalog->data + found->value;
    value->length = found->value_bytes;
    return true;
}

/* ---- arrays ---- */

bool tern_catalog_array(const struct tern_catalog *catalog, const char *key,
                        enum tern_value_type type, struct tern_array *out)
{
    const struct catalog_key *found = find_key(catalog, key, true);
    if (found == NULL || found->type != type)
        return false;
    *out = value_of(catalog, found);
    return true;
}

bool tern_catalog_numbers(const struct tern_catalog *catalog, const char *key,
                          struct tern_array *out)
{
    const struct catalog_key *found = find_key(catalog, key, true);
    if (found == NULL || !(is_integer(found->type) || is_float(found->type)))
        return false;
    *out = value_of(catalog, found);
    return true;
}

struct tern_string tern_array_string(const struct tern_array *array, uint64_t index)
{
    if (array->type != TERN_V_STRING || index >= array->count)
        return (struct tern_string){"", 0};
    const uint8_t *table = array->elements;
    const uint64_t start = catalog_offset(table, index);
    return (struct tern_string){
        .bytes = (const char *)table + (array->count + 1) * sizeof(uint64_t) + start,
        .length = catalog_offset(table, index + 1) - start,
    };
}

#define ELEMENT(type)                                                                              \
    type element;                                                                                  \
    memcpy(&element, (const uint8_t *)array->elements + index * sizeof element, sizeof element);   \
    return element

static double float_element(const struct tern_array *array, uint64_t index)
{
    if (array->type == TERN_V_F32) {
        ELEMENT(float);
    }
    ELEMENT(double);
}

static int64_t integer_element(const struct tern_array *array, uint64_t index)
{
    switch (array->type) {
    case TERN_V_U8:
    case TERN_V_BOOL: {
        ELEMENT(uint8_t);
    }
    case TERN_V_I8: {
        ELEMENT(int8_t);
    }
    case TERN_V_U16: {
        ELEMENT(uint16_t);
    }
    case TERN_V_I16: {
        ELEMENT(int16_t);
    }
    case TERN_V_U32: {
        ELEMENT(uint32_t);
    }
    case TERN_V_I32: {
        ELEMENT(int32_t);
    }
    case TERN_V_U64:
    case TERN_V_I64: {
        ELEMENT(int64_t);
    }
    default:
        return 0;
    }
}

int64_t tern_array_i64(const struct tern_array *array, uint64_t index)
{
    if (index >= array->count)
        return 0;
    if (!is_float(array->type))
        return integer_element(array, index);
    const double value = float_element(array, index);
    /* Casting what int64 cannot hold (or NaN) is undefined. */
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : 0;
}

double tern_array_f64(const struct tern_array *array, uint64_t index)
{
    if (index >= array->count)
        return 0;
    if (is_float(array->type))
        return float_element(array, index);
    const int64_t value = integer_element(array, index);
    return array->type == TERN_V_U64 ? (double)(uint64_t)value : (double)value;
}
