/*
 * What products of quantized weights share, whatever the block: views of activation rows, the end
 * of a row, prefetch, and the walk over panels for many tokens.
 *
 * Sums of floats start from +0 here instead of at their first term: that can only turn a sum of
 * negative zeros into +0, which the value rule does to every product anyway.
 */
#ifndef TERN_KERNELS_PRODUCT_H
#define TERN_KERNELS_PRODUCT_H

#include "proto/numerics/quantize.h"
#include "workers/compute-cpu/kernels/rows.h"

enum { PANEL_COLUMNS = 768, PANEL_ROWS = 2 * LANES };
/* Tokens of a tile: accumulators for PANEL_ROWS rows of each must fit the registers. */
enum { TILE_TOKENS = LANES == 16 ? 6 : 3, TILE_MIDDLE = LANES == 16 ? 4 : 2 };

/* Tokens of the next tile when so many are left. */
INLINE uint32_t tile_tokens(uint32_t left)
{
    if (left >= TILE_TOKENS)
        return TILE_TOKENS;
    return left >= TILE_MIDDLE ? TILE_MIDDLE : left >= 2 ? 2 : 1;
}

struct act_row {
    const uint8_t *hi, *lo; /* codes, or their high and low bytes */
    const float *scale;
    const int32_t *sum;
};

INLINE struct act_row view_act(const struct tern_matmul *m, struct tern_act_layout layout,
                               uint32_t token)
{
    const uint8_t *x = m->x + token * m->x_stride;
    return (struct act_row){
        .hi = x,
        .lo = x + layout.lo,
        .scale = (const float *)(const void *)(x + layout.scale),
        .sum = (const int32_t *)(const void *)(x + layout.sum),
    };
}
/* The same row seen from `columns` elements on. */
INLINE struct act_row act_ahead(struct act_row x, uint32_t columns, uint32_t block)
{
    return (struct act_row){x.hi + columns, x.lo + columns, x.scale + columns / block,
                            x.sum + columns / 16};
}

INLINE float *output_at(const struct tern_matmul *m, uint32_t token, uint32_t row)
{
    return (float *)(void *)((char *)(void *)m->out + token * m->out_stride) + row;
}

/* Stores the sums of rows row .. row + n - 1 (n <= LANES) as values, bias added. Lanes from n on
 * are finite. */
INLINE void finish_rows(const struct tern_matmul *m, uint32_t token, uint32_t row, uint32_t n,
                        vf sum)
{
    vf y = vf_value(sum);
    if (m->bias != NULL)
        y = vf_value(vf_add(y, vf_load_first(m->bias + row, n)));
    float *out = output_at(m, token, row);
    if (n < LANES)
        vf_store_first(out, n, y);
    else
        vf_store(out, y);
    if (!tracked_finite(track_magnitude(vi_zero(), y)))
        tern_fault_set(&m->fault, token);
}

/* Asks for `bytes` bytes from p on; p need not be mapped. */
INLINE void prefetch(const uint8_t *p, size_t bytes)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T0);
}
/* The same, into the second cache only. */
INLINE void prefetch_second(const uint8_t *p, size_t bytes)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

/*
 * Memory delivers best in its own order, but a group of LANES rows is read block by block, all rows
 * at once. A group up to SMALL_GROUP bytes fits a cache twice and comes whole while the one before
 * is read; of a larger one AHEAD bytes of each row are brought on to the first cache in the order
 * in which they are read. All figures measured: bench/RESULTS.md.
 */
enum { SMALL_GROUP = LANES == 16 ? 8 << 10 : 16 << 10, SMALL_AHEAD = 4096, AHEAD = 256 };

INLINE bool is_small_group(const struct tern_matmul *m)
{
    return LANES * m->row_bytes <= SMALL_GROUP;
}

/* Called for neighbouring stretches of a group, bytes `from` .. `from + bytes` of its rows' bytes
 * all together: asks for what is read later. The next group lies at `next`, which need not be
 * mapped. */
INLINE void prefetch_group(bool small, struct rows group, size_t from, size_t bytes,
                           const uint8_t *next)
{
    if (small && LANES == 16) {
        prefetch_second(next + from + SMALL_AHEAD, bytes);
        return;
    }
    if (small) {
        prefetch(next + from, bytes);
        return;
    }
    prefetch_second(next + from, bytes);
    size_t at = from / LANES + AHEAD;
    const uint8_t *base = group.base;
    if (at >= group.stride) {
        at -= group.stride;
        base = next;
    }
    /* A row's next line comes after 64 of its bytes, which is after a line of every row. */
    const size_t turn = from / 64;
#pragma GCC unroll 16
    for (size_t i = 0; i < (bytes + 63) / 64; i++)
        _mm_prefetch((const char *)base + at + (turn + i) % LANES * group.stride, _MM_HINT_T0);
}

