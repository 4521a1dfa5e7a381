/*
 * Products of the types with blocks of 256: Q4_K, Q5_K, Q6_K. Compiled once per tier; the two ways
 * are those of product32.c.
 *
 * A block's sum is built from exact sums over its sub-blocks, one row in each lane. With 16-bit
 * activations the sum of scaled sub-blocks can exceed 32 bits: it is kept as 256*H + L and becomes
 * a float with one rounding (NUMERICS section 2).
 */
#include "workers/compute-cpu/kernels/operations.h"
#include "workers/compute-cpu/kernels/product.h"

enum {
    BLOCK = 256,
    SPAN = 4 * LANES, /* elements of a register of codes */
    SPANS = BLOCK / SPAN,
    SUBS = 16, /* the most sub-blocks of a block */
    MINIMUMS = 8,
    PANEL_TOKENS = LANES == 16 ? 3 : 4, /* from here on (measured) unpacking pays */
};

/* Elements of a sub-block. */
INLINE unsigned sub_width(enum tern_type type)
{
    return type == TERN_Q6_K ? 16 : 32;
}

/* Scales of a block of all rows; minimums for Q4_K and Q5_K only. */
struct scales {
    vf d, dmin;
    vi sub[SUBS], minimum[MINIMUMS];
};

INLINE void read_scales_q6(struct rows rows, struct scales *s)
{
    vi quad[4];
    rows_quad(rows_ahead(rows, 192), quad);
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; i++) {
        s->sub[4 * i] = vi_right_signed(vi_left(quad[i], 24), 24);
        s->sub[4 * i + 1] = vi_right_signed(vi_left(quad[i], 16), 24);
        s->sub[4 * i + 2] = vi_right_signed(vi_left(quad[i], 8), 24);
        s->sub[4 * i + 3] = vi_right_signed(quad[i], 24);
    }
    s->d = rows_halves(rows, 208);
}

/* The four bytes of every lane. */
INLINE void split_bytes(vi x, vi out[4])
{
    const vi byte = vi_set1(255);
    out[0] = vi_and(x, byte);
    out[1] = vi_and(vi_right(x, 8), byte);
    out[2] = vi_and(vi_right(x, 16), byte);
    out[3] = vi_right(x, 24);
}

INLINE void read_scales(enum tern_type type, struct rows rows, struct scales *s)
{
    if (type == TERN_Q6_K) {
        read_scales_q6(rows, s);
        return;
    }
    vi quad[4]; /* d and dmin; the twelve bytes of 6-bit scales and minimums */
    rows_quad(rows, quad);
    s->d = vf_widen_low_halves(quad[0]);
    s->dmin = vf_widen_low_halves(vi_right(quad[0], 16));
    const vi six = vi_set1_byte(63);
    const vi four = vi_set1_byte(15);
    const vi top = vi_set1_byte(48);
    split_bytes(vi_and(quad[1], six), s->sub);
    split_bytes(vi_and(quad[2], six), s->minimum);
    split_bytes(vi_or(vi_and(quad[3], four), vi_and(vi_right(quad[1], 2), top)), s->sub + 4);
    split_bytes(vi_or(vi_and(vi_right(quad[3], 4), four), vi_and(vi_right(quad[2], 2), top)),
                s->minimum + 4);
}

/* The sum of a block's scaled sub-blocks: `low` alone, or 256*high + low for 16 bits. */
struct total {
    vi high, low;
};

/* Adds scale * sum; |sum| <= 32 * 31 * 32639, |scale| <= 128, so that 256 such halves fit. */
INLINE struct total add_sub_block(unsigned bits, struct total total, vi scale, vi sum)
{
    if (bits == 8) {
        total.low = vi_add(total.low, vi_mul(scale, sum));
        return total;
    }
    total.high = vi_add(total.high, vi_mul(scale, vi_right_signed(sum, 8)));
    total.low = vi_add(total.low, vi_mul(scale, vi_and(sum, vi_set1(255))));
    return total;
}

