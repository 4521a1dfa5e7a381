/* Finds metadata and tensors in a GGUF file that is known to be good (this is a test tool: a
 * malformed file ends the program, it is never repaired). */
#ifndef REFERENCE_GGUF_READ_H
#define REFERENCE_GGUF_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Type numbers as the files hold them. */
enum type {
    TYPE_F32 = 0,
    TYPE_F16 = 1,
    TYPE_Q4_0 = 2,
    TYPE_Q4_1 = 3,
    TYPE_Q5_0 = 6,
    TYPE_Q5_1 = 7,
    TYPE_Q8_0 = 8,
    TYPE_Q4_K = 12,
    TYPE_Q5_K = 13,
    TYPE_Q6_K = 14,
    TYPE_BF16 = 30,
};

/* A matrix of `rows` rows, each `columns` weights stored one after the other (a vector: one row).
 * `data` points into the mapped file. */
struct tensor {
    const char *name;
    size_t name_length;
    uint32_t type;
    size_t rows, columns;
    const uint8_t *data;
};

struct metadata {
    const char *key;
    size_t key_length;
    uint32_t type;
    const uint8_t *value;
};

struct gguf {
    const uint8_t *start, *end, *cursor;
    size_t metadata_count, tensor_count;
    struct metadata *metadata;
    struct tensor *tensors;
};

/* Prints the message in printf's manner and ends the program with exit code 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed memory for `count` objects of `size` bytes; never NULL, never freed by this program. */
void *allocate(size_t count, size_t size);

/* Maps the file and lists what it holds; what it returns lives until the program ends. */
struct gguf *gguf_open(const char *path);

/* The number (integer, float or bool) under this key; `otherwise` where the key is absent. */
double gguf_number(const struct gguf *file, const char *key, double otherwise);

/* Copies the string under this key, cut to `size` - 1 bytes; an absent key gives "". */
void gguf_string(const struct gguf *file, const char *key, char *text, size_t size);

/* NULL where the file has no tensor of this name. */
const struct tensor *gguf_tensor(const struct gguf *file, const char *name);

#endif
