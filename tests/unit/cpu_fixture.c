#include "cpu_fixture.h"

#include "proto/numerics/functions.h"
#include "proto/numerics/product.h"
#include "proto/numerics/quantize.h"
#include "proto/numerics/value.h"
#include "proto/wait.h"
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

static struct tern_error error;
static const float epsilon = 1e-5f;

/* ---- segments and random weights ---- */

static uint64_t random_state;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static float random_value(void)
{
    return ((float)random_bits() / 0x1p31f - 0.5f) * 2;
}

static struct tern_segment make_segment(enum tern_segment_kind kind, uint64_t size, int *fd)
{
    static uint64_t id = 100;
    struct tern_segment writer;
    id++;
    assert_int_equal(tern_segment_create(kind, id, size, fd, &error), TERN_OK);
    assert_int_equal(tern_segment_map(*fd, kind, id, true, false, &writer, &error), TERN_OK);
    return writer;
}

static uint8_t *allocate_weights(struct model *m, uint64_t bytes, uint64_t *offset)
{
    *offset = (m->weights_used + 255) & ~255ull;
    m->weights_used = *offset + bytes;
    assert_true(m->weights_used <= m->segments.weights.size);
    return m->segments.weights.data + *offset;
}

static struct tern_weight make_vector(struct model *m, uint32_t columns, float center)
{
    struct tern_weight weight = {.type = TERN_F32, .rows = 1, .columns = columns};
    float *data = (float *)(void *)allocate_weights(m, columns * sizeof(float), &weight.offset);
    for (uint32_t i = 0; i < columns; i++)
        data[i] = center + 0.2f * random_value();
    return weight;
}

/* Q8_0: half-precision scale, then 32 codes. */
static void fill_q8_0(uint8_t *data, uint64_t blocks, float size)
{
    for (uint64_t b = 0; b < blocks; b++, data += 34) {
        const uint16_t scale = tern_float_to_half(size / 127 * (1 + 0.3f * random_value()));
        memcpy(data, &scale, sizeof scale);
        for (int i = 0; i < 32; i++)
            data[2 + i] = (uint8_t)random_bits();
    }
}

static struct tern_weight make_matrix(struct model *m, uint32_t rows, uint32_t columns)
{
    const float size = 1.7f / sqrtf((float)columns);
    struct tern_weight weight = {.type = m->options.type, .rows = rows, .columns = columns};
    uint64_t row_bytes;
    assert_true(tern_row_bytes(weight.type, columns, &row_bytes));
    uint8_t *data = allocate_weights(m, rows * row_bytes, &weight.offset);
    if (weight.type == TERN_Q8_0) {
        fill_q8_0(data, rows * row_bytes / 34, size);
    } else {
        assert_int_equal(weight.type, TERN_F32);
        float *values = (float *)(void *)data;
        for (uint64_t i = 0; i < (uint64_t)rows * columns; i++)
            values[i] = size * random_value();
    }
    return weight;
}

static void make_weights(struct model *m)
{
    const uint32_t queries = MODEL_HEADS * MODEL_HEAD_SIZE;
    const uint32_t keys = MODEL_KV_HEADS * MODEL_HEAD_SIZE;
    random_state = 12345;
    m->embedding = make_matrix(m, MODEL_VOCABULARY, MODEL_WIDTH);
    for (uint32_t l = 0; l < MODEL_LAYERS; l++)
        m->layer[l] = (struct layer_weights){
            .attention_norm = make_vector(m, MODEL_WIDTH, 1),
            .q = make_matrix(m, queries, MODEL_WIDTH),
            .k = make_matrix(m, keys, MODEL_WIDTH),
            .v = make_matrix(m, keys, MODEL_WIDTH),
            .q_bias = make_vector(m, queries, 0),
            .k_bias = make_vector(m, keys, 0),
            .v_bias = make_vector(m, keys, 0),
            .q_norm = make_vector(m, MODEL_HEAD_SIZE, 1),
            .k_norm = make_vector(m, MODEL_HEAD_SIZE, 1),
            .out = make_matrix(m, MODEL_WIDTH, queries),
            .ffn_norm = make_vector(m, MODEL_WIDTH, 1),
            .gate = make_matrix(m, MODEL_FFN, MODEL_WIDTH),
            .up = make_matrix(m, MODEL_FFN, MODEL_WIDTH),
            .down = make_matrix(m, MODEL_WIDTH, MODEL_FFN),
        };
    m->final_norm = make_vector(m, MODEL_WIDTH, 1);
    m->head = make_matrix(m, MODEL_VOCABULARY, MODEL_WIDTH);
}

