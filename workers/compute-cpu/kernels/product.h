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

/* Products of fewer tokens read the weights once per token, in groups of rows that stay in L1;
 * more tokens unpack them into a panel first. */
enum { PANEL_TOKENS = 4, PANEL_COLUMNS = 768, PANEL_ROWS = 2 * LANES };
/* Tokens of a tile: accumulators for PANEL_ROWS rows of each must fit the registers. */
enum { TILE_TOKENS = LANES == 16 ? 6 : 3 };

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

/* What is read after the group of rows that begins at `row`. */
INLINE const uint8_t *after_group(const struct tern_matmul *m, uint32_t row, uint32_t end)
{
    if (row + LANES >= end && m->next != NULL)
        return m->next;
    return m->weights + (row + (uint64_t)LANES) * m->row_bytes;
}

/* ---- Panels: LANES rows by a stretch of columns, unpacked ---- */

struct panel_walk {
    uint32_t row, rows;     /* of the matrix; at most PANEL_ROWS */
    uint32_t column, count; /* the stretch */
    bool first, last;       /* of the row */
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
                                  .rows = end - row < PANEL_ROWS ? end - row : PANEL_ROWS};
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

/* Calls decode(row) for groups of LANES rows that cover [begin, end), which holds at least LANES;
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
