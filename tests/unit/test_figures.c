/* Tokens a second: in all by time spent, recently by the clock. */
#include "coordinator/schedule/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const uint64_t second = 1000000000;

/* Steps of one decoded token, 10 ms each, half of it computing. */
static uint64_t decode(struct tern_figures *figures, uint64_t from, int steps)
{
    uint64_t now = from;
    for (int i = 0; i < steps; i++) {
        now += second / 100;
        tern_figures_add(figures, (struct tern_count){.decode = 1}, second / 200, now);
    }
    return now;
}

static void test_steady(void **state)
{
    (void)state;
    struct tern_figures figures = {0};
    const uint64_t now = decode(&figures, 1000 * second, 2000);
    assert_float_equal(tern_figures_recent(&figures, now).decode, 100, 1);
    assert_float_equal(tern_figures_all(&figures).decode, 200, 1);
    assert_int_equal(figures.all.decode, 2000);
    assert_int_equal(figures.steps, 2000);
    assert_true(tern_figures_recent(&figures, now).prompt == 0);
}

static void test_short_work_is_not_diluted(void **state)
{
    (void)state;
    struct tern_figures figures = {0};
    uint64_t now = decode(&figures, 1000 * second, 100);
    assert_float_equal(tern_figures_recent(&figures, now).decode, 100, 1);
    now = decode(&figures, now + 60 * second, 100); /* after a rest */
    assert_float_equal(tern_figures_recent(&figures, now).decode, 100, 1);
}

static void test_idle(void **state)
{
    (void)state;
    struct tern_figures figures = {0};
    assert_true(tern_figures_recent(&figures, 1000 * second).decode == 0);
    assert_true(tern_figures_all(&figures).decode == 0);
    const uint64_t now = decode(&figures, 1000 * second, 500);
    assert_true(tern_figures_recent(&figures, now + 6 * second).decode == 0);
    assert_float_equal(tern_figures_all(&figures).decode, 200, 1);
}

static void test_mixed_steps_share_their_time(void **state)
{
    (void)state;
    struct tern_figures figures = {0};
    tern_figures_add(&figures, (struct tern_count){.prompt = 30, .decode = 10}, second, 9 * second);
    assert_float_equal(tern_figures_all(&figures).prompt, 40, 0.01);
    assert_float_equal(tern_figures_all(&figures).decode, 40, 0.01);
    tern_figures_add(&figures, (struct tern_count){0}, second, 9 * second);
    assert_int_equal(figures.steps, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_short_work_is_not_diluted),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_mixed_steps_share_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
