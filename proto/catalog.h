/*
 * The catalog: what a model file says, handed from the loader to the coordinator in a segment.
 * Flat records with offsets into one blob; no pointers. The loader (the only parser of model files)
 * writes it; the coordinator treats it as hostile and reads it only through this interface, which
 * checks every offset once in tern_catalog_open.
 *
 * Layout of the segment's data: header, key records, tensor records, blob (catalog_format.h).
 */
#ifndef TERN_PROTO_CATALOG_H
#define TERN_PROTO_CATALOG_H

#include "proto/segment.h"
#include "proto/tensor.h"

/* Limits that the loader enforces and tern_catalog_open checks again. */
enum {
    TERN_MAX_KEYS = 65536,
    TERN_MAX_TENSORS = 65536,
    TERN_MAX_NAME = 255,        /* bytes of a tensor's or key's name */
    TERN_MAX_STRINGS = 4 << 20, /* elements of an array of strings */
    TERN_MAX_STRING = 16 << 20, /* bytes of a string value (chat templates) */
    TERN_MAX_DIMENSIONS = 4,
    TERN_MAX_METADATA = 128 << 20, /* bytes of all names and values */
    TERN_I2_S = 36,                /* the one tensor type that is not only blocks ... */
    TERN_I2_S_TAIL = 32, /* ... but has its scale and padding once, after all of them (FORMATS) */
};

/* Numbers are GGUF's own value type ids. */
enum tern_value_type {
    TERN_V_U8,
    TERN_V_I8,
    TERN_V_U16,
    TERN_V_I16,
    TERN_V_U32,
    TERN_V_I32,
    TERN_V_F32,
    TERN_V_BOOL,
    TERN_V_STRING,
    TERN_V_ARRAY,
    TERN_V_U64,
    TERN_V_I64,
    TERN_V_F64,
};

/* Bytes of a value of a type; 0 for strings, arrays and ids that do not exist. */
size_t tern_value_bytes(uint32_t type);

struct tern_string {
    const char *bytes; /* not NUL-terminated; may hold any bytes */
    size_t length;
};

struct tern_tensor {
    struct tern_string name;
    uint32_t type;                      /* a known type id (tern_type_info is not NULL) */
    uint32_t dimensions;                /* 1 .. 4 */
    uint64_t size[TERN_MAX_DIMENSIONS]; /* size[0] = columns; absent ones are 1; none is 0 */
    uint64_t file_offset;               /* from the start of the file */
    uint64_t bytes;
};

/* Bytes of a tensor of `type`; false if the type is unknown, a size is 0, the columns are no
 * multiple of the type's block, or the result does not fit. */
bool tern_tensor_bytes(uint32_t type, const uint64_t size[TERN_MAX_DIMENSIONS], uint64_t *bytes);

struct tern_catalog; /* reader */

/* Checks everything; the segment must stay mapped as long as the catalog lives. Free with
 * tern_catalog_close. TERN_BAD_MODEL when anything is out of bounds or a name comes twice.
 * A segment mapped read-only is copied, for its writer may still run and change it; the writer's
 * own is read in place. */
enum tern_status tern_catalog_open(const struct tern_segment *segment, struct tern_catalog **out,
                                   struct tern_error *error);
void tern_catalog_close(struct tern_catalog *catalog);

uint32_t tern_catalog_tensors(const struct tern_catalog *catalog);
void tern_catalog_tensor(const struct tern_catalog *catalog, uint32_t index,
                         struct tern_tensor *out); /* index < tern_catalog_tensors */
/* Index of the tensor of that name, or -1. */
int64_t tern_catalog_find(const struct tern_catalog *catalog, const char *name);

/* Keys, for listing: index < tern_catalog_keys. *type is that of the value or of the array's
 * elements, *count 1 for a scalar. */
uint32_t tern_catalog_keys(const struct tern_catalog *catalog);
struct tern_string tern_catalog_key(const struct tern_catalog *catalog, uint32_t index,
                                    enum tern_value_type *type, uint64_t *count);

