/* The fixture's model by the book: one position after the other, one operation after the other. */
#include "cpu_fixture.h"

#include "proto/numerics/product.h"
#include "proto/numerics/quantize.h"
#include "proto/numerics/value.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LARGEST = 256 };

static const float *vector_of(const struct model *m, const struct tern_weight *weight)
{
    return (const float *)(const void *)(m->segments.weights.data + weight->offset);
}

static void multiply(const struct model *m, const struct tern_weight *weight,
                     const struct tern_weight *bias, const float *x, float *out)
{
    _Alignas(64) uint8_t quantized[4096];
    const struct tern_act act = tern_type_act(weight->type, m->options.precision);
    uint64_t row_bytes;
    assert_true(tern_row_bytes(weight->type, weight->columns, &row_bytes));
    if (act.block != 0)
        tern_quantize_row(x, weight->columns, act, quantized);
    for (uint32_t row = 0; row < weight->rows; row++) {
        out[row] =
            tern_product(weight->type, m->segments.weights.data + weight->offset + row * row_bytes,
                         weight->columns, act, act.block != 0 ? (void *)quantized : x);
        if (bias != NULL)
            out[row] = tern_value(out[row] + vector_of(m, bias)[row]);
    }
}

static void norm(const struct model *m, const struct tern_weight *gain, const float *x, float *out)
{
    assert_true(tern_norm(x, vector_of(m, gain), gain->columns, 1e-5f, out));
}

static void turn(const struct model *m, const struct tern_weight *gain, uint32_t heads,
                 uint32_t position, float *x)
{
    const float *pairs = (const float *)(const void *)(m->segments.tables.data +
                                                       position * (uint64_t)m->rope.stride);
    for (uint32_t h = 0; h < heads; h++, x += MODEL_HEAD_SIZE) {
        if (m->options.head_norms)
            norm(m, gain, x, x);
        assert_true(tern_rope(x, pairs, MODEL_HEAD_SIZE, MODEL_HEAD_SIZE, TERN_ROPE_HALVES, x));
    }
}

static void attend(const struct model *m, const struct layer_weights *w, uint32_t l,
                   uint32_t position, uint8_t *cache, const float *x, float *out)
{
    static uint32_t pages[MODEL_CONTEXT / TERN_PAGE_POSITIONS];
    const bool biases = m->options.biases;
    float q[LARGEST], k[LARGEST], v[LARGEST];
    for (uint32_t i = 0; i < MODEL_CONTEXT / TERN_PAGE_POSITIONS; i++)
        pages[i] = i;
    multiply(m, &w->q, biases ? &w->q_bias : NULL, x, q);
    multiply(m, &w->k, biases ? &w->k_bias : NULL, x, k);
    multiply(m, &w->v, biases ? &w->v_bias : NULL, x, v);
    turn(m, &w->q_norm, MODEL_HEADS, position, q);
    turn(m, &w->k_norm, MODEL_KV_HEADS, position, k);
    struct tern_attention a = {
        .cache = cache,
        .pages = pages,
        .kv = &m->plan->kv,
        .kv_layer = l,
        .position = position,
        .window = m->options.window,
        .scale = (float)(1 / sqrt(MODEL_HEAD_SIZE)),
    };
    for (uint32_t h = 0; h < MODEL_HEADS; h++) {
        const uint32_t shared = MODEL_HEADS / MODEL_KV_HEADS;
        const float *key = k + h / shared * MODEL_HEAD_SIZE;
        const float *value = v + h / shared * MODEL_HEAD_SIZE;
        a.kv_head = h / shared;
        tern_kv_store(m->options.kv, key, MODEL_HEAD_SIZE,
                      (void *)(uintptr_t)tern_kv_key(&a, position));
        tern_kv_store(m->options.kv, value, MODEL_HEAD_SIZE,
                      (void *)(uintptr_t)tern_kv_value(&a, position));
        assert_true(tern_attend(&a, q + h * MODEL_HEAD_SIZE, 1, out + h * MODEL_HEAD_SIZE));
    }
}

static void evaluate_layer(const struct model *m, uint32_t l, uint32_t position, uint8_t *cache,
                           float *x)
{
    const struct layer_weights *w = &m->layer[l];
    float normed[LARGEST], mixed[LARGEST], gate[LARGEST], up[LARGEST], y[LARGEST];
    norm(m, &w->attention_norm, x, normed);
    attend(m, w, l, position, cache, normed, mixed);
    multiply(m, &w->out, NULL, mixed, y);
    assert_true(tern_add_rows(x, y, MODEL_WIDTH, x));
    norm(m, &w->ffn_norm, x, normed);
    multiply(m, &w->gate, NULL, normed, gate);
    multiply(m, &w->up, NULL, normed, up);
    assert_true(tern_glu(TERN_SILU, gate, up, MODEL_FFN, gate));
    multiply(m, &w->down, NULL, gate, y);
    assert_true(tern_add_rows(x, y, MODEL_WIDTH, x));
}

void model_evaluate(const struct model *model, const uint32_t *tokens, uint32_t count, float *out)
{
    uint8_t *cache = calloc(MODEL_CONTEXT / TERN_PAGE_POSITIONS, model->plan->kv.page_bytes);
    uint64_t row_bytes;
    assert_non_null(cache);
    assert_true(tern_row_bytes(model->options.type, MODEL_WIDTH, &row_bytes));
    for (uint32_t p = 0; p < count; p++) {
        float x[LARGEST], normed[LARGEST];
        assert_true(tern_widen_row(model->options.type,
                                   model->segments.weights.data + model->embedding.offset +
                                       tokens[p] * row_bytes,
                                   MODEL_WIDTH, 1, x));
        for (uint32_t l = 0; l < MODEL_LAYERS; l++)
            evaluate_layer(model, l, p, cache, x);
        norm(model, &model->final_norm, x, normed);
        multiply(model, &model->head, NULL, normed, out + (size_t)p * MODEL_VOCABULARY);
    }
    free(cache);
}
