/*
 * The tensor graph in SSA form: values, and operations that each write new values. An operation is
 * an instruction (proto/plan.h) whose operands are still values instead of places in memory: passes
 * rewrite operations, and lower.c turns values into places at the end.
 *
 * Order matters: operations are kept in an order in which they can run. The cache is the only thing
 * that operations share without a value (KV_WRITE before ATTENTION of the same layer).
 */
#ifndef TERN_GRAPH_H
#define TERN_GRAPH_H

#include "coordinator/graph/compile.h"

/* A value's number; 0 = none. */
typedef uint32_t tern_ref;

/* The rows of the step that a value has. */
enum tern_row_kind { TERN_ALL_ROWS, TERN_OUTPUT_ROWS };

enum { TERN_NO_LAYER = 0xffff, TERN_LABEL_SIZE = 48, TERN_NO_TABLE = UINT32_MAX };

struct tern_graph_value {
    enum tern_row_kind rows;
    uint32_t columns;
    struct tern_act act; /* block 0: float32 */
};

struct tern_operation {
    struct tern_instruction code; /* all but operands, stage and label */
    tern_ref in[3], out[3];
    uint32_t rope_table; /* index into the graph's tables, or TERN_NO_TABLE */
    char label[TERN_LABEL_SIZE];
};

/* A maximal run of operations on one worker. */
struct tern_stage {
    enum tern_worker_kind { TERN_WORKER_CPU } worker;
    uint32_t begin, end; /* operations [begin, end) */
};

struct tern_graph {
    struct tern_graph_value *values; /* values[0] is no value */
    uint32_t value_count, value_capacity;
    struct tern_operation *operations;
    uint32_t operation_count, operation_capacity;
    struct tern_rope_table table[TERN_MAX_ROPE_TABLES];
    uint32_t tables;
    struct tern_stage stage[TERN_MAX_STAGES];
    uint32_t stages;
    tern_ref logits;
};

void tern_graph_init(struct tern_graph *graph);
void tern_graph_free(struct tern_graph *graph);

/* A new value without a shape (shapes.c infers it), or 0: out of memory. */
tern_ref tern_graph_value(struct tern_graph *graph);

/* Appends a copy of *operation. False: out of memory or more than TERN_MAX_INSTRUCTIONS. */
bool tern_graph_append(struct tern_graph *graph, const struct tern_operation *operation);

/* Removes operations whose op is TERN_OP_NONE; order is kept. */
void tern_graph_compact(struct tern_graph *graph);

/* Takes the operations out of `graph` for a pass that rewrites them one by one; the graph has none
 * afterwards. The caller frees the array. */
struct tern_operation *tern_graph_take(struct tern_graph *graph, uint32_t *count);

/* Who writes and reads each value, by operation index. Arrays of value_count; free with
 * tern_uses_free. Reading the logits from outside counts as one use. */
struct tern_uses {
    uint32_t *writer; /* index of the operation, or UINT32_MAX */
    uint32_t *count;  /* reads */
    uint32_t *first;  /* first reader, or UINT32_MAX */
    uint32_t *last;   /* last reader, or UINT32_MAX */
};
bool tern_uses_find(const struct tern_graph *graph, struct tern_uses *uses);
void tern_uses_free(struct tern_uses *uses);

/* Joins two labels: "attn q" and "attn k" give "attn q+k"; others "a+b". `into` may be `a`. */
void tern_label_join(char into[TERN_LABEL_SIZE], const char *a, const char *b);

#endif
