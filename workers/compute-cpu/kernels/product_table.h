/*
 * The end of a file of products, the same for all sizes of blocks: a panel against all its tokens,
 * and the functions of the table. The file has defined BLOCK, PANEL_TOKENS, struct block,
 * unpack_block, multiply_tile and multiply_few; PRODUCTS(type) then defines a type's function.
 */
#ifndef TERN_KERNELS_PRODUCT_TABLE_H
#define TERN_KERNELS_PRODUCT_TABLE_H

#include "workers/compute-cpu/kernels/product.h"

INLINE void multiply_panel(enum tern_type type, unsigned bits, const struct tern_matmul *m,
                           const struct panel_walk *walk, uint8_t *scratch)
{
    struct block *panel = (struct block *)(void *)scratch;
    const size_t bytes = block_bytes(type);
    const uint32_t blocks = walk->count / BLOCK;
    uint8_t *copy = scratch + (PANEL_COLUMNS / BLOCK) * sizeof *panel;
    const uint8_t *ahead = walk->ahead + walk->column / BLOCK * PANEL_ROWS * bytes;
    for (unsigned p = 0; p < 2; p++) {
        struct rows rows =
            panel_rows(m, walk, p, walk->column / BLOCK * bytes, blocks * bytes, copy);
        for (uint32_t b = 0; b < blocks; b++) {
            prefetch(ahead, LANES * bytes);
            ahead += LANES * bytes;
            unpack_block(type, rows, p, panel + b);
            rows.base += bytes;
        }
    }
    const struct tern_act_layout layout = tern_act_layout(m->act, m->columns);
    for (uint32_t token = 0, n; token < m->tokens; token += n) {
        n = tile_tokens(m->tokens - token);
        const struct act_row x = view_act(m, layout, token);
        if (n == TILE_TOKENS)
            multiply_tile(type, bits, TILE_TOKENS, m, walk, panel, x, token);
        else if (n == TILE_MIDDLE)
            multiply_tile(type, bits, TILE_MIDDLE, m, walk, panel, x, token);
        else if (n == 2)
            multiply_tile(type, bits, 2, m, walk, panel, x, token);
        else
            multiply_tile(type, bits, 1, m, walk, panel, x, token);
    }
}

/* ---- The table's functions ---- */

#define PRODUCT(type, bits)                                                                        \
    static void panel_##type##_##bits(const struct tern_matmul *m, const struct panel_walk *walk,  \
                                      uint8_t *scratch)                                            \
    {                                                                                              \
        multiply_panel(TERN_##type, bits, m, walk, scratch);                                       \
    }                                                                                              \
    static void few_##type##_##bits(const struct tern_matmul *m, uint32_t begin, uint32_t end)     \
    {                                                                                              \
        if (is_small_group(m))                                                                     \
            multiply_few(TERN_##type, bits, true, m, begin, end);                                  \
        else                                                                                       \
            multiply_few(TERN_##type, bits, false, m, begin, end);                                 \
    }
#define PRODUCTS(type)                                                                             \
    PRODUCT(type, 8)                                                                               \
    PRODUCT(type, 16)                                                                              \
    void TIER(multiply_##type)(const struct tern_matmul *m, uint32_t begin, uint32_t end,          \
                               uint8_t *scratch)                                                   \
    {                                                                                              \
        const bool high = m->act.bits == 16;                                                       \
        if (m->tokens < PANEL_TOKENS && end - begin >= LANES)                                      \
            (high ? few_##type##_16 : few_##type##_8)(m, begin, end);                              \
        else                                                                                       \
            walk_panels(m, begin, end, scratch, high ? panel_##type##_16 : panel_##type##_8);      \
    }

#endif
