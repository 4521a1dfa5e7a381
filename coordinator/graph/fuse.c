/*
 * Fusion: neighbouring operations that the plan can do in one pass over memory become one. A fused
 * operation computes the same values by the same operations; what disappears is a place in memory,
 * and therefore only values that nobody else reads may disappear.
 *
 * Each rule below is one function that looks at one operation and joins it with those around it;
 * joined operations become TERN_OP_NONE and are removed at the end of the rule's walk.
 */
#include "coordinator/graph/passes.h"

#include <string.h>

struct fusion {
    struct tern_graph *graph;
    struct tern_uses uses;
};

/* The operation that writes `value` if it is an `op` and the value has only one reader. */
static struct tern_operation *sole_writer(const struct fusion *f, tern_ref value, enum tern_op op)
{
    const uint32_t index = f->uses.writer[value];
    if (value == 0 || index == UINT32_MAX || f->uses.count[value] != 1)
        return NULL;
    struct tern_operation *writer = &f->graph->operations[index];
    return writer->code.op == op ? writer : NULL;
}

static void remove_operation(struct tern_operation *op)
{
    op->code.op = TERN_OP_NONE;
}

/* BIAS of a product: the product adds it. */
static void fuse_bias(struct fusion *f, uint32_t index)
{
    struct tern_operation *bias = &f->graph->operations[index];
    if (bias->code.op != TERN_OP_BIAS)
        return;
    struct tern_operation *product = sole_writer(f, bias->in[0], TERN_OP_MATMUL);
    if (product == NULL || product->code.weights != 1 || product->code.bias[0].rows != 0)
        return;
    product->code.bias[0] = bias->code.weight[0];
    product->out[0] = bias->out[0];
    f->uses.writer[product->out[0]] = (uint32_t)(product - f->graph->operations);
    remove_operation(bias);
}

/* GLU of two products of one input: gate and up in one call, without their own places. */
static void fuse_glu(struct fusion *f, uint32_t index)
{
    struct tern_operation *glu = &f->graph->operations[index];
    if (glu->code.op != TERN_OP_GLU)
        return;
    struct tern_operation *gate = sole_writer(f, glu->in[0], TERN_OP_MATMUL);
    struct tern_operation *up = sole_writer(f, glu->in[1], TERN_OP_MATMUL);
    if (gate == NULL || up == NULL || gate == up || gate->in[0] != up->in[0] ||
        gate->code.bias[0].rows != 0 || up->code.bias[0].rows != 0)
        return;
    glu->code.op = TERN_OP_MATMUL_GLU;
    glu->code.weight[0] = gate->code.weight[0];
    glu->code.weight[1] = up->code.weight[0];
    glu->code.weights = 2;
    glu->code.act = gate->code.act;
    glu->in[0] = gate->in[0];
    glu->in[1] = 0;
    tern_label_join(glu->label, gate->label, up->label);
    remove_operation(gate);
    remove_operation(up);
}

/* Products of one layer that read one value: one call with up to three weights. */
static void fuse_products(struct fusion *f, uint32_t index)
{
    struct tern_operation *first = &f->graph->operations[index];
    for (uint32_t i = index + 1; i < f->graph->operation_count; i++) {
        struct tern_operation *next = &f->graph->operations[i];
        if (first->code.op != TERN_OP_MATMUL || first->code.weights == TERN_OP_WEIGHTS ||
            next->code.layer != first->code.layer)
            return;
        if (next->code.op != TERN_OP_MATMUL || next->in[0] != first->in[0] ||
            next->code.weights != 1)
            continue;
        const uint32_t k = first->code.weights++;
        first->code.weight[k] = next->code.weight[0];
        first->code.bias[k] = next->code.bias[0];
        first->out[k] = next->out[0];
        tern_label_join(first->label, first->label, next->label);
        remove_operation(next);
    }
}

/* QUANTIZE of a norm that nobody else reads. */
static void fuse_norm_quantize(struct fusion *f, uint32_t index)
{
    struct tern_operation *quantize = &f->graph->operations[index];
    if (quantize->code.op != TERN_OP_QUANTIZE)
        return;
    struct tern_operation *norm = sole_writer(f, quantize->in[0], TERN_OP_NORM);
    if (norm == NULL || norm->code.groups != 1)
        return;
    norm->code.op = TERN_OP_NORM_QUANTIZE;
    norm->code.act = quantize->code.act;
    norm->out[0] = quantize->out[0];
    remove_operation(quantize);
}

