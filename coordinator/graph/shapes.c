/*
 * Shape inference: every value's rows, columns and form follow from the operation that writes it.
 * What an operation requires of its operands is checked here once, for built and for fused graphs.
 */
#include "coordinator/graph/passes.h"

/* The value of operand k; values[0], all zero, if it is absent. */
static const struct tern_graph_value *input(const struct tern_graph *graph,
                                            const struct tern_operation *op, int k)
{
    return &graph->values[op->in[k]];
}

/* An output with in[0]'s rows. */
static void shape(struct tern_graph *graph, const struct tern_operation *op, int k,
                  uint32_t columns, struct tern_act act)
{
    graph->values[op->out[k]] = (struct tern_graph_value){
        .rows = input(graph, op, 0)->rows, .columns = columns, .act = act};
}

static const struct tern_act plain = {0, 0};

static bool is_plain(const struct tern_graph_value *value, uint32_t columns)
{
    return value->columns == columns && value->act.block == 0;
}

static bool infer_embed(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = op->code.weight[0].columns;
    graph->values[op->out[0]] =
        (struct tern_graph_value){.rows = TERN_ALL_ROWS, .columns = op->code.columns};
    return true;
}

static bool infer_norm(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = op->code.weight[0].columns;
    const uint32_t columns = op->code.columns * op->code.groups;
    shape(graph, op, 0, columns, op->code.op == TERN_OP_NORM ? plain : op->code.act);
    return is_plain(input(graph, op, 0), columns);
}

static bool infer_quantize(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = input(graph, op, 0)->columns;
    shape(graph, op, 0, op->code.columns, op->code.act);
    return input(graph, op, 0)->act.block == 0 && op->code.act.block != 0 &&
           op->code.columns % op->code.act.block == 0;
}

static bool infer_matmul(struct tern_graph *graph, struct tern_operation *op)
{
    const struct tern_graph_value *x = input(graph, op, 0);
    const bool glu = op->code.op == TERN_OP_MATMUL_GLU;
    op->code.columns = x->columns;
    bool fits = x->act.block == op->code.act.block && x->act.bits == op->code.act.bits;
    for (uint32_t k = 0; k < op->code.weights; k++) {
        const struct tern_weight *weight = &op->code.weight[k], *bias = &op->code.bias[k];
        fits = fits && weight->columns == x->columns &&
               (bias->rows == 0 || bias->columns == weight->rows);
        if (!glu)
            shape(graph, op, (int)k, weight->rows, plain);
    }
    if (!glu)
        return fits;
    shape(graph, op, 0, op->code.weight[0].rows, plain);
    return fits && op->code.weight[0].rows == op->code.weight[1].rows;
}

/* One input, the same shape out. */
static bool infer_same(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = input(graph, op, 0)->columns;
    shape(graph, op, 0, op->code.columns, plain);
    const bool bias_fits =
        op->code.op != TERN_OP_BIAS || op->code.weight[0].columns == op->code.columns;
    return bias_fits && input(graph, op, 0)->act.block == 0;
}

/* Two inputs of one shape. */
static bool infer_pair(struct tern_graph *graph, struct tern_operation *op)
{
    const struct tern_graph_value *x = input(graph, op, 0), *y = input(graph, op, 1);
    op->code.columns = x->columns;
    const bool fits = is_plain(x, x->columns) && is_plain(y, x->columns) && x->rows == y->rows;
    shape(graph, op, 0, op->code.columns, plain);
    if (op->code.op != TERN_OP_ADD_NORM)
        return fits;
    shape(graph, op, 1, op->code.columns, op->code.act);
    return fits && op->code.weight[0].columns == op->code.columns;
}

static bool infer_rope(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = op->code.head_size;
    const uint32_t columns = op->code.head_size * op->code.groups;
    shape(graph, op, 0, columns, plain);
    return is_plain(input(graph, op, 0), columns) && op->code.rope_size <= op->code.head_size &&
           op->rope_table < graph->tables &&
           graph->table[op->rope_table].size == op->code.rope_size;
}

static bool infer_kv_write(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = op->code.kv_heads * op->code.head_size;
    return is_plain(input(graph, op, 0), op->code.columns) &&
           is_plain(input(graph, op, 1), op->code.columns);
}

static bool infer_attention(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = op->code.heads * op->code.head_size;
    shape(graph, op, 0, op->code.columns, plain);
    return is_plain(input(graph, op, 0), op->code.columns);
}

static bool infer_gather(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = input(graph, op, 0)->columns;
    graph->values[op->out[0]] =
        (struct tern_graph_value){.rows = TERN_OUTPUT_ROWS, .columns = op->code.columns};
    return input(graph, op, 0)->act.block == 0 && input(graph, op, 0)->rows == TERN_ALL_ROWS;
}

static bool infer_argmax(struct tern_graph *graph, struct tern_operation *op)
{
    op->code.columns = input(graph, op, 0)->columns;
    return input(graph, op, 0)->act.block == 0;
}

static bool infer_qkv(struct tern_graph *graph, struct tern_operation *op)
{
    const uint32_t keys = op->code.kv_heads * op->code.head_size;
    op->code.columns = op->code.heads * op->code.head_size;
    shape(graph, op, 0, op->code.columns, plain);
    return is_plain(input(graph, op, 0), op->code.columns) && is_plain(input(graph, op, 1), keys) &&
           is_plain(input(graph, op, 2), keys) && op->rope_table < graph->tables;
}

static bool (*const infer[TERN_OPS])(struct tern_graph *, struct tern_operation *) = {
    [TERN_OP_EMBED] = infer_embed,       [TERN_OP_NORM] = infer_norm,
    [TERN_OP_QUANTIZE] = infer_quantize, [TERN_OP_MATMUL] = infer_matmul,
    [TERN_OP_BIAS] = infer_same,         [TERN_OP_ROPE] = infer_rope,
    [TERN_OP_KV_WRITE] = infer_kv_write, [TERN_OP_ATTENTION] = infer_attention,
    [TERN_OP_GLU] = infer_pair,          [TERN_OP_ADD] = infer_pair,
    [TERN_OP_GATHER] = infer_gather,     [TERN_OP_ARGMAX] = infer_argmax,
    [TERN_OP_ADD_NORM] = infer_pair,     [TERN_OP_NORM_QUANTIZE] = infer_norm,
    [TERN_OP_MATMUL_GLU] = infer_matmul, [TERN_OP_QKV_ROPE_WRITE] = infer_qkv,
};

enum tern_status tern_infer_shapes(struct tern_graph *graph, struct tern_error *error)
{
    for (uint32_t i = 1; i < graph->value_count; i++)
        graph->values[i] = (struct tern_graph_value){0};
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        struct tern_operation *op = &graph->operations[i];
        const bool known = op->code.op < TERN_OPS && infer[op->code.op] != NULL;
        if (!known || !infer[op->code.op](graph, op))
            return tern_fail(error, TERN_FAILED,
                             "graph: operands of operation %u, \"%s\" of layer %u, do not fit", i,
                             op->label, op->code.layer);
    }
    return TERN_OK;
}