static void fill_rope(struct model *m)
{
    double frequency[MODEL_HEAD_SIZE / 2];
    m->rope = (struct tern_operand){.segment = TERN_SEGMENT_TABLES,
                                    .stride = MODEL_HEAD_SIZE * sizeof(float)};
    tern_rope_frequencies(10000, MODEL_HEAD_SIZE, NULL, 1, frequency);
    for (uint32_t p = 0; p < MODEL_CONTEXT; p++)
        tern_rope_row(frequency, MODEL_HEAD_SIZE / 2, p,
                      (float *)(void *)(m->segments.tables.data + p * m->rope.stride));
}

/* ---- the plan ---- */

static struct tern_act act_of(const struct model *m)
{
    return tern_type_act(m->options.type, m->options.precision);
}

static struct tern_operand make_buffer(struct model *m, uint64_t row_bytes)
{
    const uint64_t stride = (row_bytes + 63) & ~63ull;
    const struct tern_operand operand = {TERN_SEGMENT_ACTIVATIONS, (uint32_t)stride,
                                         m->activations_used};
    m->activations_used += stride * MODEL_ROWS;
    assert_true(m->activations_used <= m->segments.activations.size);
    return operand;
}

static struct tern_operand floats(struct model *m, uint32_t columns)
{
    return make_buffer(m, columns * sizeof(float));
}

static struct tern_instruction *add(struct model *m, enum tern_op op, uint32_t columns)
{
    struct tern_instruction *in = &m->instructions[m->plan->instructions++];
    *in = (struct tern_instruction){
        .op = op, .columns = columns, .groups = 1, .epsilon = epsilon, .factor = 1};
    return in;
}

/* The float buffer in the form that products read; for float products itself. */
static struct tern_operand add_quantize(struct model *m, struct tern_operand x, uint32_t columns)
{
    const struct tern_act act = act_of(m);
    if (act.block == 0)
        return x;
    struct tern_instruction *in = add(m, TERN_OP_QUANTIZE, columns);
    in->act = act;
    in->in[0] = x;
    return in->out[0] = make_buffer(m, tern_act_layout(act, columns).stride);
}

static struct tern_operand add_matmul(struct model *m, struct tern_operand x,
                                      const struct tern_weight *weight,
                                      const struct tern_weight *bias)
{
    struct tern_instruction *in = add(m, TERN_OP_MATMUL, weight->columns);
    in->act = act_of(m);
    in->weights = 1;
    in->in[0] = x;
    in->weight[0] = *weight;
    if (bias != NULL)
        in->bias[0] = *bias;
    return in->out[0] = floats(m, weight->rows);
}

static struct tern_operand add_norm(struct model *m, struct tern_operand x,
                                    const struct tern_weight *gain, uint32_t groups)
{
    struct tern_instruction *in = add(m, TERN_OP_NORM, gain->columns);
    in->groups = groups;
    in->in[0] = x;
    in->weight[0] = *gain;
    return in->out[0] = floats(m, gain->columns * groups);
}