/* The norm that first reads a sum is done with the sum, quantized if it was. */
static void fuse_add_norm(struct fusion *f, uint32_t index)
{
    struct tern_operation *add = &f->graph->operations[index];
    if (add->code.op != TERN_OP_ADD || f->uses.first[add->out[0]] == UINT32_MAX)
        return;
    struct tern_operation *norm = &f->graph->operations[f->uses.first[add->out[0]]];
    const bool is_norm = norm->code.op == TERN_OP_NORM || norm->code.op == TERN_OP_NORM_QUANTIZE;
    if (!is_norm || norm->code.groups != 1)
        return;
    add->code.op = TERN_OP_ADD_NORM;
    add->code.weight[0] = norm->code.weight[0];
    add->code.weights = 1;
    add->code.epsilon = norm->code.epsilon;
    add->code.act = norm->code.act;
    add->out[1] = norm->out[0];
    tern_label_join(add->label, add->label, norm->label);
    remove_operation(norm);
}

static bool same_rotation(const struct tern_operation *q, const struct tern_operation *k)
{
    return q->rope_table == k->rope_table && q->code.rope_pairs == k->code.rope_pairs &&
           q->code.rope_size == k->code.rope_size && q->code.head_size == k->code.head_size;
}

/* The rotated queries that the attention after KV_WRITE `index` reads, if they can be joined. */
static struct tern_operation *find_query_rope(const struct fusion *f, uint32_t index)
{
    const struct tern_graph *graph = f->graph;
    const struct tern_operation *write = &graph->operations[index];
    for (uint32_t i = index + 1; i < graph->operation_count; i++) {
        const struct tern_operation *op = &graph->operations[i];
        if (op->code.layer != write->code.layer)
            return NULL;
        if (op->code.op == TERN_OP_ATTENTION && op->code.kv_layer == write->code.kv_layer) {
            struct tern_operation *rope = sole_writer(f, op->in[0], TERN_OP_ROPE);
            const bool before = rope != NULL && rope < write;
            return before ? rope : NULL;
        }
    }
    return NULL;
}

/* The norm of each head before `rope`, or NULL; a norm over all heads at once is none. */
static struct tern_operation *find_head_norm(const struct fusion *f,
                                             const struct tern_operation *rope)
{
    struct tern_operation *norm = sole_writer(f, rope->in[0], TERN_OP_NORM);
    return norm != NULL && norm->code.groups == rope->code.groups ? norm : NULL;
}

/* Head norms and RoPE of q and k, and the write to the cache. Stands where KV_WRITE stood. */
static void fuse_cache(struct fusion *f, uint32_t index)
{
    struct tern_operation *write = &f->graph->operations[index];
    if (write->code.op != TERN_OP_KV_WRITE)
        return;
    struct tern_operation *k = sole_writer(f, write->in[0], TERN_OP_ROPE);
    struct tern_operation *q = find_query_rope(f, index);
    if (k == NULL || q == NULL || !same_rotation(q, k))
        return;
    struct tern_operation *q_norm = find_head_norm(f, q);
    struct tern_operation *k_norm = find_head_norm(f, k);
    if ((q_norm == NULL) != (k_norm == NULL) ||
        (q_norm != NULL && q_norm->code.epsilon != k_norm->code.epsilon))
        return;
    struct tern_operation fused = *write;
    fused.code.op = TERN_OP_QKV_ROPE_WRITE;
    fused.code.heads = q->code.groups;
    fused.code.rope_pairs = q->code.rope_pairs;
    fused.code.rope_size = q->code.rope_size;
    fused.rope_table = q->rope_table;
    fused.in[0] = q_norm != NULL ? q_norm->in[0] : q->in[0];
    fused.in[1] = k_norm != NULL ? k_norm->in[0] : k->in[0];
    fused.in[2] = write->in[1];
    fused.out[0] = q->out[0];
    if (q_norm != NULL) {
        fused.code.weight[0] = q_norm->code.weight[0];
        fused.code.weight[1] = k_norm->code.weight[0];
        fused.code.weights = 2;
        fused.code.epsilon = q_norm->code.epsilon;
        remove_operation(q_norm);
        remove_operation(k_norm);
    }
    strcpy(fused.label, q_norm != NULL ? "attn norm+rope+kv write" : "attn rope+kv write");
    remove_operation(q);
    remove_operation(k);
    *write = fused;
}

/* Walks the graph once with one rule. */
static enum tern_status walk(struct tern_graph *graph, void (*rule)(struct fusion *, uint32_t),
                             struct tern_error *error)
{
    struct fusion f = {.graph = graph};
    if (!tern_uses_find(graph, &f.uses))
        return tern_fail(error, TERN_NO_MEMORY, "no memory for the model's graph");
    for (uint32_t i = 0; i < graph->operation_count; i++)
        rule(&f, i);
    tern_uses_free(&f.uses);
    tern_graph_compact(graph);
    return TERN_OK;
}

enum tern_status tern_fuse(struct tern_graph *graph, struct tern_error *error)
{
    /* Products take biases before they join; norms are quantized before they join a sum. */
    static void (*const rules[])(struct fusion *, uint32_t) = {
        fuse_bias, fuse_glu, fuse_products, fuse_norm_quantize, fuse_add_norm, fuse_cache,
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const enum tern_status status = walk(graph, rules[i], error);
        if (status != TERN_OK)
            return status;
    }
    return TERN_OK;
}