/* The total as a float, rounded once. */
INLINE vf total_float(unsigned bits, struct total total)
{
    if (bits == 8)
        return vf_from_int(total.low);
    const vi a = vi_add(vi_right_signed(total.high, 4), vi_right_signed(total.low, 12));
    const vi b =
        vi_add(vi_left(vi_and(total.high, vi_set1(15)), 8), vi_and(total.low, vi_set1(4095)));
    return vf_add(vf_mul(vf_from_int(a), vf_set1(4096.0f)), vf_from_int(b));
}

/* (d*as)*isum - (dmin*as)*M */
INLINE vf block_term(enum tern_type type, unsigned bits, struct total total, vf d, vf dmin,
                     vi minimums, float scale)
{
    const vf as = vf_set1(scale);
    const vf term = vf_mul(vf_mul(d, as), total_float(bits, total));
    if (type == TERN_Q6_K)
        return term;
    return vf_sub(term, vf_mul(vf_mul(dmin, as), vf_from_int(minimums)));
}

/* ---- Few tokens ---- */

/* Sums of codes times activations over the sub-blocks of span g, one row in each lane. */
INLINE void dot_span(enum tern_type type, unsigned bits, struct rows rows, unsigned g,
                     const uint8_t *hi, const uint8_t *lo, vi sum[QUARTERS])
{
    const vi x = vi_load(hi + g * SPAN);
    const vi x_low = bits == 16 ? vi_load(lo + g * SPAN) : vi_zero();
    vi four[QUARTERS];
#pragma GCC unroll 4
    for (unsigned q = 0; q < LANES / 4; q++) {
        vi dot[4];
#pragma GCC unroll 4
        for (unsigned i = 0; i < 4; i++) {
            const vi code = span_codes(type, row_at(rows, 4 * q + i), g);
            dot[i] = vi_dot(vi_zero(), code, x, code_limit(type));
            if (bits == 16)
                dot[i] = vi_dot(vi_left(dot[i], 8), code, x_low, code_limit(type));
        }
        four[q] = vi_join4(dot[0], dot[1], dot[2], dot[3]);
    }
    span_join(sub_width(type), four, sum);
}

INLINE vi sum_minimums(const struct scales *s, const int32_t *sum)
{
    vi minimums = vi_zero();
#pragma GCC unroll 8
    for (unsigned i = 0; i < MINIMUMS; i++)
        minimums = vi_add(minimums, vi_mul(s->minimum[i], vi_set1(sum[2 * i] + sum[2 * i + 1])));
    return minimums;
}

/* Block b of the group `first`. */
INLINE vf dot_block(enum tern_type type, unsigned bits, bool small, struct rows first, uint32_t b,
                    struct act_row x, const uint8_t *ahead)
{
    const size_t bytes = LANES * block_bytes(type), part = bytes / SPANS;
    const struct rows rows = rows_ahead(first, b * block_bytes(type));
    const unsigned per_span = SPAN / sub_width(type);
    struct scales s;
    read_scales(type, rows, &s);
    struct total total = {vi_zero(), vi_zero()};
#pragma GCC unroll 8
    for (unsigned g = 0; g < SPANS; g++) {
        if (ahead != NULL)
            prefetch_group(small, first, b * bytes + g * part, part, ahead);
        vi sum[QUARTERS];
        dot_span(type, bits, rows, g, x.hi, x.lo, sum);
#pragma GCC unroll 4
        for (unsigned i = 0; i < per_span; i++) {
            const unsigned sub = g * per_span + i;
            if (code_offset(type) != 0)
                sum[i] = vi_sub(sum[i], vi_set1(code_offset(type) * x.sum[sub]));
            total = add_sub_block(bits, total, s.sub[sub], sum[i]);
        }
    }
    const vi minimums = type == TERN_Q6_K ? vi_zero() : sum_minimums(&s, x.sum);
    return block_term(type, bits, total, s.d, s.dmin, minimums, x.scale[0]);
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
            struct act_row x = view_act(m, layout, token);
            vf chain = vf_zero();
            for (uint32_t b = 0; b < blocks; b++) {
                chain = vf_add(chain,
                               dot_block(type, bits, small, rows, b, x, token == 0 ? ahead : NULL));
                x = act_ahead(x, BLOCK, BLOCK);
            }
            finish_rows(m, token, row, LANES, chain);
        }
    }
}

