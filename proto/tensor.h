/*
 * Tensor types: every type of the GGUF files in the wild by number and name, its block, and for
 * those that have kernels the rule by which the activations it meets are quantized.
 * Source of numbers and sizes: the GGUF specification and FORMATS (shared design documents).
 */
#ifndef TERN_PROTO_TENSOR_H
#define TERN_PROTO_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_type {
    TERN_F32 = 0,
    TERN_F16 = 1,
    TERN_Q4_0 = 2,
    TERN_Q4_1 = 3,
    TERN_Q5_0 = 6,
    TERN_Q5_1 = 7,
    TERN_Q8_0 = 8,
    TERN_Q4_K = 12,
    TERN_Q5_K = 13,
    TERN_Q6_K = 14,
    TERN_BF16 = 30,
    TERN_TYPE_LIMIT = 256, /* ids at or above are never valid here */
};

/* How many bits an activation code keeps: --precision fast is 8, high is 16. */
enum tern_precision { TERN_FAST = 8, TERN_HIGH = 16 };

/* The form in which a product reads its activations. block = 0: plain float32 (weights F32, F16,
 * BF16). Otherwise one scale per `block` values and integer codes of `bits` bits. Two products
 * whose tern_act are equal share one quantized copy. */
struct tern_act {
    uint16_t block; /* 0, 32 or 256 */
    uint16_t bits;  /* 0 (float), 8 or 16 */
};

struct tern_type_info {
    const char *name;   /* "Q4_K" */
    uint32_t block;     /* elements in a block */
    uint32_t bytes;     /* bytes of a block */
    uint16_t act_block; /* block of the activations' scales; 0 = float activations */
    bool kernels;       /* products and embedding rows can be computed */
};

/* NULL for an id no known file uses. `id` may be any number from a file. */
const struct tern_type_info *tern_type_info(uint32_t id);

/* The activation form for weights of `type` (which must have kernels) at `precision`. */
struct tern_act tern_type_act(uint32_t type, enum tern_precision precision);

/* Bytes of a row of `columns` elements of `type`; false if the type is unknown, columns is 0 or no
 * multiple of the block, or the result does not fit. */
bool tern_row_bytes(uint32_t type, uint64_t columns, uint64_t *bytes);

/* Checked arithmetic for numbers from files and sockets: false on overflow. */
static inline bool tern_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool tern_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
/* Rounds up to a multiple of `to` (a power of two); false on overflow. */
static inline bool tern_align(uint64_t value, uint64_t to, uint64_t *out)
{
    if (!tern_add(value, to - 1, out))
        return false;
    *out &= ~(to - 1);
    return true;
}

#endif
