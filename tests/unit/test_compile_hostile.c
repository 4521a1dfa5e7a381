/* coordinator/graph: hyperparameters and tensors that no right file has, and files that are right
 * but not supported. Every message names what is wrong. */
#include "coordinator/graph/compile.h"

#include "model_catalog.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct model model;

/* Compiles `model`, which must fail with `status` and a message that holds both texts. */
static void assert_refused(enum tern_status status, const char *first, const char *second)
{
    struct tern_error error = {0};
    struct open_catalog open;
    struct tern_compiled compiled;
    uint64_t sizes[4];
    const struct tern_options options = {.tier = -1};
    model_open(&model, &open);
    const enum tern_status found = tern_compile(open.catalog, &options, 100, &compiled, &error);
    if (found != status || strstr(error.message, first) == NULL ||
        strstr(error.message, second) == NULL)
        fail_msg("status %d, not %d with %s and %s: %s", found, status, first, second,
                 error.message);
    assert_null(compiled.plan);
    assert_null(compiled.weight_offsets);
    assert_int_equal(tern_compile_sizes(open.catalog, &options, 100, &sizes[0], &sizes[1],
                                        &sizes[2], &sizes[3], NULL),
                     status);
    model_close(&open);
}

static void assert_accepted(void)
{
    struct tern_error error;
    struct open_catalog open;
    struct tern_compiled compiled;
    const struct tern_options options = {.tier = -1};
    model_open(&model, &open);
    if (tern_compile(open.catalog, &options, 100, &compiled, &error) != TERN_OK)
        fail_msg("%s", error.message);
    tern_compiled_free(&compiled);
    model_close(&open);
}

static void fresh(const char *architecture)
{
    model_make(&model, architecture, 2, TERN_Q8_0);
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        const char *shown;
    } cases[] = {
        {"block_count", 0, "is 0"},
        {"block_count", 4000000000, "4000000000"},
        {"embedding_length", 0, "is 0"},
        {"embedding_length", UINT32_MAX, "4294967295"},
        {"feed_forward_length", 0, "is 0"},
        {"attention.head_count", 0, "is 0"},
        {"attention.head_count", 3, "attention.head_count, 3"},
        {"attention.head_count", UINT32_MAX, "4294967295"},
        {"attention.head_count_kv", 0, "is 0"},
        {"attention.head_count_kv", 3, "is 3"},
        {"attention.head_count_kv", 8, "is 8"},
        {"context_length", 0, "is 0"},
        {"rope.dimension_count", 0, "is 0"},
        {"rope.dimension_count", 63, "is 63"},
        {"rope.dimension_count", 66, "is 66"},
        {"rope.dimension_count", UINT32_MAX, "4294967295"},
        {"attention.key_length", 0, "is 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char key[100] = "llama.";
        fresh("llama");
        model_u32(&model, cases[i].key, cases[i].value);
        assert_refused(TERN_BAD_MODEL, strcat(key, cases[i].key), cases[i].shown);
    }
}

static void missing_and_mistyped(void **state)
{
    (void)state;
    static const char *const required[] = {
        "block_count",         "embedding_length",     "context_length",
        "feed_forward_length", "attention.head_count", "attention.layer_norm_rms_epsilon",
    };
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        char key[100] = "llama.";
        fresh("llama");
        model_remove_key(&model, required[i]);
        assert_refused(TERN_BAD_MODEL, strcat(key, required[i]), "has no");
    }
    fresh("llama");
    model_text(&model, "block_count", "two");
    assert_refused(TERN_BAD_MODEL, "llama.block_count", "whole number");
    fresh("llama");
    model_f32(&model, "block_count", 2.5f);
    assert_refused(TERN_BAD_MODEL, "llama.block_count", "2.5");
    fresh("llama");
    model_list(&model, "feed_forward_length", (const uint32_t[]){512, 512}, 2);
    assert_refused(TERN_UNSUPPORTED, "llama.feed_forward_length", "list");
    fresh("gemma3");
    model_remove_key(&model, "attention.sliding_window");
    assert_refused(TERN_BAD_MODEL, "gemma3.attention.sliding_window", "has no");
}