static struct tern_operand add_add(struct model *m, struct tern_operand a, struct tern_operand b)
{
    struct tern_instruction *in = add(m, TERN_OP_ADD, MODEL_WIDTH);
    in->in[0] = a;
    in->in[1] = b;
    return in->out[0] = floats(m, MODEL_WIDTH);
}

static void set_heads(struct model *m, struct tern_instruction *in, uint32_t layer)
{
    in->heads = MODEL_HEADS;
    in->kv_heads = MODEL_KV_HEADS;
    in->head_size = MODEL_HEAD_SIZE;
    in->rope_pairs = TERN_ROPE_HALVES;
    in->rope_size = MODEL_HEAD_SIZE;
    in->rope = m->rope;
    in->kv_layer = layer;
    in->window = m->options.window;
    in->scale = (float)(1 / sqrt(MODEL_HEAD_SIZE));
}

static struct tern_operand add_rope(struct model *m, struct tern_operand x, uint32_t heads)
{
    struct tern_instruction *in = add(m, TERN_OP_ROPE, MODEL_HEAD_SIZE);
    set_heads(m, in, 0);
    in->groups = heads;
    in->in[0] = x;
    return in->out[0] = floats(m, heads * MODEL_HEAD_SIZE);
}

static struct tern_operand add_qkv(struct model *m, struct tern_operand x,
                                   const struct layer_weights *w, uint32_t l)
{
    const bool biases = m->options.biases;
    struct tern_operand q = add_matmul(m, x, &w->q, NULL);
    struct tern_operand k = add_matmul(m, x, &w->k, biases ? &w->k_bias : NULL);
    struct tern_operand v = add_matmul(m, x, &w->v, biases ? &w->v_bias : NULL);
    if (biases) {
        struct tern_instruction *bias = add(m, TERN_OP_BIAS, w->q.rows);
        bias->in[0] = q;
        bias->weight[0] = w->q_bias;
        q = bias->out[0] = floats(m, w->q.rows);
    }
    if (m->options.head_norms) {
        q = add_norm(m, q, &w->q_norm, MODEL_HEADS);
        k = add_norm(m, k, &w->k_norm, MODEL_KV_HEADS);
    }
    q = add_rope(m, q, MODEL_HEADS);
    k = add_rope(m, k, MODEL_KV_HEADS);
    struct tern_instruction *write = add(m, TERN_OP_KV_WRITE, 0);
    set_heads(m, write, l);
    write->in[0] = k;
    write->in[1] = v;
    return q;
}

static struct tern_operand add_fused_qkv(struct model *m, struct tern_operand x,
                                         const struct layer_weights *w, uint32_t l)
{
    struct tern_instruction *product = add(m, TERN_OP_MATMUL, MODEL_WIDTH);
    const struct tern_weight *weights[3] = {&w->q, &w->k, &w->v};
    const struct tern_weight *biases[3] = {&w->q_bias, &w->k_bias, &w->v_bias};
    product->act = act_of(m);
    product->weights = 3;
    product->in[0] = x;
    for (int i = 0; i < 3; i++) {
        product->weight[i] = *weights[i];
        if (m->options.biases)
            product->bias[i] = *biases[i];
        product->out[i] = floats(m, weights[i]->rows);
    }
    struct tern_instruction *in = add(m, TERN_OP_QKV_ROPE_WRITE, 0);
    set_heads(m, in, l);
    memcpy(in->in, product->out, sizeof in->in);
    if (m->options.head_norms) {
        in->weight[0] = w->q_norm;
        in->weight[1] = w->k_norm;
    }
    return in->out[0] = floats(m, w->q.rows);
}

static struct tern_operand add_attention(struct model *m, struct tern_operand q, uint32_t l)
{
    const uint32_t columns = MODEL_HEADS * MODEL_HEAD_SIZE;
    struct tern_instruction *in = add(m, TERN_OP_ATTENTION, columns);
    set_heads(m, in, l);
    in->in[0] = q;
    in->out[0] = floats(m, columns);
    return add_quantize(m, in->out[0], columns);
}

