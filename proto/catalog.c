/*
 * The catalog's reader. The writer may be a process that a hostile model file has taken over and
 * that still runs, so a catalog that this process did not write itself is copied first: what has
 * been checked cannot change any more. Names are found by binary search in sorted indexes (no hash
 * that a file could flood).
 */
#include "proto/catalog_format.h"

#include "proto/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tern_catalog {
    const uint8_t *data; /* the segment's own bytes or the copy */
    uint8_t *copy;       /* NULL if the segment is borrowed */
    struct catalog_header header;
    const struct catalog_key *keys;
    const struct catalog_tensor *tensors;
    uint32_t *key_order, *tensor_order; /* indexes sorted by name */
};

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

/* ---- checks of tern_catalog_open; each takes the place in the blob where the next item must lie
 * and moves it behind the item ---- */

static enum tern_status broken(struct tern_error *error, const char *what, uint64_t index)
{
    return tern_fail(error, TERN_BAD_MODEL,
                     "the loader's catalog is inconsistent: %s %" PRIu64
                     "; the model file may have taken the loader over, do not use it",
                     what, index);
}

static bool take(const struct tern_catalog *catalog, uint64_t *at, uint64_t bytes)
{
    return *at <= catalog->header.used && bytes <= catalog->header.used - *at &&
           tern_add(*at, bytes, at);
}

static bool name_is_good(const struct tern_catalog *catalog, uint64_t offset, uint32_t length,
                         uint64_t *at)
{
    return offset == *at && length > 0 && length <= TERN_MAX_NAME && take(catalog, at, length) &&
           tern_utf8_valid((const char *)catalog->data + offset, length) &&
           memchr(catalog->data + offset, 0, length) == NULL;
}

static uint64_t read_u64(const uint8_t *from, uint64_t index)
{
    uint64_t value;
    memcpy(&value, from + index * sizeof value, sizeof value);
    return value;
}

static bool strings_are_good(const uint8_t *value, const struct catalog_key *key)
{
    if (key->count > TERN_MAX_STRINGS || key->value_bytes / sizeof(uint64_t) < key->count + 1)
        return false;
    uint64_t before = 0;
    for (uint64_t i = 0; i <= key->count; i++) {
        const uint64_t next = read_u64(value, i);
        if (next < before || next - before > (i == 0 ? 0 : TERN_MAX_STRING))
            return false;
        before = next;
    }
    return before == key->value_bytes - (key->count + 1) * sizeof(uint64_t);
}

static bool key_is_good(const struct tern_catalog *catalog, const struct catalog_key *key,
                        uint64_t *at)
{
    if (!name_is_good(catalog, key->name, key->name_length, at) || key->is_array > 1 ||
        (!key->is_array && key->count != 1) || !tern_align(*at, CATALOG_ALIGNMENT, at) ||
        key->value != *at || !take(catalog, at, key->value_bytes))
        return false;
    if (key->type == TERN_V_STRING)
        return key->is_array ? strings_are_good(catalog->data + key->value, key)
                             : key->value_bytes <= TERN_MAX_STRING;
    uint64_t bytes;
    return tern_value_bytes(key->type) > 0 &&
           tern_mul(key->count, tern_value_bytes(key->type), &bytes) && bytes == key->value_bytes;
}

static bool tensor_is_good(const struct tern_catalog *catalog, const struct catalog_tensor *tensor,
                           uint64_t *at)
{
    uint64_t bytes, end;
    if (!name_is_good(catalog, tensor->name, tensor->name_length, at) || tensor->dimensions < 1 ||
        tensor->dimensions > TERN_MAX_DIMENSIONS)
        return false;
    for (uint32_t i = tensor->dimensions; i < TERN_MAX_DIMENSIONS; i++)
        if (tensor->size[i] != 1)
            return false;
    return tern_tensor_bytes(tensor->type, tensor->size, &bytes) && bytes == tensor->bytes &&
           tern_add(tensor->file_offset, bytes, &end) && end <= catalog->header.file_bytes;
}

static enum tern_status check_records(const struct tern_catalog *catalog, struct tern_error *error)
{
    uint64_t at = catalog->header.data_offset;
    for (uint32_t i = 0; i < catalog->header.keys; i++)
        if (!key_is_good(catalog, &catalog->keys[i], &at))
            return broken(error, "key", i);
    for (uint32_t i = 0; i < catalog->header.tensors; i++)
        if (!tensor_is_good(catalog, &catalog->tensors[i], &at))
            return broken(error, "tensor", i);
    return at == catalog->header.used ? TERN_OK : broken(error, "end", at);
}

/* ---- sorted indexes ---- */

static struct tern_string key_name(const struct tern_catalog *catalog, uint32_t index)
{
    const struct catalog_key *key = &catalog->keys[index];
    return (struct tern_string){(const char *)catalog->data + key->name, key->name_length};
}

static struct tern_string tensor_name(const struct tern_catalog *catalog, uint32_t index)
{
    const struct catalog_tensor *tensor = &catalog->tensors[index];
    return (struct tern_string){(const char *)catalog->data + tensor->name, tensor->name_length};
}

