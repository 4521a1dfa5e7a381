/*
 * Quantized activations: a product whose weight type asks for them reads a QUANTIZE operation's
 * value instead of the floats. Each value is quantized once per form, however many products read
 * it.
 */
#include "coordinator/graph/passes.h"

#include <stdlib.h>

enum { FORMS = 2 }; /* blocks of 32 and of 256 values */

struct copies {
    tern_ref ref[FORMS];
};

static tern_ref *copy_of(struct copies *copies, struct tern_act act)
{
    return &copies->ref[act.block == 32 ? 0 : 1];
}

/* The value of `x` in the form `act`, made if it is not there yet. 0: out of memory. */
static tern_ref quantized(struct tern_graph *graph, struct copies *copies, tern_ref x,
                          struct tern_act act, uint16_t layer)
{
    tern_ref *copy = copy_of(copies, act);
    if (*copy != 0)
        return *copy;
    struct tern_operation op = {
        .code = {.op = TERN_OP_QUANTIZE, .layer = layer, .groups = 1, .act = act},
        .in = {x},
        .rope_table = TERN_NO_TABLE,
        .label = "quantize",
    };
    op.out[0] = tern_graph_value(graph);
    if (op.out[0] == 0 || !tern_graph_append(graph, &op))
        return 0;
    return *copy = op.out[0];
}

enum tern_status tern_insert_quantize(struct tern_graph *graph, enum tern_precision precision,
                                      struct tern_error *error)
{
    struct copies *copies = calloc(graph->value_count, sizeof *copies);
    uint32_t count;
    struct tern_operation *operations = tern_graph_take(graph, &count);
    bool fine = copies != NULL;
    for (uint32_t i = 0; fine && i < count; i++) {
        struct tern_operation *op = &operations[i];
        if (op->code.op == TERN_OP_MATMUL)
            op->code.act = tern_type_act(op->code.weight[0].type, precision);
        if (op->code.op == TERN_OP_MATMUL && op->code.act.block != 0) {
            op->in[0] =
                quantized(graph, &copies[op->in[0]], op->in[0], op->code.act, op->code.layer);
            fine = op->in[0] != 0;
        }
        fine = fine && tern_graph_append(graph, op);
    }
    free(operations);
    free(copies);
    return fine ? TERN_OK : tern_fail(error, TERN_NO_MEMORY, "no memory for the model's graph");
}
