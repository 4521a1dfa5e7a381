/*
 * The RoPE tables of a loaded model: frequencies from base, size and the file's own factors, rows
 * of {cos, sin} written into the tables segment as positions come into use. Workers only read them.
 */
#ifndef TERN_ROPE_TABLES_H
#define TERN_ROPE_TABLES_H

#include "coordinator/graph/compile.h"

struct tern_rope_tables {
    struct tern_segment segment; /* tables, writable */
    uint32_t tables, context, filled;
    struct {
        double *frequency;
        uint32_t count;
        uint64_t offset, stride;
    } table[TERN_MAX_ROPE_TABLES];
};

/* Takes factors from the weights (mapped, sealed). TERN_BAD_MODEL if one is not finite and > 0.
 * `segment` is taken over, also on failure; free with tern_rope_tables_close. */
enum tern_status tern_rope_tables_open(struct tern_rope_tables *rope,
                                       const struct tern_segment *segment,
                                       const struct tern_compiled *compiled,
                                       const struct tern_catalog *catalog,
                                       const struct tern_segment *weights, uint32_t context,
                                       struct tern_error *error);
void tern_rope_tables_close(struct tern_rope_tables *rope);

/* Fills the rows of all positions below `positions` (cut at the context). */
void tern_rope_tables_reach(struct tern_rope_tables *rope, uint32_t positions);

#endif
