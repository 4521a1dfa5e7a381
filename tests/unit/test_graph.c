/* coordinator/graph: single passes on graphs made by hand. */
#include "coordinator/graph/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct tern_error error;
static struct tern_graph graph;

static int begin(void **state)
{
    (void)state;
    tern_graph_init(&graph);
    return 0;
}

static int end(void **state)
{
    (void)state;
    tern_graph_free(&graph);
    return 0;
}

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TERN_OK)                                                                     \
            fail_msg("%s", error.message);                                                         \
    } while (0)

static struct tern_operation *add(enum tern_op op, const char *label, tern_ref a, tern_ref b)
{
    struct tern_operation new = {.code = {.op = op, .groups = 1, .layer = TERN_NO_LAYER},
                                 .in = {a, b},
                                 .rope_table = TERN_NO_TABLE};
    snprintf(new.label, sizeof new.label, "%s", label);
    if (op != TERN_OP_KV_WRITE && op != TERN_OP_ARGMAX)
        new.out[0] = tern_graph_value(&graph);
    assert_true(tern_graph_append(&graph, &new));
    return &graph.operations[graph.operation_count - 1];
}

static tern_ref embed(uint32_t columns)
{
    struct tern_operation *op = add(TERN_OP_EMBED, "embedding", 0, 0);
    op->code.weight[0] = (struct tern_weight){.type = TERN_F32, .rows = 10, .columns = columns};
    return op->out[0];
}

static tern_ref norm(tern_ref x, uint32_t columns)
{
    struct tern_operation *op = add(TERN_OP_NORM, "norm", x, 0);
    op->code.weight[0] = (struct tern_weight){.type = TERN_F32, .rows = 1, .columns = columns};
    return op->out[0];
}

static tern_ref product(tern_ref x, const char *label, uint32_t type, uint32_t rows,
                        uint32_t columns)
{
    struct tern_operation *op = add(TERN_OP_MATMUL, label, x, 0);
    op->code.weight[0] = (struct tern_weight){.type = type, .rows = rows, .columns = columns};
    op->code.weights = 1;
    return op->out[0];
}

static tern_ref bias(tern_ref x, uint32_t columns)
{
    struct tern_operation *op = add(TERN_OP_BIAS, "bias", x, 0);
    op->code.weight[0] = (struct tern_weight){.type = TERN_F32, .rows = 1, .columns = columns};
    return op->out[0];
}

static tern_ref sum(tern_ref x, tern_ref y)
{
    return add(TERN_OP_ADD, "add", x, y)->out[0];
}

static void logits(tern_ref x)
{
    add(TERN_OP_ARGMAX, "argmax", x, 0);
    graph.logits = x;
}

static uint32_t count(enum tern_op op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph.operation_count; i++)
        n += graph.operations[i].code.op == op;
    return n;
}

static void labels(void **state)
{
    (void)state;
    char label[TERN_LABEL_SIZE];
    tern_label_join(label, "attn q", "attn k");
    assert_string_equal(label, "attn q+k");
    tern_label_join(label, label, "attn v");
    assert_string_equal(label, "attn q+k+v");
    tern_label_join(label, "attn add", "ffn_norm");
    assert_string_equal(label, "attn add+ffn_norm");
    tern_label_join(label, "attn add", "ffn gate");
    assert_string_equal(label, "attn add+ffn gate");
    for (int i = 0; i < 10; i++)
        tern_label_join(label, label, "something long");
    assert_int_equal(strlen(label), TERN_LABEL_SIZE - 1);
}

static void uses(void **state)
{
    (void)state;
    const tern_ref x = embed(64), y = norm(x, 64), z = sum(x, y);
    logits(z);
    struct tern_uses found;
    assert_true(tern_uses_find(&graph, &found));
    assert_int_equal(found.writer[x], 0);
    assert_int_equal(found.count[x], 2);
    assert_int_equal(found.first[x], 1);
    assert_int_equal(found.last[x], 2);
    assert_int_equal(found.count[z], 2); /* argmax and the world outside */
    tern_uses_free(&found);
}