static void floats(void **state)
{
    (void)state;
    static const float epsilons[] = {0, -1e-5f, NAN, INFINITY, 0x1p-51f};
    for (size_t i = 0; i < sizeof epsilons / sizeof epsilons[0]; i++) {
        fresh("qwen2");
        model_f32(&model, "attention.layer_norm_rms_epsilon", epsilons[i]);
        assert_refused(TERN_BAD_MODEL, "qwen2.attention.layer_norm_rms_epsilon", "2^-50");
    }
    fresh("qwen2");
    model_f32(&model, "attention.layer_norm_rms_epsilon", 0x1p-50f);
    assert_accepted();
    static const float bases[] = {0, -10000, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        fresh("qwen2");
        model_f32(&model, "rope.freq_base", bases[i]);
        assert_refused(TERN_BAD_MODEL, "qwen2.rope.freq_base", "positive");
        fresh("gemma3");
        model_f32(&model, "rope.freq_base_swa", bases[i]);
        assert_refused(TERN_BAD_MODEL, "gemma3.rope.freq_base_swa", "positive");
        fresh("llama");
        model_f32(&model, "rope.scaling.factor", bases[i]);
        assert_refused(TERN_BAD_MODEL, "llama.rope.scaling.factor", "positive");
    }
}

static void what_is_not_supported(void **state)
{
    (void)state;
    fresh("llama");
    model_text(&model, "general.architecture", "mamba");
    assert_refused(TERN_UNSUPPORTED, "\"mamba\"", tern_family_names());
    model_remove_key(&model, "general.architecture");
    assert_refused(TERN_BAD_MODEL, "general.architecture", "has no");
    static const char *const parts[] = {"adapter", "mmproj", "imatrix"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        fresh("llama");
        model_remove_key(&model, "block_count");
        model_text(&model, "general.type", parts[i]);
        assert_refused(TERN_UNSUPPORTED, "general.type", parts[i]);
    }
    fresh("llama");
    model_text(&model, "general.type", "model");
    assert_accepted();
    fresh("llama");
    model_text(&model, "rope.scaling.type", "yarn");
    assert_refused(TERN_UNSUPPORTED, "llama.rope.scaling.type", "yarn");
    fresh("llama");
    model_text(&model, "rope.scaling.type", "none");
    model_f32(&model, "rope.scaling.factor", 8);
    assert_accepted();
    fresh("llama");
    model_u32(&model, "expert_count", 8);
    assert_refused(TERN_UNSUPPORTED, "llama.expert_count", "8");
    fresh("llama");
    model_u32(&model, "expert_count", 0);
    assert_accepted();
    fresh("llama");
    model_u32(&model, "split.count", 3);
    assert_refused(TERN_UNSUPPORTED, "split.count", "3");
    fresh("gemma3");
    model_f32(&model, "final_logit_softcapping", 30);
    assert_refused(TERN_UNSUPPORTED, "gemma3.final_logit_softcapping", "30");
    fresh("gemma3");
    model_u32(&model, "attention.sliding_window_pattern", 4);
    assert_refused(TERN_UNSUPPORTED, "gemma3.attention.sliding_window_pattern", "6");
    model_u32(&model, "attention.sliding_window_pattern", 6);
    assert_accepted();
    model_flags(&model, "attention.sliding_window_pattern", (const bool[]){true, true}, 2);
    assert_accepted();
    model_flags(&model, "attention.sliding_window_pattern", (const bool[]){true, false}, 2);
    assert_refused(TERN_UNSUPPORTED, "gemma3.attention.sliding_window_pattern", "6");
    fresh("qwen3");
    model_u32(&model, "attention.sliding_window", 128);
    assert_refused(TERN_UNSUPPORTED, "qwen3.attention.sliding_window", "128");
    model_u32(&model, "attention.sliding_window", 1000); /* the whole trained context */
    assert_accepted();
}

/* What may change the answer and is read by nobody ends the load, by its name. */
static void keys_that_nobody_reads(void **state)
{
    (void)state;
    static const char *const families[] = {"llama", "qwen2", "qwen3", "gemma3"};
    static const char *const numbers[] = {
        "attention.output_scale",       "attention.temperature_length",
        "attention.key_length_swa",     "attention.shared_kv_layers",
        "attention.no_such_key",        "rope.dimension_count_swa",
        "rope.scaling.low_freq_factor", "rope.scaling.yarn_ext_factor",
        "rope.scaling.no_such_key",     "rope.no_such_key",
        "nextn_predict_layers",
    };
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        char key[100];
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            fresh(families[f]);
            model_u32(&model, numbers[i], 3);
            snprintf(key, sizeof key, "%s.%s", families[f], numbers[i]);
            assert_refused(TERN_UNSUPPORTED, key, families[f]);
        }
        fresh(families[f]);
        model_list(&model, "rope.dimension_sections", (const uint32_t[]){16, 24, 24, 0}, 4);
        assert_refused(TERN_UNSUPPORTED, "rope.dimension_sections", families[f]);
        model_remove_key(&model, "rope.dimension_sections");
        /* Without meaning here, or of something else. */
        model_u32(&model, "rope.scaling.original_context_length", 64);
        model_f32(&model, "rope.scaling.attn_factor", 1);
        model_f32(&model, "attention.layer_norm_epsilon", 1);
        model_u32(&model, "attention.shared_kv_layers", 0);
        model_u32(&model, "vision.attention.head_count", 3);
        model_u32(&model, "attentions.head_count", 3);
        assert_accepted();
    }
    static const char *const windows[] = {"attention.sliding_window_pattern", "rope.freq_base_swa",
                                          "rope.local.freq_base", "rope.global.freq_base"};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        fresh("llama"); /* all layers have the window, or none */
        model_u32(&model, "attention.sliding_window", 16);
        assert_accepted();
        model_u32(&model, windows[i], 6);
        assert_refused(TERN_UNSUPPORTED, windows[i], "llama");
    }
    fresh("llama");
    model_text(&model, "attn_logit_softcapping", "fifty");
    assert_refused(TERN_UNSUPPORTED, "llama.attn_logit_softcapping", "fifty");
    model_list(&model, "attn_logit_softcapping", (const uint32_t[]){0}, 1);
    assert_refused(TERN_UNSUPPORTED, "llama.attn_logit_softcapping", "no number");
}

