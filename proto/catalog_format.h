/*
 * The catalog's records as they lie in the segment, shared by its writer and its reader only.
 *
 * Everything is written in one pass and lies exactly one after the other: header, key records,
 * tensor records, then the blob: for each key its name, zeros up to a multiple of 8, its value; for
 * each tensor its name. The reader insists on exactly that, so records cannot alias each other and
 * checking takes time linear in the bytes used.
 *
 * A value is `count` packed numbers; or the bytes of one string; or, for an array of strings, a
 * table of count + 1 u64 offsets into the bytes that follow the table.
 */
#ifndef TERN_PROTO_CATALOG_FORMAT_H
#define TERN_PROTO_CATALOG_FORMAT_H

#include "proto/catalog.h"

enum { CATALOG_VERSION = 1, CATALOG_ALIGNMENT = 8 };

struct catalog_header {
    uint32_t version; /* written last */
    uint32_t keys, tensors, pad;
    uint64_t file_bytes;
    uint64_t data_offset; /* where the blob begins, from the start of the segment's data */
    uint64_t used;        /* bytes from the start of the segment's data to the blob's end */
};

struct catalog_key {
    uint64_t name;  /* offsets from the start of the segment's data */
    uint64_t value; /* a multiple of 8 */
    uint64_t value_bytes;
    uint64_t count; /* 1 unless is_array */
    uint32_t name_length;
    uint32_t type; /* of the value or of the array's elements */
    uint32_t is_array;
    uint32_t pad;
};

struct catalog_tensor {
    uint64_t name;
    uint32_t name_length;
    uint32_t type;
    uint32_t dimensions;
    uint32_t pad;
    uint64_t size[TERN_MAX_DIMENSIONS];
    uint64_t file_offset;
    uint64_t bytes;
};

_Static_assert(sizeof(struct catalog_header) == 40, "records must be packed");
_Static_assert(sizeof(struct catalog_key) == 48, "records must be packed");
_Static_assert(sizeof(struct catalog_tensor) == 72, "records must be packed");

/* Bytes of header and records; keys and tensors are within their limits. */
static inline uint64_t catalog_records_bytes(uint32_t keys, uint32_t tensors)
{
    return sizeof(struct catalog_header) + (uint64_t)keys * sizeof(struct catalog_key) +
           (uint64_t)tensors * sizeof(struct catalog_tensor);
}

#endif
