/* workers/compute-cpu/bind: plans as the compiler writes them are bound; a plan with any number out
 * of range is refused with a message that names the instruction and what is wrong. */
#include "cpu_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tern_error error;

static enum tern_status bind_model(const struct model *model, uint32_t threads)
{
    struct tern_program *program;
    const enum tern_status status =
        tern_bind(1, &model->segments, tern_kernels(TERN_SCALAR), threads, &program, &error);
    tern_program_free(program);
    return status;
}

static const struct model_options fused = {.fused = true,
                                           .type = TERN_Q8_0,
                                           .precision = TERN_HIGH,
                                           .kv = TERN_KV_F16,
                                           .biases = true,
                                           .head_norms = true,
                                           .two_stages = true};
static const struct model_options unfused = {.type = TERN_Q8_0,
                                             .precision = TERN_FAST,
                                             .kv = TERN_KV_F32,
                                             .biases = true,
                                             .head_norms = true};

static void good_plans_are_bound(void **state)
{
    (void)state;
    static const struct model_options *const all[] = {&fused, &unfused};
    for (size_t i = 0; i < 2; i++) {
        struct model model;
        model_make(&model, all[i]);
        for (uint32_t threads = 1; threads < 6; threads++)
            assert_int_equal(bind_model(&model, threads), TERN_OK);
        assert_int_equal(bind_model(&model, 0), TERN_USAGE);
        assert_int_equal(bind_model(&model, TERN_MAX_THREADS + 1), TERN_USAGE);
        model_free(&model);
    }
}

