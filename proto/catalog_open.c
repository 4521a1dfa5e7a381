/*
 * Opening a catalog: every count, offset, length and name is checked once, here. The writer may be
 * a process that a hostile model file has taken over and that still runs, so a catalog that this
 * process did not write itself is copied first: what has been checked cannot change any more.
 */
#include "proto/catalog_reader.h"

#include "proto/utf8.h"
#include <inttypes.h>
#include <stdlib.h>

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

static bool strings_are_good(const uint8_t *value, const struct catalog_key *key)
{
    if (key->count > TERN_MAX_STRINGS || key->value_bytes / sizeof(uint64_t) < key->count + 1)
        return false;
    uint64_t before = 0;
    for (uint64_t i = 0; i <= key->count; i++) {
        const uint64_t next = catalog_offset(value, i);
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

static int compare_keys(const void *a, const void *b, void *catalog)
{
    return catalog_compare_names(catalog_key_name(catalog, *(const uint32_t *)a),
                                 catalog_key_name(catalog, *(const uint32_t *)b));
}

static int compare_tensors(const void *a, const void *b, void *catalog)
{
    return catalog_compare_names(catalog_tensor_name(catalog, *(const uint32_t *)a),
                                 catalog_tensor_name(catalog, *(const uint32_t *)b));
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
        const struct tern_string name = compare == compare_keys
                                            ? catalog_key_name(catalog, order[i])
                                            : catalog_tensor_name(catalog, order[i]);
        return tern_fail(error, TERN_BAD_MODEL, "two %s are named '%.*s'; " TERN_REMEDY_CONVERT,
                         what, (int)name.length, name.bytes);
    }
    return TERN_OK;
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
