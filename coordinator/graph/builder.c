/*
 * Operations of the graph, one function each: fills what the operation is, appends it, and returns
 * the new value. Shapes are inferred later (shapes.c).
 */
#include "coordinator/graph/builder.h"

#include "coordinator/families/family.h"
#include <stdio.h>

void tern_build_layer(struct tern_builder *b, uint32_t layer)
{
    b->layer = (uint16_t)layer;
}

static struct tern_operation operation(const struct tern_builder *b, enum tern_op op,
                                       const char *label)
{
    struct tern_operation new = {.code = {.op = op, .layer = b->layer, .groups = 1},
                                 .rope_table = TERN_NO_TABLE};
    snprintf(new.label, sizeof new.label, "%s", label);
    return new;
}

/* Appends; `writes`: it makes a value, which is returned. */
static tern_ref append(struct tern_builder *b, struct tern_operation *op, bool writes)
{
    if (b->status != TERN_OK)
        return 0;
    if (writes)
        op->out[0] = tern_graph_value(b->graph);
    if ((writes && op->out[0] == 0) || !tern_graph_append(b->graph, op)) {
        b->status = tern_fail(b->error, TERN_NO_MEMORY,
                              "no memory for the graph of a model of %u layers", b->hyper->layers);
        return 0;
    }
    return op->out[0];
}

tern_ref tern_build_embed(struct tern_builder *b, struct tern_weight table, float factor)
{
    struct tern_operation op = operation(b, TERN_OP_EMBED, "embedding");
    op.code.weight[0] = table;
    op.code.weights = 1;
    op.code.factor = factor;
    return append(b, &op, true);
}

tern_ref tern_build_norm(struct tern_builder *b, tern_ref x, struct tern_weight gain,
                         uint32_t groups, const char *label)
{
    struct tern_operation op = operation(b, TERN_OP_NORM, label);
    op.in[0] = x;
    op.code.weight[0] = gain;
    op.code.weights = 1;
    op.code.groups = groups;
    op.code.epsilon = b->hyper->epsilon;
    return append(b, &op, true);
}

tern_ref tern_build_matmul(struct tern_builder *b, tern_ref x, struct tern_weight weight,
                           const char *label)
{
    struct tern_operation op = operation(b, TERN_OP_MATMUL, label);
    op.in[0] = x;
    op.code.weight[0] = weight;
    op.code.weights = 1;
    return append(b, &op, true);
}

tern_ref tern_build_bias(struct tern_builder *b, tern_ref x, struct tern_weight bias,
                         const char *label)
{
    struct tern_operation op = operation(b, TERN_OP_BIAS, label);
    op.in[0] = x;
    op.code.weight[0] = bias;
    op.code.weights = 1;
    return append(b, &op, true);
}

tern_ref tern_build_rope(struct tern_builder *b, tern_ref x, uint32_t heads, uint32_t table,
                         const char *label)
{
    struct tern_operation op = operation(b, TERN_OP_ROPE, label);
    op.in[0] = x;
    op.rope_table = table;
    op.code.groups = heads;
    op.code.head_size = b->hyper->head_size;
    op.code.rope_pairs = b->hyper->family->rope_pairs;
    op.code.rope_size = b->hyper->rope_size;
    return append(b, &op, true);
}

/* What KV_WRITE and ATTENTION say about heads. The cache has a layer per layer of the model. */
static void set_heads(const struct tern_builder *b, struct tern_operation *op)
{
    op->code.heads = b->hyper->heads;
    op->code.kv_heads = b->hyper->kv_heads;
    op->code.head_size = b->hyper->head_size;
    op->code.kv_layer = b->layer;
}

void tern_build_kv_write(struct tern_builder *b, tern_ref keys, tern_ref values)
{
    struct tern_operation op = operation(b, TERN_OP_KV_WRITE, "attn kv write");
    op.in[0] = keys;
    op.in[1] = values;
    set_heads(b, &op);
    append(b, &op, false);
}

tern_ref tern_build_attention(struct tern_builder *b, tern_ref queries, uint32_t window)
{
    struct tern_operation op = operation(b, TERN_OP_ATTENTION, "attention");
    op.in[0] = queries;
    set_heads(b, &op);
    op.code.window = window;
    op.code.scale = b->hyper->attention_scale;
    return append(b, &op, true);
}

tern_ref tern_build_glu(struct tern_builder *b, enum tern_activation activation, tern_ref gate,
                        tern_ref up)
{
    struct tern_operation op = operation(b, TERN_OP_GLU, "ffn glu");
    op.in[0] = gate;
    op.in[1] = up;
    op.code.activation = activation;
    return append(b, &op, true);
}

tern_ref tern_build_add(struct tern_builder *b, tern_ref x, tern_ref y, const char *label)
{
    struct tern_operation op = operation(b, TERN_OP_ADD, label);
    op.in[0] = x;
    op.in[1] = y;
    return append(b, &op, true);
}

void tern_build_logits(struct tern_builder *b, tern_ref logits)
{
    struct tern_operation op = operation(b, TERN_OP_ARGMAX, "argmax");
    op.in[0] = logits;
    append(b, &op, false);
    b->graph->logits = logits;
}

uint32_t tern_build_rope_table(struct tern_builder *b, double base, double linear,
                               int64_t factors_tensor)
{
    struct tern_graph *graph = b->graph;
    if (graph->tables >= TERN_MAX_ROPE_TABLES) {
        b->status =
            tern_fail(b->error, TERN_FAILED, "more than %d RoPE tables", TERN_MAX_ROPE_TABLES);
        return TERN_NO_TABLE;
    }
    graph->table[graph->tables] = (struct tern_rope_table){.base = base,
                                                           .linear = linear,
                                                           .size = b->hyper->rope_size,
                                                           .factors_tensor = factors_tensor};
    return graph->tables++;
}