static struct tern_operand add_ffn(struct model *m, struct tern_operand x,
                                   const struct layer_weights *w)
{
    struct tern_operand out;
    if (m->options.fused) {
        struct tern_instruction *in = add(m, TERN_OP_MATMUL_GLU, MODEL_WIDTH);
        in->act = act_of(m);
        in->activation = TERN_SILU;
        in->in[0] = x;
        in->weight[0] = w->gate;
        in->weight[1] = w->up;
        out = in->out[0] = floats(m, MODEL_FFN);
    } else {
        const struct tern_operand gate = add_matmul(m, x, &w->gate, NULL);
        const struct tern_operand up = add_matmul(m, x, &w->up, NULL);
        struct tern_instruction *in = add(m, TERN_OP_GLU, MODEL_FFN);
        in->activation = TERN_SILU;
        in->in[0] = gate;
        in->in[1] = up;
        out = in->out[0] = floats(m, MODEL_FFN);
    }
    return add_matmul(m, add_quantize(m, out, MODEL_FFN), &w->down, NULL);
}

/* x + y and its norm, ready for a product. */
static struct tern_operand add_residual(struct model *m, struct tern_operand *x,
                                        struct tern_operand y, const struct tern_weight *gain)
{
    if (!m->options.fused) {
        *x = add_add(m, *x, y);
        return add_quantize(m, add_norm(m, *x, gain, 1), MODEL_WIDTH);
    }
    struct tern_instruction *in = add(m, TERN_OP_ADD_NORM, MODEL_WIDTH);
    in->act = act_of(m);
    in->in[0] = *x;
    in->in[1] = y;
    in->weight[0] = *gain;
    *x = in->out[0] = floats(m, MODEL_WIDTH);
    const uint64_t bytes = in->act.block != 0 ? tern_act_layout(in->act, MODEL_WIDTH).stride
                                              : MODEL_WIDTH * sizeof(float);
    return in->out[1] = make_buffer(m, bytes);
}

static struct tern_operand add_first_norm(struct model *m, struct tern_operand x,
                                          const struct tern_weight *gain)
{
    const struct tern_act act = act_of(m);
    if (!m->options.fused || act.block == 0)
        return add_quantize(m, add_norm(m, x, gain, 1), MODEL_WIDTH);
    struct tern_instruction *in = add(m, TERN_OP_NORM_QUANTIZE, MODEL_WIDTH);
    in->act = act;
    in->in[0] = x;
    in->weight[0] = *gain;
    return in->out[0] = make_buffer(m, tern_act_layout(act, MODEL_WIDTH).stride);
}

static void mark_outputs(struct model *m, uint32_t from)
{
    for (uint32_t i = from; i < m->plan->instructions; i++)
        m->instructions[i].flags |= TERN_ON_OUTPUTS;
}

static void make_plan(struct model *m)
{
    struct tern_instruction *embed = add(m, TERN_OP_EMBED, MODEL_WIDTH);
    embed->weight[0] = m->embedding;
    struct tern_operand x = embed->out[0] = floats(m, MODEL_WIDTH);
    struct tern_operand normed = add_first_norm(m, x, &m->layer[0].attention_norm);
    for (uint32_t l = 0; l < MODEL_LAYERS; l++) {
        const struct layer_weights *w = &m->layer[l];
        const struct tern_operand q =
            m->options.fused ? add_fused_qkv(m, normed, w, l) : add_qkv(m, normed, w, l);
        const struct tern_operand mixed = add_matmul(m, add_attention(m, q, l), &w->out, NULL);
        normed = add_residual(m, &x, mixed, &w->ffn_norm);
        const struct tern_operand fed = add_ffn(m, normed, w);
        if (l + 1 < MODEL_LAYERS)
            normed = add_residual(m, &x, fed, &m->layer[l + 1].attention_norm);
        else
            x = add_add(m, x, fed);
    }
    const uint32_t tail = m->plan->instructions;
    struct tern_instruction *gather = add(m, TERN_OP_GATHER, MODEL_WIDTH);
    gather->in[0] = x;
    x = gather->out[0] = floats(m, MODEL_WIDTH);
    normed = add_first_norm(m, x, &m->final_norm);
    m->plan->logits = add_matmul(m, normed, &m->head, NULL);
    struct tern_instruction *argmax = add(m, TERN_OP_ARGMAX, MODEL_VOCABULARY);
    argmax->in[0] = m->plan->logits;
    mark_outputs(m, tail);
    if (m->options.two_stages)
        for (uint32_t i = m->plan->instructions / 2; i < m->plan->instructions; i++)
            m->instructions[i].stage = 1;
}

