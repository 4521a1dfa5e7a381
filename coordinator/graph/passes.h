/*
 * The passes of the compiler, in the order in which compile.c runs them. Each takes a graph whose
 * operations are in a possible order and leaves it so. A pass fails for want of memory, or with
 * TERN_FAILED and the operation's name where the graph itself is wrong, which no file can cause.
 */
#ifndef TERN_PASSES_H
#define TERN_PASSES_H

#include "coordinator/graph/graph.h"

/* Infers the shape of every value from those before it, and `columns` of every operation; checks
 * that operands fit. Run again after each rewriting pass. */
enum tern_status tern_infer_shapes(struct tern_graph *graph, struct tern_error *error);

/* Computes what only the output rows need on output rows only: inserts GATHER as early as all
 * readers allow. Needs shapes. */
enum tern_status tern_narrow_rows(struct tern_graph *graph, struct tern_error *error);

/* Gives every product the form of activations its weight type asks for: inserts one QUANTIZE per
 * (value, form), shared by all products that read it. Needs shapes. */
enum tern_status tern_insert_quantize(struct tern_graph *graph, enum tern_precision precision,
                                      struct tern_error *error);

/* Joins operations into the plan's fused ones. Never changes a value, only where it lives. */
enum tern_status tern_fuse(struct tern_graph *graph, struct tern_error *error);

/* Assigns every operation to a worker and cuts the graph into stages. */
enum tern_status tern_place(struct tern_graph *graph, struct tern_error *error);

/* Where values lie in the activations segment. */
struct tern_memory_plan {
    uint64_t *offset; /* per value */
    uint32_t *stride; /* per value, bytes from row to row; 0: the value has no place */
    uint64_t bytes;   /* of the segment's data */
    uint32_t buffers; /* different places */
    uint32_t max_rows, max_outputs;
};

/* Plans the activations segment. `reuse` false: every value has a place of its own. The logits
 * always have. Needs stages; free with tern_memory_plan_free. */
enum tern_status tern_plan_memory(const struct tern_graph *graph, uint32_t max_rows,
                                  uint32_t max_outputs, bool reuse, struct tern_memory_plan *plan,
                                  struct tern_error *error);
void tern_memory_plan_free(struct tern_memory_plan *plan);

/* Writes the plan: compiled->plan and plan_bytes, from a placed graph, its memory plan, and what
 * compiled already holds (hyper, weight_offsets, tables). */
enum tern_status tern_lower(const struct tern_graph *graph, const struct tern_memory_plan *memory,
                            const struct tern_kv_layout *kv, uint32_t context,
                            struct tern_compiled *compiled, struct tern_error *error);

#endif
