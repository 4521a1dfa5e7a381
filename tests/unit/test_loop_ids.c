/* coordinator/loop: ids after 2^31 of them, which no test can wait for. */
#include "coordinator/loop.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned calls;

static void count(void *context)
{
    (void)context;
    calls++;
}

static void stop(void *context)
{
    tern_loop_stop(context);
}

static void ids_begin_again_past_those_in_use(void **state)
{
    (void)state;
    int ends[2];
    struct tern_loop *loop = tern_loop_new();
    assert_int_equal(pipe(ends), 0);
    const int watch = tern_loop_watch_fd(loop, ends[0], count, NULL);
    const int old = tern_loop_timer(loop, tern_now_ns(), count, NULL);
    loop->last_id = INT_MAX - 1;
    const int last = tern_loop_timer(loop, tern_now_ns() + 1000, count, NULL);
    assert_int_equal(last, INT_MAX);
    const int first = tern_loop_timer(loop, tern_now_ns() + 1000000, stop, loop);
    assert_true(first > 0 && first != watch && first != old);
    assert_true(tern_loop_run(loop));
    assert_int_equal(calls, 2);
    tern_loop_unwatch(loop, watch);
    assert_int_equal(loop->watch_count, 0);
    tern_loop_free(loop);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ids_begin_again_past_those_in_use)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