static struct tern_hyper read_hyper(void)
{
    struct tern_error error;
    struct open_catalog open;
    struct tern_hyper hyper;
    model_open(&model, &open);
    if (tern_hyper_read(open.catalog, &hyper, &error) != TERN_OK)
        fail_msg("%s", error.message);
    model_close(&open);
    return hyper;
}

/* Converters write the same number in several ways. */
static void other_ways_to_write(void **state)
{
    (void)state;
    fresh("llama");
    model_u32(&model, "rope.freq_base", 500000);
    model_u32(&model, "rope.scaling.factor", 4);
    model_u32(&model, "attention.layer_norm_rms_epsilon", 1);
    assert_float_equal(read_hyper().rope_base, 500000, 0);
    assert_float_equal(read_hyper().rope_linear, 4, 0);
    assert_float_equal(read_hyper().epsilon, 1, 0);
    model_u32(&model, "rope.freq_base", 0);
    assert_refused(TERN_BAD_MODEL, "llama.rope.freq_base is 0", "positive");
    fresh("gemma3");
    model_remove_key(&model, "rope.freq_base");
    model_f32(&model, "rope.global.freq_base", 500000);
    model_f32(&model, "rope.local.freq_base", 20000);
    assert_float_equal(read_hyper().rope_base, 500000, 0);
    assert_float_equal(read_hyper().rope_base_window, 20000, 0);
}

/* key_length rules where it is there; every shape follows from it. */
static void head_sizes(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 8, 15, 257, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char shown[32];
        snprintf(shown, sizeof shown, "is %u", sizes[i]);
        fresh("llama");
        model_u32(&model, "attention.key_length", sizes[i]);
        model_u32(&model, "attention.value_length", sizes[i]);
        assert_refused(TERN_UNSUPPORTED, "llama.attention.key_length", shown);
    }
    fresh("llama");
    model_u32(&model, "attention.key_length", 32);
    model_u32(&model, "attention.value_length", 32);
    assert_refused(TERN_BAD_MODEL, "blk.0.attn_q.weight", "[256, 256]");
    for (int layer = 0; layer < 2; layer++) {
        const char *const names[2][4] = {{"blk.0.attn_q.weight", "blk.0.attn_k.weight",
                                          "blk.0.attn_v.weight", "blk.0.attn_output.weight"},
                                         {"blk.1.attn_q.weight", "blk.1.attn_k.weight",
                                          "blk.1.attn_v.weight", "blk.1.attn_output.weight"}};
        model_tensor(&model, names[layer][0], TERN_Q8_0, 256, 128);
        model_tensor(&model, names[layer][1], TERN_Q8_0, 256, 64);
        model_tensor(&model, names[layer][2], TERN_Q8_0, 256, 64);
        model_tensor(&model, names[layer][3], TERN_Q8_0, 128, 256);
    }
    assert_accepted();
    model_u32(&model, "attention.value_length", 64);
    assert_refused(TERN_UNSUPPORTED, "llama.attention.value_length", "64");
    fresh("llama");
    model_u32(&model, "attention.key_length", 512);
    model_u32(&model, "attention.value_length", 512);
    assert_refused(TERN_UNSUPPORTED, "llama.attention.key_length", "512");
    model_u32(&model, "attention.key_length", 8);
    model_u32(&model, "attention.value_length", 8);
    assert_refused(TERN_UNSUPPORTED, "llama.attention.key_length", "16 to 256");
}

