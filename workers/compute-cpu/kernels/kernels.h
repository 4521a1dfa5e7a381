/*
 * The kernel table: one function per operation, filled by a ladder from scalar C (proto/numerics)
 * up to the best tier asked for. Every tier gives scalar's bits.
 *
 * Threads: the executor splits work by output rows, tokens and heads, never inside a sum, and calls
 * these functions from many threads at once on disjoint outputs. They allocate nothing.
 */
#ifndef TERN_KERNELS_H
#define TERN_KERNELS_H

#include "proto/board.h"
#include "proto/numerics/layer.h"
#include "proto/plan.h"
#include <stdatomic.h>

/* Private memory each thread passes to products and attention, 64-byte aligned. */
enum { TERN_KERNEL_SCRATCH = 1 << 20 };

/* Where a failed row is noted: word[token] becomes `code` (tern_fault) if it is still 0. */
struct tern_fault_sink {
    _Atomic uint32_t *word;
    uint32_t code;
};
static inline void tern_fault_set(const struct tern_fault_sink *sink, uint32_t token)
{
    uint32_t none = 0;
    atomic_compare_exchange_strong_explicit(&sink->word[token], &none, sink->code,
                                            memory_order_relaxed, memory_order_relaxed);
}

/* One matrix product for `tokens` rows of activations. */
struct tern_matmul {
    const uint8_t *weights; /* row r at weights + r*row_bytes, as in the GGUF file */
    uint64_t row_bytes;
    uint32_t columns;
    struct tern_act act;
    uint32_t tokens;
    const uint8_t
        *x; /* activation rows, x_stride bytes apart: quantized, or floats if act.block 0 */
    uint64_t x_stride;
    float *out; /* out[token][row], out_stride bytes from token to token; row counts from 0 */
    uint64_t out_stride;
    const float *bias; /* per row, or NULL: value(value(product) + bias) */
    struct tern_fault_sink fault;
    /* The weights this thread reads after these rows (its next chunk, or another matrix); NULL: the
     * rows that follow `end`. Only a hint, fetched ahead so that the next call begins warm: without
     * it decode from short chunks loses a quarter of its speed. Need not be valid memory. */
    const uint8_t *next;
};

/* Computes rows [begin, end) for all tokens. Tokens whose fault word is set may be skipped. */
typedef void (*tern_matmul_fn)(const struct tern_matmul *m, uint32_t begin, uint32_t end,
                               uint8_t *scratch);

/* Query heads that share a key head, of rows of one sequence at neighbouring positions. */
struct tern_queries {
    const float *q; /* row r, head h: head_size floats at q + r*q_stride + h*head_size */
    float *out;     /* likewise */
    uint64_t q_stride, out_stride;
    uint32_t rows, heads; /* at most TERN_MAX_SPAN rows; rows * heads: 1 to TERN_MAX_QUERIES */
};
/* So many that widening a block of keys and values for them costs little of their time. */
enum { TERN_MAX_QUERIES = 64, TERN_MAX_SPAN = 32 };

struct tern_kernels {
    enum tern_tier tier;
    const char *name;                       /* "avx2" */
    tern_matmul_fn matmul[TERN_TYPE_LIMIT]; /* NULL: no kernels for that type */
    uint32_t row_chunk;                     /* rows that a thread best takes at a time */
    void (*quantize)(const float *x, uint32_t columns, struct tern_act act, void *out);
    bool (*widen)(uint32_t type, const void *weights, uint32_t columns, float factor, float *out);
    bool (*norm)(const float *x, const float *gain, uint32_t n, float epsilon, float *out);
    bool (*add)(const float *a, const float *b, uint32_t n, float *out);
    bool (*glu)(enum tern_activation act, const float *gate, const float *up, uint32_t n,
                float *out);
    uint32_t (*argmax)(const float *x, uint32_t n);
    bool (*rope)(const float *x, const float *pairs, uint32_t head_size, uint32_t rope_size,
                 enum tern_rope_pairs order, float *out);
    int (*kv_store)(enum tern_kv_type type, const float *x, uint32_t n, void *out);
    /* a->position: of the first row. Bit r of the result: row r met a value that is not finite. */
    uint32_t (*attend)(const struct tern_attention *a, const struct tern_queries *queries,
                       uint8_t *scratch);
};

/* The table of a tier, or NULL if this processor cannot run it. Tables are constant and live for
 * ever; functions that a tier does not replace are those of the tier below. */
const struct tern_kernels *tern_kernels(enum tern_tier tier);

#endif