/* What is read after the `n` rows that begin at `row`. */
INLINE const uint8_t *after_rows(const struct tern_matmul *m, uint32_t row, uint32_t n,
                                 uint32_t end)
{
    if (row + n >= end && m->next != NULL)
        return m->next;
    return m->weights + (row + (uint64_t)n) * m->row_bytes;
}

/* ---- Panels: LANES rows by a stretch of columns, unpacked ---- */

struct panel_walk {
    uint32_t row, rows;     /* of the matrix; at most PANEL_ROWS */
    uint32_t column, count; /* the stretch */
    bool first, last;       /* of the row */
    const uint8_t *ahead;   /* what is read next */
};

/* Where the panel of rows walk.row + p*LANES ... reads: in place, or, where fewer rows than lanes
 * are left, in a copy whose missing rows are zero. */
INLINE struct rows panel_rows(const struct tern_matmul *m, const struct panel_walk *walk,
                              unsigned p, size_t offset, size_t bytes, uint8_t *copy)
{
    const uint32_t begin = p * LANES;
    const uint32_t have = walk->rows > begin ? walk->rows - begin : 0;
    const uint8_t *from = m->weights + (walk->row + (uint64_t)begin) * m->row_bytes + offset;
    if (have >= LANES)
        return (struct rows){from, m->row_bytes};
    memset(copy, 0, LANES * bytes);
    for (uint32_t i = 0; i < have; i++)
        memcpy(copy + i * bytes, from + i * m->row_bytes, bytes);
    return (struct rows){copy, bytes};
}

/* Sums of the columns before the stretch wait in the output. */
INLINE vf resume_rows(const struct tern_matmul *m, const struct panel_walk *walk, uint32_t token,
                      unsigned p)
{
    const uint32_t begin = p * LANES;
    if (walk->first || walk->rows <= begin)
        return vf_zero();
    const uint32_t n = walk->rows - begin < LANES ? walk->rows - begin : LANES;
    return vf_load_first(output_at(m, token, walk->row + begin), n);
}
INLINE void leave_rows(const struct tern_matmul *m, const struct panel_walk *walk, uint32_t token,
                       unsigned p, vf sum)
{
    const uint32_t begin = p * LANES;
    if (walk->rows <= begin)
        return;
    const uint32_t n = walk->rows - begin < LANES ? walk->rows - begin : LANES;
    if (walk->last)
        finish_rows(m, token, walk->row + begin, n, sum);
    else
        vf_store_first(output_at(m, token, walk->row + begin), n, sum);
}

typedef void (*panel_fn)(const struct tern_matmul *m, const struct panel_walk *walk,
                         uint8_t *scratch);

/* Calls `panel` for every block of rows and stretch of columns. The last block reaches back over
 * rows that are done rather than being small. */
INLINE void walk_panels(const struct tern_matmul *m, uint32_t begin, uint32_t end, uint8_t *scratch,
                        panel_fn panel)
{
    for (uint32_t row = begin; row < end; row += PANEL_ROWS) {
        if (end - row < PANEL_ROWS && end - begin >= PANEL_ROWS)
            row = end - PANEL_ROWS;
        struct panel_walk walk = {.row = row,
                                  .rows = end - row < PANEL_ROWS ? end - row : PANEL_ROWS,
                                  .ahead = after_rows(m, row, PANEL_ROWS, end)};
        for (uint32_t column = 0; column < m->columns; column += PANEL_COLUMNS) {
            const uint32_t left = m->columns - column;
            walk.column = column;
            walk.count = left < PANEL_COLUMNS ? left : PANEL_COLUMNS;
            walk.first = column == 0;
            walk.last = left <= PANEL_COLUMNS;
            panel(m, &walk, scratch);
        }
    }
}

/* ---- Tiles: a few tokens against a sub-block of a panel ---- */

/* Four activations of a token, for all rows. */
INLINE vi broadcast_act(const uint8_t *x)
{
    return vi_set1((int32_t)load_u32(x));
}

/* Which bits of the codes a pass over a tile takes. */
enum code_part { CODE_WHOLE, CODE_LOW, CODE_HIGH };

INLINE vi take_part(vi code, enum code_part part)
{
    if (part == CODE_WHOLE)
        return code;
    return vi_and(part == CODE_LOW ? code : vi_right(code, 4), vi_set1_byte(15));
}