static void tensors(void **state)
{
    (void)state;
    fresh("llama");
    model_remove_tensor(&model, "blk.1.ffn_down.weight");
    assert_refused(TERN_BAD_MODEL, "blk.1.ffn_down.weight", "no tensor");
    fresh("llama");
    model_remove_tensor(&model, "token_embd.weight");
    assert_refused(TERN_BAD_MODEL, "token_embd.weight", "no tensor");
    fresh("llama");
    model_tensor(&model, "blk.1.ffn_down.weight", TERN_Q8_0, 256, 512);
    assert_refused(TERN_BAD_MODEL, "blk.1.ffn_down.weight", "[256, 512]");
    fresh("llama");
    model_tensor(&model, "output_norm.weight", TERN_F32, 256, 2);
    assert_refused(TERN_BAD_MODEL, "output_norm.weight", "[256, 2]");
    fresh("llama");
    model_tensor(&model, "output_norm.weight", TERN_F16, 256, 1);
    assert_refused(TERN_UNSUPPORTED, "output_norm.weight", "F16");
    fresh("llama");
    model_tensor(&model, "blk.0.attn_q.weight", 35, 256, 256);
    assert_refused(TERN_UNSUPPORTED, "blk.0.attn_q.weight", "TQ2_0");
    fresh("llama");
    model_tensor(&model, "output.weight", TERN_Q6_K, 256, 299);
    assert_refused(TERN_BAD_MODEL, "output.weight", "[256, 299]");
    model_tensor(&model, "output.weight", TERN_Q6_K, 256, 300);
    assert_accepted();
}

/* Tensors that the family has no place for. */
static void unexpected_tensors(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_q.bias", "blk.0.attn_q_norm.weight",
                                        "output_norm.bias", "blk.2.attn_norm.weight",
                                        "blk.1.attn_sub_norm.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fresh("llama");
        model_tensor(&model, names[i], TERN_F32, 256, 1);
        assert_refused(TERN_UNSUPPORTED, names[i], "llama");
    }
    fresh("qwen2");
    model_tensor(&model, "rope_freqs.weight", TERN_F32, 32, 1);
    assert_refused(TERN_UNSUPPORTED, "rope_freqs.weight", "qwen2");
    fresh("llama");
    model_tensor(&model, "v.patch_embd.weight", TERN_F32, 32, 1);
    assert_accepted();
    model_tensor(&model, "rope_freqs.weight", TERN_F32, 32, 1);
    assert_accepted();
    model_tensor(&model, "rope_freqs.weight", TERN_F32, 64, 1);
    assert_refused(TERN_BAD_MODEL, "rope_freqs.weight", "[32]");
}

/* Contexts and batches that cannot be, and the largest that can: no size overflows. */
static void extremes(void **state)
{
    (void)state;
    struct tern_error error;
    struct open_catalog open;
    struct tern_compiled compiled;
    uint64_t weights, kv, activations, tables;
    struct tern_options options = {.tier = -1};
    fresh("llama");
    model_u32(&model, "context_length", UINT32_MAX);
    model_open(&model, &open);
    struct tern_hyper hyper;
    assert_int_equal(tern_hyper_read(open.catalog, &hyper, &error), TERN_OK);
    assert_int_equal(hyper.trained_context, TERN_MAX_CONTEXT);
    static const uint32_t contexts[] = {0, TERN_MAX_CONTEXT + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof contexts / sizeof contexts[0]; i++)
        assert_int_equal(tern_compile(open.catalog, &options, contexts[i], &compiled, &error),
                         TERN_USAGE);
    options.batch = TERN_MAX_ROWS + 1;
    assert_int_equal(tern_compile(open.catalog, &options, 1, &compiled, &error), TERN_USAGE);
    options.batch = TERN_MAX_ROWS;
    assert_int_equal(tern_compile_sizes(open.catalog, &options, TERN_MAX_CONTEXT, &weights, &kv,
                                        &activations, &tables, &error),
                     TERN_OK);
    assert_int_equal(kv, (uint64_t)TERN_MAX_CONTEXT * 2 * 2 * 2 * 64 * 2);
    assert_int_equal(tables, (uint64_t)TERN_MAX_CONTEXT * 256);
    options.batch = 1;
    assert_int_equal(tern_compile(open.catalog, &options, 1, &compiled, &error), TERN_OK);
    tern_compiled_free(&compiled);
    model_close(&open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(missing_and_mistyped),
        cmocka_unit_test(floats),
        cmocka_unit_test(what_is_not_supported),
        cmocka_unit_test(keys_that_nobody_reads),
        cmocka_unit_test(other_ways_to_write),
        cmocka_unit_test(head_sizes),
        cmocka_unit_test(tensors),
        cmocka_unit_test(unexpected_tensors),
        cmocka_unit_test(extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