static int compare_names(struct tern_string a, struct tern_string b)
{
    const int order = memcmp(a.bytes, b.bytes, a.length < b.length ? a.length : b.length);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_keys(const void *a, const void *b, void *catalog)
{
    return compare_names(key_name(catalog, *(const uint32_t *)a),
                         key_name(catalog, *(const uint32_t *)b));
}

static int compare_tensors(const void *a, const void *b, void *catalog)
{
    return compare_names(tensor_name(catalog, *(const uint32_t *)a),
                         tensor_name(catalog, *(const uint32_t *)b));
}

/* Sorts 0 .. count-1 by name. Two equal names are refused. */
static enum tern_status sort_names(struct tern_catalog *catalog, const char *what, uint32_t count,
                                   int (*compare)(const void *, const void *, void *),
                                   uint32_t **out, struct tern_error *error)
{
    uint32_t *order = malloc((count + 1) * sizeof *order);
    *out = order;
    if (order == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for an index of %" PRIu32 " names",
                         count);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, compare, catalog);
    for (uint32_t i = 1; i < count; i++) {
        if (compare(&order[i - 1], &order[i], catalog) != 0)
            continue;
        const struct tern_string name =
            compare == compare_keys ? key_name(catalog, order[i]) : tensor_name(catalog, order[i]);
        return tern_fail(error, TERN_BAD_MODEL,
                         "two %s are named '%.*s'; the file is malformed, get it again", what,
                         (int)name.length, name.bytes);
    }
    return TERN_OK;
}

static int64_t find(const struct tern_catalog *catalog, const char *name, const uint32_t *order,
                    uint32_t count,
                    struct tern_string (*name_of)(const struct tern_catalog *, uint32_t))
{
    const struct tern_string wanted = {name, strlen(name)};
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int side = compare_names(name_of(catalog, order[middle]), wanted);
        if (side == 0)
            return order[middle];
        if (side < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- open ---- */

static enum tern_status check_header(const struct tern_segment *segment,
                                     const struct catalog_header *header, struct tern_error *error)
{
    if (header->version != CATALOG_VERSION)
        return broken(error, "version", header->version);
    if (header->keys > TERN_MAX_KEYS)
        return broken(error, "key count", header->keys);
    if (header->tensors > TERN_MAX_TENSORS)
        return broken(error, "tensor count", header->tensors);
    if (header->data_offset != catalog_records_bytes(header->keys, header->tensors))
        return broken(error, "blob offset", header->data_offset);
    if (header->used < header->data_offset || header->used > segment->size)
        return broken(error, "size", header->used);
    return TERN_OK;
}

static enum tern_status take_bytes(const struct tern_segment *segment, struct tern_catalog *catalog,
                                   struct tern_error *error)
{
    if (segment->size < sizeof catalog->header)
        return broken(error, "segment size", segment->size);
    memcpy(&catalog->header, segment->data, sizeof catalog->header);
    const enum tern_status status = check_header(segment, &catalog->header, error);
    if (status != TERN_OK)
        return status;
    catalog->data = segment->data;
    if (!segment->writable) {
        catalog->copy = malloc(catalog->header.used);
        if (catalog->copy == NULL)
            return tern_fail(error, TERN_NO_MEMORY, "no memory for a catalog of %" PRIu64 " bytes",
                             catalog->header.used);
        memcpy(catalog->copy, segment->data, catalog->header.used);
        catalog->data = catalog->copy;
    }
    const uint64_t tensors = catalog_records_bytes(catalog->header.keys, 0);
    catalog->keys = (const void *)(catalog->data + sizeof catalog->header);
    catalog->tensors = (const void *)(catalog->data + tensors);
    return TERN_OK;
}

enum tern_status tern_catalog_open(const struct tern_segment *segment, struct tern_catalog **out,
                                   struct tern_error *error)
{
    *out = NULL;
    struct tern_catalog *catalog = calloc(1, sizeof *catalog);
    if (catalog == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for a catalog");
    enum tern_status status = take_bytes(segment, catalog, error);
    if (status == TERN_OK)
        status = check_records(catalog, error);
    if (status == TERN_OK)
        status = sort_names(catalog, "metadata keys", catalog->header.keys, compare_keys,
                            &catalog->key_order, error);
    if (status == TERN_OK)
        status = sort_names(catalog, "tensors", catalog->header.tensors, compare_tensors,
                            &catalog->tensor_order, error);
    if (status != TERN_OK) {
        tern_catalog_close(catalog);
        return status;
    }
    *out = catalog;
    return TERN_OK;
}

void tern_catalog_close(struct tern_catalog *catalog)
{
    if (catalog == NULL)
        return;
    free(catalog->key_order);
    free(catalog->tensor_order);
    free(catalog->copy);
    free(catalog);
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
        .name = tensor_name(catalog, index),
        .type = record->type,
        .dimensions = record->dimensions,
        .file_offset = record->file_offset,
        .bytes = record->bytes,
    };
    memcpy(out->size, record->size, sizeof out->size);
}

int64_t tern_catalog_find(const struct tern_catalog *catalog, const char *name)
{
    return find(catalog, name, catalog->tensor_order, catalog->header.tensors, tensor_name);
}

uint64_t tern_catalog_file_bytes(const struct tern_catalog *catalog)
{
    return catalog->header.file_bytes;
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
            const struct tern_string name = tensor_name(catalog, i);
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
    return key_name(catalog, index);
}

static const struct catalog_key *find_key(const struct tern_catalog *catalog, const char *name,
                                          bool is_array)
{
    const int64_t index = find(catalog, name, catalog->key_order, catalog->header.keys, key_name);
    if (index < 0 || catalog->keys[index].is_array != is_array)
        return NULL;
    return &catalog->keys[index];
}

bool tern_catalog_has(const struct tern_catalog *catalog, const char *key)
{
    return find(catalog, key, catalog->key_order, catalog->header.keys, key_name) >= 0;
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

struct tern_string tern_array_string(const struct tern_catalog *catalog,
                                     const struct tern_array *array, uint64_t index)
{
    (void)catalog;
    if (array->type != TERN_V_STRING || index >= array->count)
        return (struct tern_string){"", 0};
    const uint8_t *table = array->elements;
    const uint64_t start = read_u64(table, index);
    return (struct tern_string){
        .bytes = (const char *)table + (array->count + 1) * sizeof(uint64_t) + start,
        .length = read_u64(table, index + 1) - start,
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
