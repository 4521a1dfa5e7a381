/* How many rows a step may have, learned from steps whose times are known. */
#include "coordinator/schedule/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST = 100000, MS = 1000000, US = 1000 };

/* A prompt of `positions` in steps as long as the pace says; a row takes `row_ns`, and `slope_ns`
 * for each position that it attends to. The longest of the steps after the first ten. */
static uint64_t read_prompt(struct tern_pace *pace, uint32_t positions, uint64_t row_ns,
                            uint64_t slope_ns, uint32_t sharing)
{
    uint64_t longest = 0;
    for (uint32_t at = 0, step = 0; at < positions; step++) {
        const uint32_t rows = tern_pace_rows(pace, at, sharing, MOST);
        assert_true(rows >= 1 && rows <= MOST);
        const uint64_t attended = rows * (uint64_t)at + rows * (rows + 1ull) / 2;
        const uint64_t ns = rows * row_ns + attended * slope_ns;
        tern_pace_measure(pace, rows, attended, ns);
        if (step >= 10 && ns > longest)
            longest = ns;
        at += rows;
    }
    return longest;
}

static void steps_last_as_long_as_they_should(void **state)
{
    (void)state;
    struct tern_pace alone = {0}, shared = {0}, among = {0};
    const uint64_t longest = read_prompt(&alone, 20000, 300 * US, 0, 0);
    assert_in_range(longest, 200 * MS, 300 * MS);
    assert_in_range(read_prompt(&shared, 20000, 300 * US, 0, 1), 100 * MS, 150 * MS);
    /* Three lanes in turn take no longer than one. */
    assert_in_range(3 * read_prompt(&among, 20000, 300 * US, 0, 3), 100 * MS, 150 * MS);
}

/* The far end of a prompt, where a row takes twenty times as long, and the next one's beginning. */
static void the_position_counts(void **state)
{
    (void)state;
    struct tern_pace pace = {0};
    assert_in_range(read_prompt(&pace, 20000, 200 * US, 200, 1), 90 * MS, 190 * MS);
    read_prompt(&pace, 2000, 200 * US, 200, 1);
    assert_true(tern_pace_rows(&pace, 0, 1, MOST) > 2 * tern_pace_rows(&pace, 19000, 1, MOST));
}

/* Beside tokens a step may take the time of those on top; where that alone is long, few rows. */
static void a_slow_small_step(void **state)
{
    (void)state;
    struct tern_pace pace = {0};
    for (int i = 0; i < 40; i++)
        tern_pace_measure(&pace, 1, 100, 40 * MS);
    assert_in_range(read_prompt(&pace, 5000, 5 * MS, 0, 1), 120 * MS, 190 * MS);
    for (int i = 0; i < 40; i++)
        tern_pace_measure(&pace, 1, 100, 400ull * MS);
    assert_in_range(read_prompt(&pace, 500, 400ull * MS, 0, 1), 1, 525ull * MS);
}

/* Growing from little that is known, shrinking at once: the machine became slow. */
static void a_change_of_speed(void **state)
{
    (void)state;
    struct tern_pace pace = {0};
    assert_true(tern_pace_rows(&pace, 0, 0, MOST) <= 64);
    read_prompt(&pace, 20000, 10 * US, 0, 0);
    const uint32_t fast = tern_pace_rows(&pace, 0, 0, MOST);
    assert_true(fast > 10000);
    for (int i = 0; i < 12; i++) {
        const uint32_t rows = tern_pace_rows(&pace, 0, 0, MOST);
        tern_pace_measure(&pace, rows, rows * (uint64_t)rows / 2, rows * 1000ull * US);
    }
    assert_in_range(tern_pace_rows(&pace, 0, 0, MOST), 100, 500);
}

static void what_says_nothing(void **state)
{
    (void)state;
    struct tern_pace pace = {0};
    tern_pace_measure(&pace, 0, 0, 5);
    tern_pace_measure(&pace, 100, 5000, 0);
    assert_int_equal(pace.rows, 0);
    assert_int_equal(tern_pace_rows(&pace, 0, 1, 3), 3);
    assert_int_equal(tern_pace_rows(&pace, UINT32_MAX, 0, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_last_as_long_as_they_should),
        cmocka_unit_test(the_position_counts),
        cmocka_unit_test(a_slow_small_step),
        cmocka_unit_test(a_change_of_speed),
        cmocka_unit_test(what_says_nothing),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