/* Scalars by key: false if absent or of another kind (any integer type will do for integers where
 * the value fits; F32 or F64 for floats). */
bool tern_catalog_u64(const struct tern_catalog *catalog, const char *key, uint64_t *value);
bool tern_catalog_f64(const struct tern_catalog *catalog, const char *key, double *value);
bool tern_catalog_bool(const struct tern_catalog *catalog, const char *key, bool *value);
bool tern_catalog_string(const struct tern_catalog *catalog, const char *key,
                         struct tern_string *value);
bool tern_catalog_has(const struct tern_catalog *catalog, const char *key);

/* Arrays. strings: element i through tern_array_string. numbers: element i as int64 or
 * double whatever the element type. A key that is absent or of another kind gives false. */
struct tern_array {
    const void *elements;
    uint64_t count;
    enum tern_value_type type;
};
bool tern_catalog_array(const struct tern_catalog *catalog, const char *key,
                        enum tern_value_type type, struct tern_array *out);
/* Any integer or float element type. */
bool tern_catalog_numbers(const struct tern_catalog *catalog, const char *key,
                          struct tern_array *out);
struct tern_string tern_array_string(const struct tern_array *array, uint64_t index);
int64_t tern_array_i64(const struct tern_array *array, uint64_t index);
double tern_array_f64(const struct tern_array *array, uint64_t index);

/* ---- writer, for the loader ---- */

struct tern_catalog_writer; /* writes into a mapped, writable segment */

/* `segment` must outlive the writer. keys and tensors are the exact numbers that will follow, keys
 * first. End with tern_catalog_end or tern_catalog_abandon. */
enum tern_status tern_catalog_begin(const struct tern_segment *segment, uint32_t keys,
                                    uint32_t tensors, struct tern_catalog_writer **out,
                                    struct tern_error *error);
/* `elements`: count values of `type`, little-endian and packed, copied; for TERN_V_STRING an array
 * of struct tern_string. is_array false: count is 1. Arrays of arrays do not exist here. */
enum tern_status tern_catalog_put_key(struct tern_catalog_writer *writer, struct tern_string name,
                                      enum tern_value_type type, bool is_array,
                                      const void *elements, uint64_t count,
                                      struct tern_error *error);
/* The same for values that are not in memory yet, without a copy: the caller writes the `count`
 * packed numbers to *numbers at once; or, for TERN_V_STRING, adds count (1 if no array) strings one
 * by one and writes the `length` bytes of each to *to before the next. TERN_BAD_MODEL when full. */
enum tern_status tern_catalog_begin_key(struct tern_catalog_writer *writer, struct tern_string name,
                                        enum tern_value_type type, bool is_array, uint64_t count,
                                        void **numbers, struct tern_error *error);
enum tern_status tern_catalog_add_string(struct tern_catalog_writer *writer, uint64_t length,
                                         char **to, struct tern_error *error);
enum tern_status tern_catalog_put_tensor(struct tern_catalog_writer *writer,
                                         const struct tern_tensor *tensor,
                                         struct tern_error *error);
/* Publishes: the header is written last. Frees the writer. */
enum tern_status tern_catalog_end(struct tern_catalog_writer *writer, uint64_t file_bytes,
                                  struct tern_error *error);

/* Frees the writer without publishing. */
void tern_catalog_abandon(struct tern_catalog_writer *writer);

/* An upper bound of the catalog's bytes for a file of `file_bytes` (for sizing its segment, which
 * commits memory only as it is written). */
uint64_t tern_catalog_bound(uint64_t file_bytes);

/* ---- where tensors go ---- */

/* Offsets of all tensors in the weights segment in catalog order: multiples of 256, those of 64 KiB
 * and more at 4 KiB. offsets[tern_catalog_tensors]; *total = data bytes of the segment. Loader and
 * coordinator both call it, so they agree. */
enum tern_status tern_catalog_layout(const struct tern_catalog *catalog, uint64_t *offsets,
                                     uint64_t *total, struct tern_error *error);

#endif
