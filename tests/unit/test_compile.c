/* coordinator/graph: every family compiles, and fused and unfused plans compute the same. */
#include "coordinator/graph/compile.h"

#include "model_catalog.h"
#include "plan_check.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tern_error error;

static void compile(const struct open_catalog *open, const struct tern_options *options,
                    uint32_t context, struct tern_compiled *out)
{
    if (tern_compile(open->catalog, options, context, out, &error) != TERN_OK)
        fail_msg("%s", error.message);
}

/* Compiles fused and unfused, checks both plans, and that they compute the same. */
static void check_both(const struct open_catalog *open, struct tern_options options,
                       struct plan_result *fused, struct plan_result *unfused)
{
    struct tern_compiled compiled;
    options.unfused = false;
    compile(open, &options, 512, &compiled);
    plan_check(&compiled, fused);
    const struct tern_compile_report report = compiled.report;
    tern_compiled_free(&compiled);
    options.unfused = true;
    compile(open, &options, 512, &compiled);
    plan_check(&compiled, unfused);
    assert_int_equal(compiled.report.operations_after, report.operations_before);
    assert_int_equal(compiled.report.bytes_after, report.bytes_before);
    tern_compiled_free(&compiled);
    assert_true(report.operations_after < report.operations_before);
    assert_true(report.bytes_after < report.bytes_before);
    /* Places are packed: at most a quarter more than the values alive at one time. */
    assert_true(report.bytes_after >= fused->peak);
    assert_true(report.bytes_after <= fused->peak + fused->peak / 4);
    assert_int_equal(fused->logits, unfused->logits);
    assert_int_equal(fused->cache, unfused->cache);
}

static void every_family_in_every_form(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "qwen3", "gemma3"};
    static const uint32_t types[] = {TERN_F32,  TERN_F16,  TERN_BF16, TERN_Q4_0,
                                     TERN_Q4_1, TERN_Q5_0, TERN_Q5_1, TERN_Q8_0,
                                     TERN_Q4_K, TERN_Q5_K, TERN_Q6_K};
    struct model model;
    struct open_catalog open;
    struct plan_result fused, unfused;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
            for (uint32_t bits = 8; bits <= 16; bits += 8) {
                model_make(&model, families[f], 7, types[t]);
                model_open(&model, &open);
                const struct tern_options options = {.tier = -1, .batch = 33, .precision = bits};
                check_both(&open, options, &fused, &unfused);
                model_close(&open);
            }
}

static void counts(void **state)
{
    (void)state;
    struct model model;
    struct open_catalog open;
    struct plan_result fused, unfused;
    const struct tern_options options = {.tier = -1, .precision = TERN_FAST};
    model_make(&model, "qwen2", 2, TERN_Q4_K);
    model_open(&model, &open);
    check_both(&open, options, &fused, &unfused);
    model_close(&open);

    /* Two layers: norm, quantize, 3 products, 3 biases, 2 ropes, write, attention, quantize,
     * output, add, norm, quantize, gate, up, glu, quantize, down, add; embedding; two gathers in
     * the last layer; norm, quantize, head, argmax. */
    assert_int_equal(unfused.count[TERN_OP_EMBED], 1);
    assert_int_equal(unfused.count[TERN_OP_NORM], 2 * 2 + 1);
    assert_int_equal(unfused.count[TERN_OP_QUANTIZE], 2 * 4 + 1);
    assert_int_equal(unfused.count[TERN_OP_MATMUL], 2 * 7 + 1);
    assert_int_equal(unfused.count[TERN_OP_BIAS], 2 * 3);
    assert_int_equal(unfused.count[TERN_OP_ROPE], 2 * 2);
    assert_int_equal(unfused.count[TERN_OP_GLU], 2);
    assert_int_equal(unfused.count[TERN_OP_ADD], 2 * 2);
    assert_int_equal(unfused.count[TERN_OP_GATHER], 2);
    assert_int_equal(unfused.count[TERN_OP_ARGMAX], 1);

    assert_int_equal(fused.count[TERN_OP_NORM_QUANTIZE], 1); /* the first; others follow a sum */
    assert_int_equal(fused.count[TERN_OP_ADD_NORM], 4);
    assert_int_equal(fused.count[TERN_OP_NORM] + fused.count[TERN_OP_ADD], 0);
    assert_int_equal(fused.count[TERN_OP_QUANTIZE], 2 * 2); /* attention output, inner values */
    assert_int_equal(fused.count[TERN_OP_MATMUL], 2 * 3 + 1);
    assert_int_equal(fused.count[TERN_OP_MATMUL_GLU], 2);
    assert_int_equal(fused.count[TERN_OP_QKV_ROPE_WRITE], 2);
    assert_int_equal(fused.count[TERN_OP_BIAS] + fused.count[TERN_OP_ROPE], 0);
    assert_int_equal(fused.count[TERN_OP_KV_WRITE] + fused.count[TERN_OP_GLU], 0);
    assert_int_equal(fused.count[TERN_OP_ATTENTION], 2);
}