/* ---- Many tokens ---- */

/* A block of a panel: codes[dword][half][lane], and scales. */
struct block {
    vi code[BLOCK / 4][2];
    struct scales scales[2];
};

INLINE void unpack_block(enum tern_type type, struct rows rows, unsigned p, struct block *block)
{
    for (unsigned g = 0; g < SPANS; g++) {
        vi code[LANES];
#pragma GCC unroll 16
        for (unsigned i = 0; i < LANES; i++)
            code[i] = span_codes(type, row_at(rows, i), g);
        vi_transpose(code);
#pragma GCC unroll 16
        for (unsigned i = 0; i < LANES; i++)
            block->code[g * LANES + i][p] = code[i];
    }
    read_scales(type, rows, &block->scales[p]);
}

INLINE void multiply_sub_block(enum tern_type type, unsigned bits, unsigned tokens,
                               const struct block *block, unsigned sub, struct act_row x,
                               size_t x_stride, struct total total[][2], vi minimums[][2])
{
    const unsigned width = sub_width(type);
    const vi(*code)[2] = block->code + sub * (width / 4);
    vi sum[TILE_TOKENS][2];
    sum_tile(code_limit(type), bits, width / 4, tokens, code, x.hi + sub * width,
             x.lo + sub * width, x_stride, sum);
#pragma GCC unroll 8
    for (unsigned t = 0; t < tokens; t++) {
        const int32_t *s = x.sum + t * x_stride / sizeof *s;
        const vi v = vi_set1(type == TERN_Q6_K ? 32 * s[sub] : s[2 * sub] + s[2 * sub + 1]);
#pragma GCC unroll 2
        for (unsigned p = 0; p < 2; p++) {
            const struct scales *scales = &block->scales[p];
            if (type == TERN_Q6_K)
                sum[t][p] = vi_sub(sum[t][p], v);
            else
                minimums[t][p] = vi_add(minimums[t][p], vi_mul(scales->minimum[sub], v));
            total[t][p] = add_sub_block(bits, total[t][p], scales->sub[sub], sum[t][p]);
        }
    }
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
        struct total total[TILE_TOKENS][2];
        vi minimums[TILE_TOKENS][2];
        for (unsigned t = 0; t < tokens; t++)
            for (unsigned p = 0; p < 2; p++) {
                total[t][p] = (struct total){vi_zero(), vi_zero()};
                minimums[t][p] = vi_zero();
            }
        for (unsigned sub = 0; sub < BLOCK / sub_width(type); sub++)
            multiply_sub_block(type, bits, tokens, block, sub, x, m->x_stride, total, minimums);
        for (unsigned t = 0; t < tokens; t++) {
            const float scale = x.scale[t * m->x_stride / sizeof(float)];
            for (unsigned p = 0; p < 2; p++) {
                const struct scales *s = &block->scales[p];
                chain[t][p] = vf_add(chain[t][p], block_term(type, bits, total[t][p], s->d, s->dmin,
                                                             minimums[t][p], scale));
            }
        }
        x = act_ahead(x, BLOCK, BLOCK);
    }
    for (unsigned t = 0; t < tokens; t++) {
        leave_rows(m, walk, token + t, 0, chain[t][0]);
        leave_rows(m, walk, token + t, 1, chain[t][1]);
    }
}

#include "workers/compute-cpu/kernels/product_table.h"

PRODUCTS(Q4_K)
PRODUCTS(Q5_K)
PRODUCTS(Q6_K)
