/*
 * Products of float weights, F32, F16 and BF16: 16 chains a row (NUMERICS section 2), ROWS rows by
 * TOKENS tokens at a time, so that the chains' latencies overlap and each widened weight serves
 * several tokens. Compiled once per tier.
 *
 * Sums start from +0 instead of at their first term: that can only make a sum of negative zeros
 * +0, which the value rule does anyway.
 */
#include "workers/compute-cpu/kernels/operations.h"
#include "workers/compute-cpu/kernels/product.h"

enum { ROWS = 4, TOKENS = LANES / 4, L2_BYTES = 192 << 10 };

INLINE size_t element_bytes(enum tern_type type)
{
    return type == TERN_F32 ? 4 : 2;
}

/* n >= LANES: a whole register; else the first n lanes. */
INLINE vf load_weights(enum tern_type type, const uint8_t *p, uint32_t n)
{
    switch (type) {
    case TERN_F16:
        return n >= LANES ? vf_load_half(p) : vf_load_half_first(p, n);
    case TERN_BF16:
        return n >= LANES ? vf_load_bf16(p) : vf_load_bf16_first(p, n);
    default:
        if (n >= LANES)
            return vf_load((const float *)(const void *)p);
        return vf_load_first((const float *)(const void *)p, n);
    }
}

/* Adds the products of one register of columns; n: how many columns are left. */
INLINE void add_products(enum tern_type type, unsigned tokens, const uint8_t *const row[ROWS],
                         const float *const x[TOKENS], uint32_t column, uint32_t n,
                         vf sum[TOKENS][ROWS])
{
    vf w[ROWS];
#pragma GCC unroll 4
    for (unsigned r = 0; r < ROWS; r++)
        w[r] = load_weights(type, row[r] + column * element_bytes(type), n);
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++) {
        const vf v = n >= LANES ? vf_load(x[t] + column) : vf_load_first(x[t] + column, n);
#pragma GCC unroll 4
        for (unsigned r = 0; r < ROWS; r++)
            sum[t][r] = vf_add(sum[t][r], vf_mul(w[r], v));
    }
}

/* Rows first .. first + n - 1 (n <= ROWS) for `tokens` (a constant) tokens. One token: both halves
 * of the chains at once, memory ahead asked for. More: one register of chains after the other, so
 * that the sums of all tokens fit. */
INLINE void multiply_tile(enum tern_type type, unsigned tokens, const struct tern_matmul *m,
                          uint32_t first, uint32_t n, uint32_t token)
{
    const uint8_t *row[ROWS];
    const float *x[TOKENS];
    for (unsigned r = 0; r < ROWS; r++)
        row[r] = m->weights + (first + (r < n ? r : n - 1)) * m->row_bytes;
    for (unsigned t = 0; t < tokens; t++)
        x[t] = (const float *)(const void *)(m->x + (token + t) * m->x_stride);
    const uint32_t whole = m->columns / 16 * 16;
    vf sum[PER16][TOKENS][ROWS];
#pragma GCC unroll 2
    for (unsigned c = 0; c < PER16; c++)
        for (unsigned t = 0; t < tokens; t++)
            for (unsigned r = 0; r < ROWS; r++)
                sum[c][t][r] = vf_zero();
    if (tokens == 1) {
        const size_t ahead = ROWS * m->row_bytes;
        for (uint32_t k = 0; k < whole; k += 16) {
            for (unsigned r = 0; r < ROWS; r++)
                prefetch(row[r] + k * element_bytes(type) + ahead, 1);
#pragma GCC unroll 2
            for (unsigned c = 0; c < PER16; c++)
                add_products(type, tokens, row, x, k + c * LANES, LANES, sum[c]);
        }
    } else {
#pragma GCC unroll 2
        for (unsigned c = 0; c < PER16; c++)
            for (uint32_t k = c * LANES; k < whole; k += 16)
                add_products(type, tokens, row, x, k, LANES, sum[c]);
    }
    uint32_t k = whole;
    for (unsigned c = 0; c < PER16 && k < m->columns; c++, k += LANES)
        add_products(type, tokens, row, x, k, m->columns - k, sum[c]);
    for (unsigned t = 0; t < tokens; t++) {
        vf joined[PER16];
        for (unsigned c = 0; c < PER16; c++)
            joined[c] = vf_join4(sum[c][t][0], sum[c][t][1], sum[c][t][2], sum[c][t][3]);
        float y[LANES] = {0};
        _mm_storeu_ps(y, join_quarters(joined));
        for (unsigned r = n; r < ROWS; r++)
            y[r] = 0.0f;
        finish_rows(m, token + t, first, n, vf_load(y));
    }
}

INLINE void multiply_rows(enum tern_type type, unsigned tokens, const struct tern_matmul *m,
                          uint32_t begin, uint32_t end, uint32_t token)
{
    for (uint32_t row = begin; row < end; row += ROWS)
        multiply_tile(type, tokens, m, row, end - row < ROWS ? end - row : ROWS, token);
}

/* Blocks of rows that stay in L2 while a few tokens after another, which stay in L1, pass by. */
INLINE void multiply_floats(enum tern_type type, const struct tern_matmul *m, uint32_t begin,
                            uint32_t end)
{
    uint32_t block = (uint32_t)(L2_BYTES / m->row_bytes) / ROWS * ROWS;
    if (block < ROWS)
        block = ROWS;
    for (uint32_t row = begin; row < end; row += block) {
        const uint32_t last = end - row < block ? end : row + block;
        uint32_t token = 0;
        for (; token + TOKENS <= m->tokens; token += TOKENS)
            multiply_rows(type, TOKENS, m, row, last, token);
        for (; token < m->tokens; token++)
            multiply_rows(type, 1, m, row, last, token);
    }
}

#define PRODUCT(type)                                                                              \
    void TIER(multiply_##type)(const struct tern_matmul *m, uint32_t begin, uint32_t end,          \
                               uint8_t *scratch)                                                   \
    {                                                                                              \
        (void)scratch;                                                                             \
        multiply_floats(TERN_##type, m, begin, end);                                               \
    }
PRODUCT(F32)
PRODUCT(F16)
PRODUCT(BF16)