static const struct tern_instruction *find(const struct tern_plan *plan, uint16_t op,
                                           uint16_t layer)
{
    for (uint32_t i = 0; i < plan->instructions; i++) {
        const struct tern_instruction *code = &tern_plan_instructions(plan)[i];
        if (code->op == op && code->layer == layer)
            return code;
    }
    fail_msg("no %s in layer %u", tern_op_name(op), layer);
    return NULL;
}

/* A norm that is read in two forms stays a float value; each form is quantized once. */
static void two_forms_of_one_value(void **state)
{
    (void)state;
    struct model model;
    struct open_catalog open;
    struct plan_result fused, unfused;
    const struct tern_options options = {.tier = -1, .precision = TERN_HIGH};
    model_make(&model, "llama", 1, TERN_Q4_K);
    model_tensor(&model, "blk.0.attn_v.weight", TERN_Q8_0, 256, 128);
    model_tensor(&model, "blk.0.ffn_up.weight", TERN_F16, 256, 512);
    model_open(&model, &open);
    check_both(&open, options, &fused, &unfused);
    assert_int_equal(fused.count[TERN_OP_NORM_QUANTIZE], 0);
    assert_int_equal(fused.count[TERN_OP_NORM], 1);
    assert_int_equal(fused.count[TERN_OP_MATMUL_GLU], 0);
    assert_int_equal(fused.count[TERN_OP_GLU], 1);

    struct tern_compiled compiled;
    compile(&open, &options, 100, &compiled);
    const struct tern_instruction *qk = find(compiled.plan, TERN_OP_MATMUL, 0);
    assert_int_equal(qk->weights, 2);
    assert_int_equal(qk->act.block, 256);
    assert_int_equal(qk->act.bits, 16);
    assert_string_equal(tern_plan_label(compiled.plan, qk->label), "attn q+k");
    tern_compiled_free(&compiled);
    model_close(&open);
}

/* Everything after attention of the last layer runs on output rows, nothing before it. */
static void output_rows_begin_after_the_last_attention(void **state)
{
    (void)state;
    struct model model;
    struct open_catalog open;
    const struct tern_options options = {.tier = -1, .unfused = true};
    struct tern_compiled compiled;
    model_make(&model, "gemma3", 3, TERN_Q8_0);
    model_open(&model, &open);
    compile(&open, &options, 100, &compiled);
    const struct tern_plan *plan = compiled.plan;
    bool attended = false;
    for (uint32_t i = 0; i < plan->instructions; i++) {
        const struct tern_instruction *code = &tern_plan_instructions(plan)[i];
        assert_int_equal(attended, (code->flags & TERN_ON_OUTPUTS) != 0);
        attended |= code->op == TERN_OP_ATTENTION && code->layer == 2;
    }
    tern_compiled_free(&compiled);
    model_close(&open);
}

static void gemma_layers(void **state)
{
    (void)state;
    struct model model;
    struct open_catalog open;
    const struct tern_options options = {.tier = -1};
    struct tern_compiled compiled;
    model_make(&model, "gemma3", 12, TERN_Q8_0);
    model_u32(&model, "attention.key_length", 64);
    model_f32(&model, "rope.scaling.factor", 8);
    model_open(&model, &open);
    compile(&open, &options, 100, &compiled);
    assert_int_equal(compiled.tables, 2);
    assert_int_equal(compiled.tables_bytes, 2 * 100 * 256);
    assert_true(compiled.table[0].base == 10000 && compiled.table[0].linear == 8);
    assert_true(compiled.table[1].base == 10000 && compiled.table[1].linear == 1);
    assert_true(find(compiled.plan, TERN_OP_EMBED, 0xffff)->factor == 16.0f);
    for (uint16_t layer = 0; layer < 12; layer++) {
        const bool full = layer == 5 || layer == 11;
        const struct tern_instruction *attention = find(compiled.plan, TERN_OP_ATTENTION, layer);
        const struct tern_instruction *rope = find(compiled.plan, TERN_OP_QKV_ROPE_WRITE, layer);
        assert_int_equal(attention->window, full ? 0 : 32);
        assert_true(attention->scale == 0.125f);
        assert_int_equal(rope->rope.offset, compiled.table[full ? 0 : 1].offset);
        assert_int_equal(rope->rope_pairs, TERN_ROPE_HALVES);
        assert_int_equal(rope->weights, 2);
        assert_int_equal(find(compiled.plan, TERN_OP_MATMUL_GLU, layer)->activation, TERN_GELU);
    }
    tern_compiled_free(&compiled);
    model_close(&open);
}

