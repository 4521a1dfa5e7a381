/*
 * The catalog's writer: appends records and blob to a mapped segment, each append checked against
 * the segment's size. It refuses what the reader would refuse, except duplicates.
 */
#include "proto/catalog_format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tern_catalog_writer {
    uint8_t *data;
    uint64_t size;
    uint64_t used; /* end of the blob so far */
    uint32_t keys, tensors;
    uint32_t keys_put, tensors_put;
    struct catalog_key key; /* begun; its record is written with its last string */
    uint64_t strings_left;
};

uint64_t tern_catalog_bound(uint64_t file_bytes)
{
    /* A string of an array takes as much here as in the file (8 bytes of length there, of offset
     * here); records, one more offset and alignment come on top, per key and tensor. */
    const uint64_t blob = file_bytes < TERN_MAX_METADATA ? file_bytes : TERN_MAX_METADATA;
    return catalog_records_bytes(TERN_MAX_KEYS, TERN_MAX_TENSORS) +
           (uint64_t)TERN_MAX_KEYS * 2 * CATALOG_ALIGNMENT + blob;
}

enum tern_status tern_catalog_begin(const struct tern_segment *segment, uint32_t keys,
                                    uint32_t tensors, struct tern_catalog_writer **out,
                                    struct tern_error *error)
{
    *out = NULL;
    if (keys > TERN_MAX_KEYS)
        return tern_fail(error, TERN_BAD_MODEL, "%" PRIu32 " metadata keys; at most %d are allowed",
                         keys, TERN_MAX_KEYS);
    if (tensors > TERN_MAX_TENSORS)
        return tern_fail(error, TERN_BAD_MODEL, "%" PRIu32 " tensors; at most %d are allowed",
                         tensors, TERN_MAX_TENSORS);
    const uint64_t records = catalog_records_bytes(keys, tensors);
    if (!segment->writable || segment->size < records)
        return tern_fail(error, TERN_FAILED,
                         "the catalog segment of %" PRIu64 " bytes cannot take %" PRIu32
                         " keys and %" PRIu32 " tensors",
                         segment->size, keys, tensors);
    struct tern_catalog_writer *writer = malloc(sizeof *writer);
    if (writer == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for the catalog's writer");
    *writer = (struct tern_catalog_writer){.data = segment->data,
                                           .size = segment->size,
                                           .used = records,
                                           .keys = keys,
                                           .tensors = tensors};
    *out = writer;
    return TERN_OK;
}

/* Makes room for `bytes` at the next multiple of `alignment`; the gap is zeroed. NULL when full. */
static uint8_t *append(struct tern_catalog_writer *writer, uint64_t bytes, uint64_t alignment,
                       uint64_t *offset)
{
    uint64_t start, end;
    if (!tern_align(writer->used, alignment, &start) || !tern_add(start, bytes, &end) ||
        end > writer->size)
        return NULL;
    memset(writer->data + writer->used, 0, start - writer->used);
    writer->used = end;
    *offset = start;
    return writer->data + start;
}

static enum tern_status full(const struct tern_catalog_writer *writer, struct tern_string name,
                             struct tern_error *error)
{
    return tern_fail(error, TERN_BAD_MODEL,
                     "the metadata do not fit the catalog of %" PRIu64 " bytes (at '%.*s')",
                     writer->size, (int)name.length, name.bytes);
}

static bool put_name(struct tern_catalog_writer *writer, struct tern_string name, uint64_t *offset)
{
    uint8_t *to = append(writer, name.length, 1, offset);
    if (to != NULL)
        memcpy(to, name.bytes, name.length);
    return to != NULL;
}

static enum tern_status check_key(const struct tern_catalog_writer *writer, struct tern_string name,
                                  enum tern_value_type type, bool is_array, uint64_t count,
                                  struct tern_error *error)
{
    if (writer->keys_put == writer->keys || writer->tensors_put > 0 || writer->strings_left > 0)
        return tern_fail(error, TERN_FAILED, "keys differ from what was announced");
    if (name.length == 0 || name.length > TERN_MAX_NAME)
        return tern_fail(error, TERN_BAD_MODEL, "a key's name has %zu bytes; 1 to %d are allowed",
                         name.length, TERN_MAX_NAME);
    if (type != TERN_V_STRING && tern_value_bytes(type) == 0)
        return tern_fail(error, TERN_BAD_MODEL, "key '%.*s': value type %d does not exist here",
                         (int)name.length, name.bytes, (int)type);
    if (type == TERN_V_STRING && is_array && count > TERN_MAX_STRINGS)
        return tern_fail(error, TERN_BAD_MODEL,
                         "key '%.*s': %" PRIu64 " strings; at most %d are allowed",
                         (int)name.length, name.bytes, count, TERN_MAX_STRINGS);
    return TERN_OK;
}

/* Bytes that are known when a key begins: all of numbers, the table of an array of strings. */
static bool fixed_bytes(const struct catalog_key *key, uint64_t *bytes)
{
    if (key->type != TERN_V_STRING)
        return tern_mul(key->count, tern_value_bytes(key->type), bytes);
    *bytes = key->is_array ? (key->count + 1) * sizeof(uint64_t) : 0;
    return true;
}

static void write_key(struct tern_catalog_writer *writer)
{
    const uint64_t at = catalog_records_bytes(writer->keys_put++, 0);
    memcpy(writer->data + at, &writer->key, sizeof writer->key);
}

enum tern_status tern_catalog_begin_key(struct tern_catalog_writer *writer, struct tern_string name,
                                        enum tern_value_type type, bool is_array, uint64_t count,
                                        void **numbers, struct tern_error *error)
{
    const enum tern_status status = check_key(writer, name, type, is_array, count, error);
    if (status != TERN_OK)
        return status;
    struct catalog_key *key = &writer->key;
    *key = (struct catalog_key){
        .name_length = (uint32_t)name.length,
        .type = type,
        .is_array = is_array,
        .count = is_array ? count : 1,
    };
    uint8_t *value = NULL;
    if (put_name(writer, name, &key->name) && fixed_bytes(key, &key->value_bytes))
        value = append(writer, key->value_bytes, CATALOG_ALIGNMENT, &key->value);
    if (value == NULL)
        return full(writer, name, error);
    *numbers = value;
    writer->strings_left = type == TERN_V_STRING ? key->count : 0;
    if (type == TERN_V_STRING && is_array)
        memset(value, 0, sizeof(uint64_t)); /* the first string begins at 0 */
    if (writer->strings_left == 0)
        write_key(writer);
    return TERN_OK;
}

enum tern_status tern_catalog_add_string(struct tern_catalog_writer *writer, uint64_t length,
                                         char **to, struct tern_error *error)
{
    struct catalog_key *key = &writer->key;
    const struct tern_string name = {(const char *)writer->data + key->name, key->name_length};
    uint64_t offset;
    if (writer->strings_left == 0)
        return tern_fail(error, TERN_FAILED, "more strings than were announced");
    uint8_t *bytes = length <= TERN_MAX_STRING ? append(writer, length, 1, &offset) : NULL;
    if (bytes == NULL)
        return full(writer, name, error);
    *to = (char *)bytes;
    key->value_bytes += length;
    if (key->is_array) {
        const uint64_t index = key->count - --writer->strings_left;
        const uint64_t end = key->value_bytes - (key->count + 1) * sizeof end;
        memcpy(writer->data + key->value + index * sizeof end, &end, sizeof end);
    } else {
        writer->strings_left = 0;
    }
    if (writer->strings_left == 0)
        write_key(writer);
    return TERN_OK;
}

enum tern_status tern_catalog_put_key(struct tern_catalog_writer *writer, struct tern_string name,
                                      enum tern_value_type type, bool is_array,
                                      const void *elements, uint64_t count,
                                      struct tern_error *error)
{
    void *numbers;
    char *to;
    enum tern_status status =
        tern_catalog_begin_key(writer, name, type, is_array, count, &numbers, error);
    if (status != TERN_OK)
        return status;
    if (type != TERN_V_STRING) {
        if (count > 0)
            memcpy(numbers, elements, writer->key.value_bytes);
        return TERN_OK;
    }
    const struct tern_string *strings = elements;
    const uint64_t number = is_array ? count : 1;
    for (uint64_t i = 0; i < number && status == TERN_OK; i++) {
        status = tern_catalog_add_string(writer, strings[i].length, &to, error);
        if (status == TERN_OK && strings[i].length > 0)
            memcpy(to, strings[i].bytes, strings[i].length);
    }
    return status;
}

enum tern_status tern_catalog_put_tensor(struct tern_catalog_writer *writer,
                                         const struct tern_tensor *tensor, struct tern_error *error)
{
    if (writer->keys_put < writer->keys || writer->tensors_put == writer->tensors)
        return tern_fail(error, TERN_FAILED, "keys and tensors differ from what was announced");
    if (tensor->name.length == 0 || tensor->name.length > TERN_MAX_NAME)
        return tern_fail(error, TERN_BAD_MODEL,
                         "a tensor's name has %zu bytes; 1 to %d are allowed", tensor->name.length,
                         TERN_MAX_NAME);
    struct catalog_tensor record = {
        .name_length = (uint32_t)tensor->name.length,
        .type = tensor->type,
        .dimensions = tensor->dimensions,
        .file_offset = tensor->file_offset,
        .bytes = tensor->bytes,
    };
    memcpy(record.size, tensor->size, sizeof record.size);
    if (!put_name(writer, tensor->name, &record.name))
        return full(writer, tensor->name, error);
    const uint64_t at = catalog_records_bytes(writer->keys, writer->tensors_put++);
    memcpy(writer->data + at, &record, sizeof record);
    return TERN_OK;
}

void tern_catalog_abandon(struct tern_catalog_writer *writer)
{
    free(writer);
}

enum tern_status tern_catalog_end(struct tern_catalog_writer *writer, uint64_t file_bytes,
                                  struct tern_error *error)
{
    struct catalog_header header = {
        .keys = writer->keys,
        .tensors = writer->tensors,
        .file_bytes = file_bytes,
        .data_offset = catalog_records_bytes(writer->keys, writer->tensors),
        .used = writer->used,
    };
    const bool complete =
        writer->keys_put == writer->keys && writer->tensors_put == writer->tensors;
    if (complete) {
        memcpy(writer->data, &header, sizeof header);
        __atomic_store_n((uint32_t *)(void *)writer->data, CATALOG_VERSION, __ATOMIC_RELEASE);
    }
    free(writer);
    if (!complete)
        return tern_fail(error, TERN_FAILED, "fewer keys or tensors than were announced");
    return TERN_OK;
}