static void shapes_that_do_not_fit(void **state)
{
    (void)state;
    const tern_ref x = embed(64), y = product(x, "p", TERN_F32, 32, 64);
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_int_equal(graph.values[y].columns, 32);
    sum(x, y);
    assert_int_equal(tern_infer_shapes(&graph, &error), TERN_FAILED);
    assert_non_null(strstr(error.message, "add"));
}

/* Row-wise operations after the last reader of all rows run on output rows; a value that both kinds
 * read is gathered once. */
static void rows_are_narrowed(void **state)
{
    (void)state;
    const tern_ref x = embed(64), y = norm(x, 64);
    struct tern_operation *write = add(TERN_OP_KV_WRITE, "write", y, y);
    write->code.kv_heads = 1;
    write->code.head_size = 64;
    const tern_ref p = product(y, "p", TERN_F32, 64, 64), s = sum(x, p), t = sum(s, x);
    logits(product(t, "head", TERN_F32, 10, 64));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_ok(tern_narrow_rows(&graph, &error));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_int_equal(count(TERN_OP_GATHER), 2); /* x once, y once */
    assert_int_equal(graph.values[y].rows, TERN_ALL_ROWS);
    assert_int_equal(graph.values[p].rows, TERN_OUTPUT_ROWS);
    assert_int_equal(graph.values[t].rows, TERN_OUTPUT_ROWS);
}

static void quantized_once_per_form(void **state)
{
    (void)state;
    const tern_ref x = embed(256);
    const tern_ref a = product(x, "a", TERN_Q8_0, 256, 256),
                   b = product(x, "b", TERN_Q4_K, 256, 256),
                   c = product(x, "c", TERN_Q4_1, 256, 256),
                   d = product(x, "d", TERN_F16, 256, 256);
    logits(sum(sum(a, b), sum(c, d)));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_ok(tern_insert_quantize(&graph, TERN_HIGH, &error));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_int_equal(count(TERN_OP_QUANTIZE), 2);
    assert_ok(tern_fuse(&graph, &error));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_int_equal(count(TERN_OP_QUANTIZE), 2);
    assert_int_equal(count(TERN_OP_MATMUL), 3); /* a with c, b, d */
}

/* A value that somebody else reads too must not disappear. */
static void what_is_read_twice_stays(void **state)
{
    (void)state;
    const tern_ref x = embed(64), p = product(x, "p", TERN_F32, 64, 64), q = bias(p, 64);
    const tern_ref gate = product(x, "gate", TERN_F32, 64, 64),
                   up = product(q, "up", TERN_F32, 64, 64);
    struct tern_operation *glu = add(TERN_OP_GLU, "glu", gate, up);
    glu->code.activation = TERN_SILU;
    logits(sum(sum(p, q), sum(gate, glu->out[0])));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_ok(tern_fuse(&graph, &error));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_int_equal(count(TERN_OP_BIAS), 1);
    assert_int_equal(count(TERN_OP_GLU), 1);
    assert_int_equal(count(TERN_OP_MATMUL), 2); /* p with gate; up */
}

/* A norm joins the sum it reads first; a second norm of the sum stays. */
static void two_norms_of_a_sum(void **state)
{
    (void)state;
    const tern_ref x = embed(64), s = sum(x, x), a = norm(s, 64), b = norm(s, 64);
    logits(sum(sum(a, b), s));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_ok(tern_fuse(&graph, &error));
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_int_equal(count(TERN_OP_ADD_NORM), 1);
    assert_int_equal(count(TERN_OP_NORM), 1);
}

enum { HEADS = 4, HEAD_SIZE = 16 };

/* x rotated, after a norm of its `groups` parts. */
static tern_ref norm_and_rope(tern_ref x, uint32_t groups)
{
    const tern_ref normed = norm(x, HEADS * HEAD_SIZE / groups);
    graph.operations[graph.operation_count - 1].code.groups = groups;
    struct tern_operation *op = add(TERN_OP_ROPE, "rope", normed, 0);
    op->rope_table = 0;
    op->code.groups = HEADS;
    op->code.head_size = op->code.rope_size = HEAD_SIZE;
    return op->out[0];
}