/* dot_tile without a dot product instruction: sums stay in 16 bits for as many dwords as fit. */
INLINE void dot_tile_halves(unsigned limit, enum code_part part, unsigned dwords, unsigned tokens,
                            const vi (*code)[2], const uint8_t *x, size_t x_stride, vi sum[][2])
{
    const unsigned fit = 32767 / (2 * 128 * limit); /* 8, 4 or 2: a divisor of dwords, or more */
    const unsigned run = fit < dwords ? fit : dwords;
#pragma GCC unroll 4
    for (unsigned from = 0; from < dwords; from += run) {
        vi halves[TILE_TOKENS][2];
#pragma GCC unroll 8
        for (unsigned t = 0; t < tokens; t++)
            halves[t][0] = halves[t][1] = vi_zero();
#pragma GCC unroll 8
        for (unsigned i = 0; i < run; i++) {
            const vi code0 = take_part(code[from + i][0], part);
            const vi code1 = take_part(code[from + i][1], part);
#pragma GCC unroll 8
            for (unsigned t = 0; t < tokens; t++) {
                const vi v = broadcast_act(x + t * x_stride + 4 * (from + i));
                halves[t][0] = vi_dot_halves(halves[t][0], code0, v);
                halves[t][1] = vi_dot_halves(halves[t][1], code1, v);
            }
        }
#pragma GCC unroll 8
        for (unsigned t = 0; t < tokens; t++) {
            sum[t][0] = vi_add_halves(sum[t][0], halves[t][0]);
            sum[t][1] = vi_add_halves(sum[t][1], halves[t][1]);
        }
    }
}

INLINE void shift_tile(unsigned bits, unsigned tokens, vi sum[][2])
{
#pragma GCC unroll 8
    for (unsigned t = 0; t < tokens; t++) {
        sum[t][0] = vi_left(sum[t][0], (int)bits);
        sum[t][1] = vi_left(sum[t][1], (int)bits);
    }
}

INLINE void clear_tile(unsigned tokens, vi sum[][2])
{
#pragma GCC unroll 8
    for (unsigned t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = vi_zero();
}

/* The same for codes up to 255, whose products do not fit in pairs: their nibbles do. */
INLINE void dot_tile_bytes(unsigned dwords, unsigned tokens, const vi (*code)[2], const uint8_t *x,
                           size_t x_stride, vi sum[][2])
{
    vi own[TILE_TOKENS][2];
    clear_tile(tokens, own);
    dot_tile_halves(15, CODE_HIGH, dwords, tokens, code, x, x_stride, own);
    shift_tile(4, tokens, own);
    dot_tile_halves(15, CODE_LOW, dwords, tokens, code, x, x_stride, own);
#pragma GCC unroll 8
    for (unsigned t = 0; t < tokens; t++) {
        sum[t][0] = vi_add(sum[t][0], own[t][0]);
        sum[t][1] = vi_add(sum[t][1], own[t][1]);
    }
}

/* The sums of one byte section of the activations (codes, high or low bytes) of `tokens` (a
 * constant) tokens against `dwords` dwords of codes up to `limit`, added to sum. */
INLINE void dot_tile(unsigned limit, unsigned dwords, unsigned tokens, const vi (*code)[2],
                     const uint8_t *x, size_t x_stride, vi sum[][2])
{
#pragma GCC unroll 8
    for (unsigned i = 0; i < dwords; i++) {
        const vi code0 = code[i][0];
        const vi code1 = code[i][1];
#pragma GCC unroll 8
        for (unsigned t = 0; t < tokens; t++) {
            const vi v = broadcast_act(x + t * x_stride + 4 * i);
            sum[t][0] = vi_dot(sum[t][0], code0, v, limit);
            sum[t][1] = vi_dot(sum[t][1], code1, v, limit);
        }
    }
}

INLINE void dot_tile_any(unsigned limit, unsigned dwords, unsigned tokens, const vi (*code)[2],
                         const uint8_t *x, size_t x_stride, vi sum[][2])
{
    if (HAS_DOT)
        dot_tile(limit, dwords, tokens, code, x, x_stride, sum);
    else if (limit <= 127)
        dot_tile_halves(limit, CODE_WHOLE, dwords, tokens, code, x, x_stride, sum);
    else
        dot_tile_bytes(dwords, tokens, code, x, x_stride, sum);
}

/* The sums of codes times activations of either precision. */
INLINE void sum_tile(unsigned limit, unsigned bits, unsigned dwords, unsigned tokens,
                     const vi (*code)[2], const uint8_t *hi, const uint8_t *lo, size_t x_stride,
                     vi sum[][2])
{
    clear_tile(tokens, sum);
    dot_tile_any(limit, dwords, tokens, code, hi, x_stride, sum);
    if (bits == 16) {
        shift_tile(8, tokens, sum);
        dot_tile_any(limit, dwords, tokens, code, lo, x_stride, sum);
    }
}

/* ---- Groups of LANES rows ---- */

/* For groups of LANES rows that cover [begin, end), which holds at least LANES;
 * the last group overlaps the one before. */
#define FOR_ROW_GROUPS(row, begin, end)                                                            \
    for (uint32_t row = (begin); row < (end); row = next_group(row, end))

INLINE uint32_t next_group(uint32_t row, uint32_t end)
{
    if (row + LANES >= end)
        return end;
    return row + 2 * LANES <= end ? row + LANES : end - LANES;
}

#endif
