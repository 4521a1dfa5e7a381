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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_in_every_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
