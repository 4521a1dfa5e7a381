#include "plan_check.h"

#include "proto/numerics/quantize.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A place that holds a value. */
struct place {
    uint64_t offset, bytes, number;
    uint32_t stride, columns;
    uint32_t writer; /* index into the lives */
    struct tern_act act;
    bool outputs;
};

/* When a value is written and last read. */
struct life {
    uint64_t bytes;
    uint32_t begin, end; /* instructions, both inside */
};

struct machine {
    const struct tern_compiled *compiled;
    const struct tern_plan *plan;
    const struct tern_instruction *code; /* the one being run */
    struct place *place;
    uint32_t places;
    struct life *life;
    uint32_t lives;
    struct plan_result *result;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    a ^= b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2);
    a *= 0xff51afd7ed558ccdu;
    return a ^ a >> 33;
}

static uint64_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static bool overlap(const struct place *a, const struct place *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* ---- memory ---- */

static uint32_t index_of(const struct machine *m)
{
    return (uint32_t)(m->code - tern_plan_instructions(m->plan));
}

/* The logits stay for whoever reads them after the step. */
static uint64_t find_peak(const struct machine *m)
{
    const uint64_t logits = (uint64_t)m->plan->logits.stride * m->plan->max_outputs;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < m->plan->instructions; i++) {
        uint64_t alive = logits;
        for (uint32_t k = 0; k < m->lives; k++)
            if (m->life[k].begin <= i && i <= m->life[k].end)
                alive += m->life[k].bytes;
        peak = alive > peak ? alive : peak;
    }
    return peak;
}

static struct place describe(const struct machine *m, const struct tern_operand *operand,
                             bool outputs)
{
    assert_int_equal(operand->segment, TERN_SEGMENT_ACTIVATIONS);
    assert_int_equal(operand->offset % 64, 0);
    assert_int_equal(operand->stride % 64, 0);
    const struct place place = {
        .offset = operand->offset,
        .stride = operand->stride,
        .bytes = (uint64_t)operand->stride * (outputs ? m->plan->max_outputs : m->plan->max_rows),
        .outputs = outputs,
    };
    assert_true(place.offset <= m->plan->activation_bytes);
    assert_true(place.bytes <= m->plan->activation_bytes - place.offset);
    return place;
}

static uint64_t read_rows(const struct machine *m, int k, uint32_t columns, struct tern_act act,
                          bool outputs)
{
    const struct place want = describe(m, &m->code->in[k], outputs);
    for (uint32_t i = 0; i < m->places; i++) {
        const struct place *p = &m->place[i];
        if (p->offset != want.offset || p->stride != want.stride)
            continue;
        assert_int_equal(p->outputs, outputs);
        assert_int_equal(p->columns, columns);
        assert_int_equal(p->act.block, act.block);
        assert_int_equal(p->act.bits, act.bits);
        m->life[p->writer].end = index_of(m);
        return p->number;
    }
    fail_msg("%s of layer %u reads a place that holds no value",
             tern_plan_label(m->plan, m->code->label), m->code->layer);
    return 0;
}

static bool on_outputs(const struct machine *m)
{
    return (m->code->flags & TERN_ON_OUTPUTS) != 0;
}

static const struct tern_act plain = {0, 0};

/* Input k, float rows of the instruction's own kind. */
static uint64_t input(const struct machine *m, int k, uint32_t columns)
{
    return read_rows(m, k, columns, plain, on_outputs(m));
}