/* Changes one thing, expects a refusal with `words` in the message, restores it. */
#define REFUSED(model, place, value, words)                                                        \
    do {                                                                                           \
        const __typeof__(place) kept = (place);                                                    \
        (place) = (value);                                                                         \
        expect_refusal(&(model), words, #place " = " #value);                                      \
        (place) = kept;                                                                            \
        assert_int_equal(bind_model(&(model), 2), TERN_OK);                                        \
    } while (0)

static void expect_refusal(const struct model *model, const char *words, const char *what)
{
    error.message[0] = '\0';
    if (bind_model(model, 2) == TERN_OK)
        fail_msg("bound although %s", what);
    if (strstr(error.message, words) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", what, error.message, words);
}

static void header_out_of_range(void **state)
{
    (void)state;
    struct model model;
    model_make(&model, &fused);
    struct tern_plan *plan = model.plan;
    REFUSED(model, plan->version, 99, "version");
    REFUSED(model, plan->instructions, 0, "disagree");
    REFUSED(model, plan->instructions, UINT32_MAX, "disagree");
    REFUSED(model, plan->instructions, 1000, "disagree");
    REFUSED(model, plan->stages, 0, "stages");
    REFUSED(model, plan->stages, 65, "stages");
    REFUSED(model, plan->stages, 3, "the last stage is 2 of 3");
    REFUSED(model, plan->max_rows, 0, "rows");
    REFUSED(model, plan->max_rows, TERN_MAX_ROWS + 1, "rows");
    REFUSED(model, plan->max_outputs, 0, "outputs");
    REFUSED(model, plan->max_outputs, MODEL_ROWS + 1, "outputs");
    REFUSED(model, plan->vocabulary, 0, "vocabulary");
    REFUSED(model, plan->vocabulary, UINT32_MAX, "vocabulary");
    REFUSED(model, plan->vocabulary, 129, "logits");
    REFUSED(model, plan->context, 0, "context");
    REFUSED(model, plan->context, TERN_MAX_CONTEXT + 1, "context");
    REFUSED(model, plan->context, MODEL_CONTEXT + 1, "rope");
    REFUSED(model, plan->activation_bytes, UINT64_MAX, "activations");
    REFUSED(model, plan->logits.segment, TERN_SEGMENT_KV, "logits");
    REFUSED(model, plan->logits.offset, 4 << 20, "logits");
    REFUSED(model, plan->logits.stride, 64, "logits");
    model_free(&model);
}

static void cache_out_of_range(void **state)
{
    (void)state;
    struct model model;
    model_make(&model, &fused);
    struct tern_kv_layout *kv = &model.plan->kv;
    REFUSED(model, kv->type, 3, "cache type");
    REFUSED(model, kv->type, TERN_KV_F32, "layer of a page");
    REFUSED(model, kv->layers, 0, "kv_layer");
    REFUSED(model, kv->layers, 1, "kv_layer");
    REFUSED(model, kv->layers, UINT32_MAX, "page of");
    REFUSED(model, kv->kv_heads, 0, "heads");
    REFUSED(model, kv->kv_heads, 1 << 20, "heads");
    REFUSED(model, kv->head_size, 8, "heads");
    REFUSED(model, kv->head_size, 512, "heads");
    REFUSED(model, kv->page_layer_bytes, UINT64_MAX, "layer of a page");
    REFUSED(model, kv->page_layer_bytes, 0, "layer of a page");
    REFUSED(model, kv->page_bytes, 4096, "page of");
    REFUSED(model, kv->page_bytes, kept + 64, "page of");
    model_free(&model);
}

/* Every place that an instruction uses, pushed out of its segment in every way. */
static void check_operand(struct model *model, struct tern_operand *operand)
{
    if (operand->segment == TERN_SEGMENT_NONE)
        return;
    REFUSED(*model, operand->segment, TERN_SEGMENT_NONE, "instruction");
    REFUSED(*model, operand->segment, TERN_SEGMENT_WEIGHTS, "instruction");
    REFUSED(*model, operand->offset, model->segments.activations.size, "instruction");
    REFUSED(*model, operand->offset, UINT64_MAX - 63, "instruction");
    REFUSED(*model, operand->offset, kept + 2, "instruction");
    REFUSED(*model, operand->stride, UINT32_MAX - 63, "instruction");
    REFUSED(*model, operand->stride, 0, "instruction");
    REFUSED(*model, operand->stride, kept + 2, "instruction");
}

static void check_weight(struct model *model, struct tern_weight *weight)
{
    if (weight->rows == 0)
        return;
    REFUSED(*model, weight->type, 255, "instruction");
    REFUSED(*model, weight->type, UINT32_MAX, "instruction");
    REFUSED(*model, weight->type, 10 /* Q2_K: no kernels */, "instruction");
    REFUSED(*model, weight->type, TERN_Q4_K, "instruction");
    REFUSED(*model, weight->rows, UINT32_MAX, "instruction");
    REFUSED(*model, weight->columns, 0, "instruction");
    REFUSED(*model, weight->columns, UINT32_MAX, "instruction");
    REFUSED(*model, weight->columns, kept + 32, "instruction");
    REFUSED(*model, weight->offset, model->segments.weights.size, "instruction");
    REFUSED(*model, weight->offset, UINT64_MAX - 255, "instruction");
    REFUSED(*model, weight->offset, kept + 1, "instruction");
}

static void check_all_places(const struct model_options *options)
{
    struct model model;
    model_make(&model, options);
    for (uint32_t i = 0; i < model.plan->instructions; i++) {
        struct tern_instruction *in = &model.instructions[i];
        for (int k = 0; k < 3; k++) {
            check_operand(&model, &in->in[k]);
            check_operand(&model, &in->out[k]);
            check_weight(&model, &in->weight[k]);
            check_weight(&model, &in->bias[k]);
        }
    }
    model_free(&model);
}

static void places_out_of_range(void **state)
{
    (void)state;
    check_all_places(&fused);
    check_all_places(&unfused);
}

static void numbers_out_of_range(void **state)
{
    (void)state;
    struct model model;
    model_make(&model, &unfused);
    struct tern_instruction *in = model.instructions;
    REFUSED(model, in->op, TERN_OP_NONE, "unknown operation");
    REFUSED(model, in->op, TERN_OPS, "unknown operation");
    REFUSED(model, in->stage, 1, "stage");
    REFUSED(model, in->flags, TERN_ON_OUTPUTS, "embeds all rows");
    REFUSED(model, in->factor, INFINITY, "factor");

    in = model_find(&model, TERN_OP_NORM);
    REFUSED(model, in->epsilon, 0, "epsilon");
    REFUSED(model, in->epsilon, NAN, "epsilon");
    REFUSED(model, in->groups, 0, "groups");
    REFUSED(model, in->groups, UINT32_MAX, "groups");
    REFUSED(model, in->columns, 0, "columns");
    REFUSED(model, in->columns, UINT32_MAX, "columns");

    in = model_find(&model, TERN_OP_QUANTIZE);
    REFUSED(model, in->act.block, 0, "blocks of 0");
    REFUSED(model, in->act.block, 48, "blocks of 48");
    REFUSED(model, in->act.bits, 4, "4 bits");
    REFUSED(model, in->columns, 65, "65 activations");

    in = model_find(&model, TERN_OP_MATMUL);
    REFUSED(model, in->weights, 0, "weights");
    REFUSED(model, in->weights, 4, "weights");
    REFUSED(model, in->weights, 2, "weight[1]");
    REFUSED(model, in->act.block, 256, "blocks of 256");
    REFUSED(model, in->act.block, 0, "blocks of 0");

    in = model_find(&model, TERN_OP_ROPE);
    REFUSED(model, in->head_size, 15, "head size");
    REFUSED(model, in->head_size, 257, "head size");
    REFUSED(model, in->rope_size, 0, "rotated");
    REFUSED(model, in->rope_size, 31, "rotated");
    REFUSED(model, in->rope_size, 34, "rotated");
    REFUSED(model, in->rope_pairs, 0, "pairs");
    REFUSED(model, in->flags, TERN_ON_OUTPUTS, "all rows");
    REFUSED(model, in->rope.segment, TERN_SEGMENT_ACTIVATIONS, "rope");
    REFUSED(model, in->rope.offset, UINT64_MAX - 3, "rope");
    REFUSED(model, in->rope.stride, 4, "rope");

    in = model_find(&model, TERN_OP_KV_WRITE);
    REFUSED(model, in->kv_layer, MODEL_LAYERS, "kv_layer");
    REFUSED(model, in->kv_heads, MODEL_KV_HEADS + 1, "key heads");
    REFUSED(model, in->flags, TERN_ON_OUTPUTS, "all rows");

    in = model_find(&model, TERN_OP_ATTENTION);
    REFUSED(model, in->heads, MODEL_HEADS + 1, "share");
    REFUSED(model, in->heads, 0, "share");
    REFUSED(model, in->kv_heads, 0, "share");
    REFUSED(model, in->scale, NAN, "scale");
    REFUSED(model, in->kv_layer, UINT32_MAX, "kv_layer");
    REFUSED(model, in->flags, TERN_ON_OUTPUTS, "all rows");

    REFUSED(model, model_find(&model, TERN_OP_GLU)->activation, 0, "activation");
    REFUSED(model, model_find(&model, TERN_OP_ARGMAX)->columns, 98, "vocabulary");
    model_free(&model);
}

static void numbers_of_fused_operations_out_of_range(void **state)
{
    (void)state;
    struct model model;
    model_make(&model, &fused);
    struct tern_instruction *in = model_find(&model, TERN_OP_MATMUL_GLU);
    REFUSED(model, in->weight[1].rows, MODEL_FFN - 1, "up has 159");
    REFUSED(model, in->activation, 9, "activation");

    in = model_find(&model, TERN_OP_QKV_ROPE_WRITE);
    REFUSED(model, in->weight[0].columns, MODEL_HEAD_SIZE - 1, "weight[0]");
    REFUSED(model, in->epsilon, -1, "epsilon");
    REFUSED(model, in->heads, 5, "share");
    REFUSED(model, in->kv_layer, 7, "kv_layer");

    in = model_find(&model, TERN_OP_ADD_NORM);
    REFUSED(model, in->act.bits, 32, "32 bits");
    REFUSED(model, in->epsilon, INFINITY, "epsilon");
    in = model_find(&model, TERN_OP_NORM_QUANTIZE);
    REFUSED(model, in->act.block, 0, "blocks of 0");

    for (uint32_t i = 0; i < model.plan->instructions; i++)
        if (i != model.plan->instructions / 2)
            REFUSED(model, model.instructions[i].stage, 5, "stage");
    model_free(&model);
}

static void overlaps_are_found(void **state)
{
    (void)state;
    struct model model;
    model_make(&model, &fused);
    struct tern_instruction *in = model_find(&model, TERN_OP_MATMUL);
    REFUSED(model, in->out[0].offset, in->in[0].offset, "out[0] overlaps in[0]");
    REFUSED(model, in->out[1].offset, in->out[2].offset + 64, "out[1] overlaps out[2]");
    in = model_find(&model, TERN_OP_ATTENTION);
    REFUSED(model, in->out[0].offset, in->in[0].offset, "out[0] overlaps in[0]");

    /* Rows side by side under one stride are apart; elementwise operations may work in place. */
    in = model_find(&model, TERN_OP_MATMUL);
    const uint32_t row = MODEL_HEADS * MODEL_HEAD_SIZE * sizeof(float);
    for (uint32_t k = 0; k < 3; k++)
        in->out[k] = (struct tern_operand){TERN_SEGMENT_ACTIVATIONS, 3 * row, (2 << 20) + k * row};
    assert_int_equal(bind_model(&model, 2), TERN_OK);
    REFUSED(model, in->out[1].offset, kept - 64, "overlaps");
    in = model_find(&model, TERN_OP_ADD);
    in->out[0] = in->in[1];
    assert_int_equal(bind_model(&model, 2), TERN_OK);
    REFUSED(model, in->out[0].offset, kept + in->out[0].stride, "overlaps");
    model_free(&model);
}

static void messages_name_the_instruction(void **state)
{
    (void)state;
    struct model model;
    model_make(&model, &fused);
    /* One label after the instructions, for all of them. */
    char *labels = (char *)(model.instructions + model.plan->instructions);
    strcpy(labels, "the layer");
    model.plan->label_bytes = strlen(labels) + 1;
    model.plan->label_count = 1;
    model.instructions[1].epsilon = 0;
    assert_int_equal(bind_model(&model, 1), TERN_FAILED);
    assert_string_equal(error.message, "plan 1, instruction 1 (the layer, norm+quantize): epsilon "
                                       "0: must be finite and at least 2^-50");
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_plans_are_bound),
        cmocka_unit_test(header_out_of_range),
        cmocka_unit_test(cache_out_of_range),
        cmocka_unit_test(places_out_of_range),
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(numbers_of_fused_operations_out_of_range),
        cmocka_unit_test(overlaps_are_found),
        cmocka_unit_test(messages_name_the_instruction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