static void sizes_agree_with_the_plan(void **state)
{
    (void)state;
    struct model model;
    struct open_catalog open;
    struct tern_compiled compiled;
    const struct tern_options options = {.tier = -1, .batch = 64, .kv = TERN_KV_F32};
    uint64_t weights, kv, activations, tables;
    model_make(&model, "qwen3", 4, TERN_Q6_K);
    model_open(&model, &open);
    compile(&open, &options, 1000, &compiled);
    assert_int_equal(tern_compile_sizes(open.catalog, &options, 1000, &weights, &kv, &activations,
                                        &tables, &error),
                     TERN_OK);
    const struct tern_plan *plan = compiled.plan;
    assert_int_equal(weights, compiled.weight_bytes);
    assert_int_equal(activations, plan->activation_bytes);
    assert_int_equal(tables, compiled.tables_bytes);
    assert_int_equal(plan->kv.page_bytes, 4 * 2 * 2 * 64 * 64 * 4);
    assert_int_equal(kv, 16 * plan->kv.page_bytes);
    tern_compiled_free(&compiled);
    model_close(&open);
}

/* A head whose logits would be huge gets fewer output rows than the batch has rows. */
static void outputs_are_bounded(void **state)
{
    (void)state;
    struct model model;
    struct open_catalog open;
    struct tern_compiled compiled;
    const struct tern_options options = {.tier = -1, .batch = 512};
    model_make(&model, "llama", 1, TERN_Q8_0);
    model_open(&model, &open);
    compile(&open, &options, 64, &compiled);
    assert_int_equal(((struct tern_plan *)compiled.plan)->max_outputs, 512);
    tern_compiled_free(&compiled);
    model_close(&open);
    model_tensor(&model, "token_embd.weight", TERN_Q8_0, 256, 262144);
    model_open(&model, &open);
    compile(&open, &options, 64, &compiled);
    assert_int_equal(((struct tern_plan *)compiled.plan)->max_rows, 512);
    assert_int_equal(((struct tern_plan *)compiled.plan)->max_outputs, 64);
    tern_compiled_free(&compiled);
    model_close(&open);
}

/* ---- golden models ---- */

/* Parts of names of models whose family or types are not supported. */
static bool is_supported(const char *name)
{
    static const char *const others[] = {"bitnet", "mixtral", "olmoe", "qwen3moe", "iq4", "mxfp4",
                                         "tq1",    "tq2",     "q1_0",  "q2_",      "q3_k"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strstr(name, others[i]) != NULL)
            return false;
    return true;
}

static void check_golden(const char *path, const char *name)
{
    struct open_catalog open;
    struct plan_result fused, unfused;
    struct tern_compiled compiled;
    const struct tern_options options = {.tier = -1, .precision = TERN_HIGH, .kv = TERN_KV_F32};
    assert_true(model_open_file(path, &open));
    if (is_supported(name)) {
        check_both(&open, options, &fused, &unfused);
    } else {
        assert_int_equal(tern_compile(open.catalog, &options, 512, &compiled, &error),
                         TERN_UNSUPPORTED);
        assert_null(compiled.plan);
    }
    model_close(&open);
}

static void golden_models(void **state)
{
    (void)state;
    char folder[500], path[1000];
    const char *golden = getenv("TERN_GOLDEN"), *source = getenv("TERN_SOURCE");
    if (golden != NULL)
        snprintf(folder, sizeof folder, "%s/models", golden);
    else
        snprintf(folder, sizeof folder, "%s/tests/golden/models", source != NULL ? source : ".");
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int checked = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".gguf") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        check_golden(path, entry->d_name);
        checked++;
    }
    closedir(dir);
    assert_true(checked > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_in_every_form),
        cmocka_unit_test(counts),
        cmocka_unit_test(two_forms_of_one_value),
        cmocka_unit_test(output_rows_begin_after_the_last_attention),
        cmocka_unit_test(gemma_layers),
        cmocka_unit_test(sizes_agree_with_the_plan),
        cmocka_unit_test(outputs_are_bounded),
        cmocka_unit_test(golden_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