static void output(struct machine *m, int k, uint32_t columns, struct tern_act act, uint64_t number)
{
    struct place new = describe(m, &m->code->out[k], on_outputs(m));
    new.columns = columns;
    new.act = act;
    new.number = number;
    new.writer = m->lives++;
    const bool is_logits = new.offset == m->plan->logits.offset;
    m->life[new.writer] =
        (struct life){.bytes = is_logits ? 0 : new.bytes, .begin = index_of(m), .end = index_of(m)};
    const uint32_t row = act.block == 0 ? columns * 4 : tern_act_layout(act, columns).stride;
    assert_true(row <= new.stride);
    for (int i = 0; i < 3; i++) {
        if (m->code->in[i].segment != TERN_SEGMENT_NONE) {
            const bool in_outputs = on_outputs(m) && m->code->op != TERN_OP_GATHER;
            const struct place in = describe(m, &m->code->in[i], in_outputs);
            assert_false(overlap(&in, &new));
        }
        if (i != k && m->code->out[i].segment != TERN_SEGMENT_NONE) {
            const struct place other = describe(m, &m->code->out[i], on_outputs(m));
            assert_false(overlap(&other, &new));
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->places; i++)
        if (!overlap(&m->place[i], &new))
            m->place[kept++] = m->place[i];
    m->place[kept++] = new;
    m->places = kept;
}

/* ---- operations ---- */

static uint64_t weight_number(const struct machine *m, const struct tern_weight *weight)
{
    uint64_t row;
    assert_true(weight->rows > 0);
    assert_true(tern_row_bytes(weight->type, weight->columns, &row));
    assert_int_equal(weight->offset % 256, 0);
    assert_true(weight->offset + row * weight->rows <= m->compiled->weight_bytes);
    return mix(weight->tensor, weight->type);
}

static uint64_t norm_of(const struct machine *m, uint64_t x, int gain, uint32_t columns,
                        uint32_t groups)
{
    assert_int_equal(m->code->weight[gain].columns, columns);
    assert_int_equal(m->code->weight[gain].type, TERN_F32);
    x = mix(mix(mix(TERN_OP_NORM, x), weight_number(m, &m->code->weight[gain])), groups);
    return mix(x, float_bits(m->code->epsilon));
}

static uint64_t quantized(const struct machine *m, uint64_t x)
{
    return mix(mix(mix(TERN_OP_QUANTIZE, x), m->code->act.block), m->code->act.bits);
}

static uint64_t rotated(const struct machine *m, uint64_t x, uint32_t heads)
{
    const struct tern_operand *table = &m->code->rope;
    assert_int_equal(table->segment, TERN_SEGMENT_TABLES);
    assert_true(table->stride >= m->code->rope_size / 2 * 8);
    assert_int_equal(table->stride % 64, 0);
    assert_int_equal(table->offset % 64, 0);
    assert_true(table->offset + (uint64_t)table->stride * m->plan->context <=
                m->compiled->tables_bytes);
    x = mix(mix(mix(TERN_OP_ROPE, x), heads), m->code->head_size);
    return mix(mix(mix(x, table->offset), m->code->rope_size), m->code->rope_pairs);
}

static void write_cache(struct machine *m, uint64_t keys, uint64_t values)
{
    assert_true(m->code->kv_layer < m->plan->kv.layers);
    assert_int_equal(m->code->kv_heads, m->plan->kv.kv_heads);
    assert_int_equal(m->code->head_size, m->plan->kv.head_size);
    m->result->cache = mix(mix(mix(m->result->cache, m->code->kv_layer), keys), values);
}

static uint64_t product_of(const struct machine *m, int k)
{
    const struct tern_instruction *code = m->code;
    const uint64_t x = read_rows(m, 0, code->columns, code->act, on_outputs(m));
    assert_int_equal(code->weight[k].columns, code->columns);
    uint64_t y = mix(mix(TERN_OP_MATMUL, x), weight_number(m, &code->weight[k]));
    if (code->bias[k].rows == 0)
        return y;
    assert_int_equal(code->bias[k].columns, code->weight[k].rows);
    return mix(mix(TERN_OP_BIAS, y), weight_number(m, &code->bias[k]));
}

static uint64_t glu_of(const struct machine *m, uint64_t gate, uint64_t up)
{
    return mix(mix(mix(TERN_OP_GLU, gate), up), m->code->activation);
}

static void run_products(struct machine *m)
{
    const struct tern_instruction *code = m->code;
    uint64_t y[TERN_OP_WEIGHTS];
    assert_true(code->weights >= 1 && code->weights <= TERN_OP_WEIGHTS);
    for (uint32_t k = 0; k < code->weights; k++)
        y[k] = product_of(m, (int)k);
    if (code->op == TERN_OP_MATMUL_GLU) {
        assert_int_equal(code->weights, 2);
        assert_int_equal(code->weight[0].rows, code->weight[1].rows);
        output(m, 0, code->weight[0].rows, plain, glu_of(m, y[0], y[1]));
        return;
    }
    for (uint32_t k = 0; k < code->weights; k++)
        output(m, (int)k, code->weight[k].rows, plain, y[k]);
}

static void run_norms(struct machine *m)
{
    const struct tern_instruction *code = m->code;
    const uint32_t columns = code->columns * code->groups;
    uint64_t x = input(m, 0, columns);
    if (code->op == TERN_OP_ADD_NORM) {
        x = mix(mix(TERN_OP_ADD, x), input(m, 1, columns));
        output(m, 0, columns, plain, x);
    }
    uint64_t y = norm_of(m, x, 0, code->columns, code->groups);
    if (code->act.block != 0)
        y = quantized(m, y);
    output(m, code->op == TERN_OP_ADD_NORM ? 1 : 0, columns, code->act, y);
}

static void run_cache(struct machine *m)
{
    const struct tern_instruction *code = m->code;
    const uint32_t keys = code->kv_heads * code->head_size, queries = code->heads * code->head_size;
    if (code->op == TERN_OP_KV_WRITE) {
        write_cache(m, input(m, 0, keys), input(m, 1, keys));
        return;
    }
    if (code->op == TERN_OP_ATTENTION) {
        uint64_t y = mix(mix(TERN_OP_ATTENTION, input(m, 0, queries)), m->result->cache);
        y = mix(mix(mix(y, code->window), float_bits(code->scale)), code->kv_layer);
        output(m, 0, queries, plain, y);
        return;
    }
    uint64_t q = input(m, 0, queries), k = input(m, 1, keys);
    if (code->weights == 2) {
        q = norm_of(m, q, 0, code->head_size, code->heads);
        k = norm_of(m, k, 1, code->head_size, code->kv_heads);
    }
    const uint64_t v = input(m, 2, keys);
    output(m, 0, queries, plain, rotated(m, q, code->heads));
    write_cache(m, rotated(m, k, code->kv_heads), v);
}

static void run_simple(struct machine *m)
{
    const struct tern_instruction *code = m->code;
    const uint32_t n = code->columns;
    switch (code->op) {
    case TERN_OP_EMBED:
        assert_int_equal(code->weight[0].columns, n);
        output(
            m, 0, n, plain,
            mix(mix(TERN_OP_EMBED, weight_number(m, &code->weight[0])), float_bits(code->factor)));
        return;
    case TERN_OP_QUANTIZE:
        output(m, 0, n, code->act, quantized(m, input(m, 0, n)));
        return;
    case TERN_OP_BIAS:
        assert_int_equal(code->weight[0].columns, n);
        output(m, 0, n, plain,
               mix(mix(TERN_OP_BIAS, input(m, 0, n)), weight_number(m, &code->weight[0])));
        return;
    case TERN_OP_ROPE:
        assert_int_equal(n, code->head_size);
        output(m, 0, n * code->groups, plain,
               rotated(m, input(m, 0, n * code->groups), code->groups));
        return;
    case TERN_OP_GLU:
        output(m, 0, n, plain, glu_of(m, input(m, 0, n), input(m, 1, n)));
        return;
    case TERN_OP_ADD:
        output(m, 0, n, plain, mix(mix(TERN_OP_ADD, input(m, 0, n)), input(m, 1, n)));
        return;
    case TERN_OP_GATHER:
        assert_true(on_outputs(m));
        output(m, 0, n, plain, mix(TERN_OP_GATHER, read_rows(m, 0, n, plain, false)));
        return;
    case TERN_OP_ARGMAX:
        assert_true(on_outputs(m));
        assert_int_equal(n, m->plan->vocabulary);
        m->result->logits = input(m, 0, n);
        return;
    default:
        fail_msg("unknown operation %u", code->op);
    }
}

static void run(struct machine *m)
{
    switch (m->code->op) {
    case TERN_OP_MATMUL:
    case TERN_OP_MATMUL_GLU:
        run_products(m);
        return;
    case TERN_OP_NORM:
    case TERN_OP_NORM_QUANTIZE:
    case TERN_OP_ADD_NORM:
        run_norms(m);
        return;
    case TERN_OP_KV_WRITE:
    case TERN_OP_ATTENTION:
    case TERN_OP_QKV_ROPE_WRITE:
        run_cache(m);
        return;
    default:
        run_simple(m);
    }
}

/* Nothing but the head writes where the logits lie. */
static void check_logits(const struct machine *m, bool *written)
{
    const struct place logits = describe(m, &m->plan->logits, true);
    for (int k = 0; k < 3; k++) {
        if (m->code->out[k].segment == TERN_SEGMENT_NONE)
            continue;
        const struct place out = describe(m, &m->code->out[k], on_outputs(m));
        if (out.offset == logits.offset && out.stride == logits.stride) {
            assert_false(*written);
            assert_int_equal(m->code->weight[k].rows, m->plan->vocabulary);
            *written = true;
        } else {
            assert_false(overlap(&out, &logits));
        }
    }
}

static void check_header(const struct tern_compiled *compiled)
{
    struct tern_error error;
    const struct tern_segment segment = {.data = compiled->plan, .size = compiled->plan_bytes};
    assert_int_equal(tern_plan_check(&segment, &error), TERN_OK);
    const struct tern_plan *plan = compiled->plan;
    assert_true(plan->max_rows >= 1 && plan->max_rows <= TERN_MAX_ROWS);
    assert_true(plan->max_outputs >= 1 && plan->max_outputs <= plan->max_rows);
    assert_true((uint64_t)plan->vocabulary * 4 <= plan->logits.stride);
    const uint64_t element = plan->kv.type == TERN_KV_F16 ? 2 : 4;
    assert_int_equal(plan->kv.page_layer_bytes,
                     2 * element * plan->kv.kv_heads * TERN_PAGE_POSITIONS * plan->kv.head_size);
    assert_int_equal(plan->kv.page_bytes % 4096, 0);
    assert_true(plan->kv.page_bytes >= plan->kv.layers * plan->kv.page_layer_bytes);
}

void plan_check(const struct tern_compiled *compiled, struct plan_result *result)
{
    *result = (struct plan_result){0};
    check_header(compiled);
    const struct tern_plan *plan = compiled->plan;
    struct machine m = {.compiled = compiled, .plan = plan, .result = result};
    m.place = calloc(3 * plan->instructions, sizeof *m.place);
    m.life = calloc(3 * plan->instructions, sizeof *m.life);
    assert_non_null(m.place);
    assert_non_null(m.life);
    bool logits_written = false;
    uint16_t stage = 0;
    for (uint32_t i = 0; i < plan->instructions; i++) {
        m.code = &tern_plan_instructions(plan)[i];
        assert_true(m.code->stage == stage || m.code->stage == stage + 1);
        stage = m.code->stage;
        assert_true(m.code->label < plan->label_count);
        run(&m);
        check_logits(&m, &logits_written);
        result->count[m.code->op]++;
        result->on_outputs += on_outputs(&m);
    }
    assert_int_equal(stage + 1, plan->stages);
    assert_true(logits_written);
    result->peak = find_peak(&m);
    free(m.life);
    free(m.place);
}
