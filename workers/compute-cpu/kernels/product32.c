/*
 * Products of the types with blocks of 32: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1. Compiled once per tier.
 *
 * Few tokens: a group of LANES rows is read where it lies. The dot products of a block are reduced
 * across rows, so that the block's scales, terms and sums are vectors with one row in each lane,
 * and memory ahead is asked for. Many tokens: PANEL_ROWS rows are unpacked into a panel with one
 * row in each lane, and every token's activations are broadcast against it.
 */
#include "workers/compute-cpu/kernels/operations.h"
#include "workers/compute-cpu/kernels/product.h"

/* From PANEL_TOKENS on (measured) unpacking pays; fewer read a group of rows once per token. */
enum { BLOCK = 32, DWORDS = BLOCK / 4, PANEL_TOKENS = 3 };

/* The term of a block: (d*as)*isum, + (m*as)*sum(v). */
INLINE vf block_term(enum tern_type type, vi isum, vf d, vf minimum, float scale, int32_t sum)
{
    const vf as = vf_set1(scale);
    const vf term = vf_mul(vf_mul(d, as), vf_from_int(isum));
    if (!adds_minimum(type))
        return term;
    return vf_add(term, vf_mul(vf_mul(minimum, as), vf_set1((float)sum)));
}

/* ---- Few tokens ---- */

INLINE vf dot_rows(enum tern_type type, unsigned bits, bool small, struct rows rows,
                   uint32_t blocks, struct act_row x, const uint8_t *ahead)
{
    const size_t bytes = block_bytes(type);
    const struct rows first = rows;
    vf chain = vf_zero();
    for (uint32_t b = 0; b < blocks; b++) {
        if (ahead != NULL)
            prefetch_group(small, first, b * LANES * bytes, LANES * bytes, ahead);
        const int32_t sum = x.sum[2 * b] + x.sum[2 * b + 1];
        vi isum = rows_dot32(type, bits, rows, x.hi + BLOCK * b, x.lo + BLOCK * b);
        if (code_offset(type) != 0)
            isum = vi_sub(isum, vi_set1(code_offset(type) * sum));
        vf minimum = vf_zero();
        const vf d = rows_scales(type, rows, &minimum);
        chain = vf_add(chain, block_term(type, isum, d, minimum, x.scale[b], sum));
        rows.base += bytes;
    }
    return chain;
}

INLINE void multiply_few(enum tern_type type, unsigned bits, bool small,
                         const struct tern_matmul *m, uint32_t begin, uint32_t end)
{
    const struct tern_act_layout layout = tern_act_layout(m->act, m->columns);
    const uint32_t blocks = m->columns / BLOCK;
    FOR_ROW_GROUPS(row, begin, end)
    {
        const struct rows rows = {m->weights + row * m->row_bytes, m->row_bytes};
        const uint8_t *ahead = after_rows(m, row, LANES, end);
        for (uint32_t token = 0; token < m->tokens; token++) {
            const struct act_row x = view_act(m, layout, token);
            const vf sum = dot_rows(type, bits, small, rows, blocks, x, token == 0 ? ahead : NULL);
            finish_rows(m, token, row, LANES, sum);
        }
    }
}

/* ---- Many tokens ---- */

/* A block of a panel: codes[dword][half][lane], scales, minimums. */
struct block {
    vi code[DWORDS][2];
    vf d[2], minimum[2];
};

INLINE void unpack_block(enum tern_type type, struct rows rows, unsigned p, struct block *block)
{
    vi code[DWORDS];
#pragma GCC unroll 8
    for (unsigned i = 0; i < DWORDS; i++)
        code[i] = block32_codes(type, rows, i);
    block32_transpose(code);
#pragma GCC unroll 8
    for (unsigned i = 0; i < DWORDS; i++)
        block->code[i][p] = code[i];
    vf minimum = vf_zero();
    block->d[p] = rows_scales(type, rows, &minimum);
    block->minimum[p] = minimum;
}

/* `tokens` (a constant) tokens against all blocks of a stretch. */
INLINE void multiply_tile(enum tern_type type, unsigned bits, unsigned tokens,
                          const struct tern_matmul *m, const struct panel_walk *walk,
                          const struct block *panel, struct act_row x, uint32_t token)
{
    vf chain[TILE_TOKENS][2];
    for (unsigned t = 0; t < tokens; t++) {
        chain[t][0] = resume_rows(m, walk, token + t, 0);
        chain[t][1] = resume_rows(m, walk, token + t, 1);
    }
    x = act_ahead(x, walk->column, BLOCK);
    for (uint32_t b = 0; b < walk->count / BLOCK; b++) {
        const struct block *block = panel + b;
        vi sum[TILE_TOKENS][2];
        sum_tile(code_limit(type), bits, DWORDS, tokens, block->code, x.hi + BLOCK * b,
                 x.lo + BLOCK * b, m->x_stride, sum);
#pragma GCC unroll 8
        for (unsigned t = 0; t < tokens; t++) {
            const size_t skip = t * m->x_stride / sizeof(float);
            const int32_t *s = x.sum + skip + 2 * b;
            const float scale = x.scale[skip + b];
#pragma GCC unroll 2
            for (unsigned p = 0; p < 2; p++) {
                vi isum = sum[t][p];
                if (code_offset(type) != 0)
                    isum = vi_sub(isum, vi_set1(code_offset(type) * (s[0] + s[1])));
                chain[t][p] =
                    vf_add(chain[t][p], block_term(type, isum, block->d[p], block->minimum[p],
                                                   scale, s[0] + s[1]));
            }
        }
    }
    for (unsigned t = 0; t < tokens; t++) {
        leave_rows(m, walk, token + t, 0, chain[t][0]);
        leave_rows(m, walk, token + t, 1, chain[t][1]);
    }
}

#include "workers/compute-cpu/kernels/product_table.h"

PRODUCTS(Q8_0)
PRODUCTS(Q4_0)
PRODUCTS(Q4_1)
PRODUCTS(Q5_0)
PRODUCTS(Q5_1)
