/*
 * Output rows: the head needs only those rows of a step whose logits somebody asked for. Walking
 * backwards, a value is needed on all rows if an operation that works on all rows reads it;
 * whatever row-wise operation writes a value that only output rows need is done on output rows, and
 * a GATHER stands where the two kinds meet. So in the last layer all that follows attention runs on
 * output rows only, and no family has to say so.
 */
#include "coordinator/graph/passes.h"

#include <stdlib.h>

/* Each row of the output depends on the same row of the inputs alone, and not on its position. */
static bool is_row_wise(uint16_t op)
{
    return op == TERN_OP_NORM || op == TERN_OP_MATMUL || op == TERN_OP_BIAS || op == TERN_OP_GLU ||
           op == TERN_OP_ADD;
}

struct narrowing {
    struct tern_graph *graph;
    bool *on_all;       /* per value: some reader needs all rows */
    tern_ref *gathered; /* per value of all rows: its output rows, 0 = not yet gathered */
};

static void find_needs(const struct tern_operation *operations, uint32_t count, bool *on_all)
{
    for (uint32_t i = count; i-- > 0;) {
        const struct tern_operation *op = &operations[i];
        const bool narrow =
            op->code.op == TERN_OP_ARGMAX || (is_row_wise(op->code.op) && !on_all[op->out[0]]);
        for (int k = 0; k < 3; k++)
            if (op->in[k] != 0 && !narrow)
                on_all[op->in[k]] = true;
    }
}

/* The output rows of `x`, which has all rows. 0: out of memory. */
static tern_ref gather(struct narrowing *n, tern_ref x, uint16_t layer)
{
    if (n->gathered[x] != 0)
        return n->gathered[x];
    struct tern_operation op = {
        .code = {.op = TERN_OP_GATHER, .layer = layer, .groups = 1},
        .in = {x},
        .rope_table = TERN_NO_TABLE,
        .label = "gather output rows",
    };
    op.out[0] = tern_graph_value(n->graph);
    if (op.out[0] == 0 || !tern_graph_append(n->graph, &op))
        return 0;
    return n->gathered[x] = op.out[0];
}

static bool rewrite(struct narrowing *n, struct tern_operation *op, const bool *narrow_value)
{
    const bool narrow =
        op->code.op == TERN_OP_ARGMAX || (is_row_wise(op->code.op) && narrow_value[op->out[0]]);
    for (int k = 0; narrow && k < 3; k++) {
        if (op->in[k] == 0 || narrow_value[op->in[k]])
            continue;
        op->in[k] = gather(n, op->in[k], op->code.layer);
        if (op->in[k] == 0)
            return false;
    }
    return tern_graph_append(n->graph, op);
}

enum tern_status tern_narrow_rows(struct tern_graph *graph, struct tern_error *error)
{
    const uint32_t values = graph->value_count;
    struct narrowing n = {.graph = graph,
                          .on_all = calloc(values, sizeof *n.on_all),
                          .gathered = calloc(values, sizeof *n.gathered)};
    bool *narrow_value = calloc(values, sizeof *narrow_value);
    uint32_t count;
    struct tern_operation *operations = tern_graph_take(graph, &count);
    bool fine = n.on_all != NULL && n.gathered != NULL && narrow_value != NULL;
    if (fine) {
        find_needs(operations, count, n.on_all);
        for (uint32_t i = 0; i < count; i++)
            if (is_row_wise(operations[i].code.op))
                narrow_value[operations[i].out[0]] = !n.on_all[operations[i].out[0]];
    }
    for (uint32_t i = 0; fine && i < count; i++)
        fine = rewrite(&n, &operations[i], narrow_value);
    free(operations);
    free(narrow_value);
    free(n.gathered);
    free(n.on_all);
    return fine ? TERN_OK : tern_fail(error, TERN_NO_MEMORY, "no memory for the model's graph");
}