void model_make(struct model *model, const struct model_options *options)
{
    *model = (struct model){.options = *options};
    struct tern_program_segments *s = &model->segments;
    const uint64_t element = options->kv == TERN_KV_F16 ? 2 : 4;
    const struct tern_kv_layout kv = {
        .type = options->kv,
        .layers = MODEL_LAYERS,
        .kv_heads = MODEL_KV_HEADS,
        .head_size = MODEL_HEAD_SIZE,
        .page_layer_bytes = 2 * MODEL_KV_HEADS * TERN_PAGE_POSITIONS * MODEL_HEAD_SIZE * element,
        .page_bytes =
            MODEL_LAYERS * 2 * MODEL_KV_HEADS * TERN_PAGE_POSITIONS * MODEL_HEAD_SIZE * element,
    };
    s->plan = make_segment(TERN_SEGMENT_PLAN, 1 << 17, &model->fd[0]);
    s->weights = make_segment(TERN_SEGMENT_WEIGHTS, 1 << 20, &model->fd[1]);
    s->kv = make_segment(TERN_SEGMENT_KV, MODEL_PAGES * kv.page_bytes, &model->fd[2]);
    s->activations = make_segment(TERN_SEGMENT_ACTIVATIONS, 4 << 20, &model->fd[3]);
    s->tables =
        make_segment(TERN_SEGMENT_TABLES, (uint64_t)MODEL_CONTEXT * MODEL_HEAD_SIZE * sizeof(float),
                     &model->fd[4]);
    make_weights(model);
    fill_rope(model);
    model->plan = (struct tern_plan *)(void *)s->plan.data;
    model->instructions = (struct tern_instruction *)(void *)(model->plan + 1);
    *model->plan = (struct tern_plan){
        .version = TERN_PLAN_VERSION,
        .stages = options->two_stages ? 2 : 1,
        .max_rows = MODEL_ROWS,
        .max_outputs = MODEL_ROWS,
        .vocabulary = MODEL_VOCABULARY,
        .context = MODEL_CONTEXT,
        .kv = kv,
    };
    make_plan(model);
    model->plan->activation_bytes = model->activations_used;
}

void model_free(struct model *model)
{
    tern_segment_unmap(&model->segments.plan);
    tern_segment_unmap(&model->segments.weights);
    tern_segment_unmap(&model->segments.kv);
    tern_segment_unmap(&model->segments.activations);
    tern_segment_unmap(&model->segments.tables);
    for (size_t i = 0; i < 5; i++)
        close(model->fd[i]);
}

struct tern_instruction *model_find(struct model *model, enum tern_op op)
{
    for (uint32_t i = 0; i < model->plan->instructions; i++)
        if (model->instructions[i].op == op)
            return &model->instructions[i];
    fail_msg("no instruction with operation %s", tern_op_name(op));
    return NULL;
}

const float *model_logits(const struct model *model, uint32_t output)
{
    return (const float *)(const void *)(model->segments.activations.data +
                                         model->plan->logits.offset +
                                         output * (uint64_t)model->plan->logits.stride);
}
