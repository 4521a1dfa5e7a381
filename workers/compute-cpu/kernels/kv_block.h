/*
 * A block of keys and values as attention of many queries best reads it: widened, the keys
 * transposed so that a register holds neighbouring positions. Making it costs about as much as
 * ten queries save.
 */
#ifndef TERN_KERNELS_KV_BLOCK_H
#define TERN_KERNELS_KV_BLOCK_H

#include "workers/compute-cpu/kernels/kernels.h"
#include "workers/compute-cpu/kernels/simd.h"

enum {
    BLOCK = 256, /* positions (NUMERICS section 3) */
    COLUMNS = (TERN_MAX_HEAD + LANES - 1) / LANES * LANES,
};

/* Places that were not filled hold what lay there before, finite or not. */
struct kv_block {
    float key[BLOCK * COLUMNS];   /* [place / LANES][dimension][LANES] */
    float value[BLOCK * COLUMNS]; /* [place][dimension], rows of value_stride */
};

INLINE uint32_t value_stride(uint32_t head_size)
{
    return (head_size + LANES - 1) / LANES * LANES;
}

/* The first n floats of a stored vector's register, n <= LANES; others +0. */
INLINE vf load_stored(enum tern_kv_type type, const uint8_t *p, uint32_t n)
{
    if (n >= LANES)
        return type == TERN_KV_F16 ? vf_load_half(p) : vf_load((const float *)(const void *)p);
    if (type == TERN_KV_F16)
        return vf_load_half_first(p, n);
    return vf_load_first((const float *)(const void *)p, n);
}

INLINE size_t element_bytes(enum tern_kv_type type)
{
    return type == TERN_KV_F16 ? 2 : 4;
}

/* Keys of LANES positions from `position` on; for those outside [begin, end) some key within. */
INLINE void widen_keys(enum tern_kv_type type, const struct tern_attention *a, uint32_t position,
                       uint32_t begin, uint32_t end, float *out)
{
    const uint32_t size = a->kv->head_size;
    const uint8_t *key[LANES];
    for (uint32_t i = 0; i < LANES; i++) {
        const uint32_t from_begin = position + i > begin ? position + i : begin;
        key[i] = tern_kv_key(a, from_begin < end ? from_begin : end - 1);
    }
    for (uint32_t at = 0; at < size; at += LANES) {
        const uint32_t columns = size - at < LANES ? size - at : LANES;
        vi x[LANES];
        for (uint32_t i = 0; i < LANES; i++)
            x[i] = vi_bits(load_stored(type, key[i] + at * element_bytes(type), columns));
        vi_transpose(x);
        for (uint32_t i = 0; i < columns; i++)
            vi_store(out + (at + i) * LANES, x[i]);
    }
}

INLINE void widen_value(enum tern_kv_type type, const struct tern_attention *a, uint32_t position,
                        float *out)
{
    const uint32_t size = a->kv->head_size;
    const uint8_t *stored = tern_kv_value(a, position);
    for (uint32_t at = 0; at < size; at += LANES)
        vf_store(out + at, load_stored(type, stored + at * element_bytes(type), size - at));
}

/* Positions [begin, end), all of one block. */
INLINE void fill_kv_block(enum tern_kv_type type, const struct tern_attention *a, uint32_t begin,
                          uint32_t end, struct kv_block *block)
{
    const uint32_t start = begin / BLOCK * BLOCK, size = a->kv->head_size;
    for (uint32_t p = begin / LANES * LANES; p < end; p += LANES)
        widen_keys(type, a, p, begin, end, block->key + (p - start) * size);
    for (uint32_t p = begin; p < end; p++)
        widen_value(type, a, p, block->value + (p - start) * value_stride(size));
}

/* Dot products of `n` (a constant) queries with the keys of LANES places: 16 chains, each of the
 * dimensions that are alike mod 16, joined by the tree of NUMERICS section 1 as soon as both sides
 * of a node are there. */
INLINE void score_places(unsigned n, uint32_t size, const float *key, const float *const *q,
                         vf score[])
{
    vf node[4][LANES / 4];
#pragma GCC unroll 16
    for (unsigned chain = 0; chain < 16; chain++) {
        for (unsigned i = 0; i < n; i++)
            score[i] = vf_zero();
        for (uint32_t j = chain; j < size; j += 16) {
            const vf k = vf_load(key + j * LANES);
            for (unsigned i = 0; i < n; i++)
                score[i] = vf_add(score[i], vf_mul(vf_set1(q[i][j]), k));
        }
        unsigned level = 0;
#pragma GCC unroll 4
        for (; (chain >> level & 1) != 0; level++)
            for (unsigned i = 0; i < n; i++)
                score[i] = vf_add(node[level][i], score[i]);
        for (unsigned i = 0; i < n && level < 4; i++)
            node[level][i] = score[i];
    }
}

#endif
