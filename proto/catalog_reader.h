/*
 * An open catalog, shared by its checks (catalog_open.c) and its readers (catalog.c) only.
 */
#ifndef TERN_PROTO_CATALOG_READER_H
#define TERN_PROTO_CATALOG_READER_H

#include "proto/catalog_format.h"
#include <string.h>

struct tern_catalog {
    const uint8_t *data; /* the segment's own bytes or the copy */
    uint8_t *copy;       /* NULL if the segment is borrowed */
    struct catalog_header header;
    const struct catalog_key *keys;
    const struct catalog_tensor *tensors;
    uint32_t *key_order, *tensor_order; /* indexes sorted by name */
};

/* Entry of an array of strings' table of offsets. */
static inline uint64_t catalog_offset(const uint8_t *table, uint64_t index)
{
    uint64_t value;
    memcpy(&value, table + index * sizeof value, sizeof value);
    return value;
}

static inline struct tern_string catalog_key_name(const struct tern_catalog *catalog,
                                                  uint32_t index)
{
    const struct catalog_key *key = &catalog->keys[index];
    return (struct tern_string){(const char *)catalog->data + key->name, key->name_length};
}

static inline struct tern_string catalog_tensor_name(const struct tern_catalog *catalog,
                                                     uint32_t index)
{
    const struct catalog_tensor *tensor = &catalog->tensors[index];
    return (struct tern_string){(const char *)catalog->data + tensor->name, tensor->name_length};
}

static inline int catalog_compare_names(struct tern_string a, struct tern_string b)
{
    const int order = memcmp(a.bytes, b.bytes, a.length < b.length ? a.length : b.length);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

#endif