/* Norms of each head join the write to the cache; a norm over all heads at once stays. */
static void only_head_norms_join_the_cache(void **state)
{
    (void)state;
    for (uint32_t groups = 1; groups <= HEADS; groups *= HEADS) {
        graph.table[0].size = HEAD_SIZE;
        graph.tables = 1;
        const tern_ref x = embed(HEADS * HEAD_SIZE);
        const tern_ref q = norm_and_rope(x, groups), k = norm_and_rope(x, groups);
        struct tern_operation *op = add(TERN_OP_KV_WRITE, "write", k, x);
        op->code.heads = op->code.kv_heads = HEADS;
        op->code.head_size = HEAD_SIZE;
        op = add(TERN_OP_ATTENTION, "attention", q, 0);
        op->code.heads = op->code.kv_heads = HEADS;
        op->code.head_size = HEAD_SIZE;
        assert_ok(tern_infer_shapes(&graph, &error));
        assert_ok(tern_fuse(&graph, &error));
        assert_ok(tern_infer_shapes(&graph, &error));
        const bool joined = groups == HEADS;
        assert_int_equal(graph.operation_count, joined ? 3 : 5);
        op = &graph.operations[graph.operation_count - 2];
        assert_int_equal(op->code.op, TERN_OP_QKV_ROPE_WRITE);
        assert_int_equal(op->code.weights, joined ? 2 : 0);
        tern_graph_free(&graph);
        tern_graph_init(&graph);
    }
}

/* ---- memory ---- */

/* A chain of n norms, its end the logits. */
static void make_chain(uint32_t n, tern_ref value[])
{
    value[0] = embed(64);
    for (uint32_t i = 1; i < n; i++)
        value[i] = norm(value[i - 1], 64);
    logits(value[n - 1]);
    assert_ok(tern_infer_shapes(&graph, &error));
    assert_ok(tern_place(&graph, &error));
}

static void a_chain_needs_two_buffers(void **state)
{
    (void)state;
    tern_ref value[20];
    struct tern_memory_plan plan;
    make_chain(20, value);
    assert_ok(tern_plan_memory(&graph, 8, 8, true, &plan, &error));
    assert_int_equal(plan.buffers, 3); /* and the logits' own */
    assert_int_equal(plan.bytes, 3 * 8 * 256);
    tern_memory_plan_free(&plan);
    assert_ok(tern_plan_memory(&graph, 8, 8, false, &plan, &error));
    assert_int_equal(plan.buffers, 20);
    assert_int_equal(plan.bytes, 20 * 8 * 256);
    tern_memory_plan_free(&plan);
}

static bool share(const struct tern_memory_plan *plan, tern_ref a, tern_ref b)
{
    return plan->offset[a] == plan->offset[b];
}

/* Three stages of four operations. What stage 1 takes over from stage 0 must survive all of stage
 * 1, so that it can be run again; what stage 0 keeps to itself need not. */
static void handed_over_values_survive_the_stage(void **state)
{
    (void)state;
    tern_ref value[12];
    struct tern_memory_plan plan;
    make_chain(12, value);
    graph.stages = 3;
    for (uint32_t s = 0; s < 3; s++)
        graph.stage[s] = (struct tern_stage){.begin = 4 * s, .end = s == 2 ? 13 : 4 * s + 4};
    for (uint32_t i = 0; i < graph.operation_count; i++)
        graph.operations[i].code.stage = (uint16_t)(i / 4 < 2 ? i / 4 : 2);
    assert_ok(tern_plan_memory(&graph, 8, 8, true, &plan, &error));
    for (int i = 4; i < 8; i++)
        assert_false(share(&plan, value[3], value[i]));
    for (int i = 8; i < 12; i++)
        assert_false(share(&plan, value[7], value[i]));
    assert_true(share(&plan, value[0], value[2]));
    tern_memory_plan_free(&plan);
}

#define on_graph(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels),
        on_graph(uses),
        on_graph(shapes_that_do_not_fit),
        on_graph(rows_are_narrowed),
        on_graph(quantized_once_per_form),
        on_graph(what_is_read_twice_stays),
        on_graph(two_norms_of_a_sum),
        on_graph(only_head_norms_join_the_cache),
        on_graph(a_chain_needs_two_buffers),
        on_graph(handed_over_values_survive_the_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
