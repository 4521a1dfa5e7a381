/* workers/compute-cpu/pool: all work of every dispatch is done when it returns, whether helpers
 * spin or sleep, come or stay away; growing meanwhile. Meant for the thread sanitizer too. */
#include "workers/compute-cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct tern_error error;

struct count {
    uint32_t by_thread[16]; /* plain: each thread has its own, the join orders them */
    uint32_t plain_before;  /* written by the caller before the dispatch */
    _Atomic uint32_t next, sum;
    uint32_t units;
};

static void work(void *context, uint32_t thread)
{
    struct count *count = context;
    count->by_thread[thread] += count->plain_before;
    for (;;) {
        const uint32_t unit = atomic_fetch_add(&count->next, 1);
        if (unit >= count->units)
            return;
        atomic_fetch_add(&count->sum, unit);
    }
}

static struct tern_pool *make_pool(uint32_t usable)
{
    struct tern_cores cores;
    tern_cores_find(NULL, &cores);
    cores.usable = usable;
    struct tern_pool *pool = tern_pool_new(&cores);
    assert_non_null(pool);
    return pool;
}

static void dispatch(struct tern_pool *pool, uint32_t threads, uint32_t units)
{
    struct count count = {.plain_before = 1, .units = units};
    tern_pool_run(pool, threads, work, &count);
    assert_int_equal(count.by_thread[0], 1);
    for (uint32_t i = 1; i < 16; i++)
        assert_in_range(count.by_thread[i], 0, i < threads ? 1 : 0);
    assert_int_equal(count.sum, units * (units - 1) / 2);
}

static void all_work_is_done(void **state)
{
    (void)state;
    struct tern_pool *pool = make_pool(2);
    assert_int_equal(tern_pool_grow(pool, 3, &error), TERN_OK);
    for (uint32_t i = 0; i < 2000; i++)
        dispatch(pool, 1 + i % 3, 1 + i % 7);
    tern_pool_free(pool);
}

/* Waits for all three threads to come; without help it would never end. */
static void meet(void *context, uint32_t thread)
{
    _Atomic uint32_t *present = context;
    (void)thread;
    atomic_fetch_add(present, 1);
    while (atomic_load(present) < 3)
        sched_yield();
}

static void helpers_do_help(void **state)
{
    (void)state;
    struct tern_pool *pool = make_pool(2);
    assert_int_equal(tern_pool_grow(pool, 3, &error), TERN_OK);
    for (uint32_t i = 0; i < 20; i++) {
        _Atomic uint32_t present = 0;
        tern_pool_run(pool, 3, meet, &present);
        assert_int_equal(present, 3);
        usleep(500 * (i % 3));
    }
    tern_pool_free(pool);
}

/* A thread that gets no core in time is not waited for: here all helpers are kept from running by
 * never having been started. */
static void nobody_waits_for_those_outside(void **state)
{
    (void)state;
    struct tern_pool *pool = make_pool(4);
    dispatch(pool, 4, 10);
    tern_pool_free(pool);
}

/* Pauses around the length of a spin: threads are awake, falling asleep and asleep. */
static void sleepers_are_woken(void **state)
{
    (void)state;
    struct tern_pool *pool = make_pool(16);
    assert_int_equal(tern_pool_grow(pool, 2, &error), TERN_OK);
    for (uint32_t i = 0; i < 400; i++) {
        dispatch(pool, 2, 3);
        const struct timespec pause = {.tv_nsec = 5000L * (i % 60)};
        nanosleep(&pause, NULL);
    }
    tern_pool_free(pool);
}

static void more_threads_than_cores(void **state)
{
    (void)state;
    struct tern_pool *pool = make_pool(1);
    assert_int_equal(tern_pool_grow(pool, 8, &error), TERN_OK);
    for (uint32_t i = 0; i < 300; i++)
        dispatch(pool, 8 - i % 8, 20);
    tern_pool_free(pool);
}

struct grower {
    struct tern_pool *pool;
    _Atomic bool grown;
};

static void *grow(void *context)
{
    struct grower *grower = context;
    struct tern_error why;
    for (uint32_t threads = 3; threads <= 12; threads++)
        if (tern_pool_grow(grower->pool, threads, &why) != TERN_OK)
            return NULL;
    atomic_store(&grower->grown, true);
    return NULL;
}

static void grows_while_it_works(void **state)
{
    (void)state;
    pthread_t thread;
    struct grower grower = {.pool = make_pool(2)};
    assert_int_equal(tern_pool_grow(grower.pool, 2, &error), TERN_OK);
    assert_int_equal(pthread_create(&thread, NULL, grow, &grower), 0);
    for (uint32_t i = 0; i < 500; i++)
        dispatch(grower.pool, 2, 5);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&grower.grown));
    dispatch(grower.pool, 12, 100);
    tern_pool_free(grower.pool);
}

static void a_silly_number_of_threads_is_refused(void **state)
{
    (void)state;
    struct tern_pool *pool = make_pool(2);
    assert_int_equal(tern_pool_grow(pool, 0, &error), TERN_USAGE);
    assert_int_equal(tern_pool_grow(pool, TERN_MAX_THREADS + 1, &error), TERN_USAGE);
    assert_non_null(strstr(error.message, "513"));
    tern_pool_free(pool);
}

static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void idle_threads_use_no_processor(void **state)
{
    (void)state;
    struct tern_pool *pool = make_pool(4);
    assert_int_equal(tern_pool_grow(pool, 4, &error), TERN_OK);
    dispatch(pool, 4, 10);
    usleep(20000);
    const uint64_t before = cpu_ns();
    usleep(200000);
    assert_true(cpu_ns() - before < 5000000);
    tern_pool_free(pool);
}

static void topology_from_a_file(void **state)
{
    (void)state;
    struct tern_cores found, again;
    tern_cores_find(NULL, &found);
    assert_true(found.count >= 1 && found.usable >= 1 && found.usable <= found.count);
    assert_true(found.runnable >= found.usable);
    /* An unusable file is no reason to fail: the affinity mask remains. */
    tern_cores_find("/nonexistent/topology.xml", &again);
    assert_true(again.count >= 1 && again.usable >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_work_is_done),
        cmocka_unit_test(helpers_do_help),
        cmocka_unit_test(nobody_waits_for_those_outside),
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(more_threads_than_cores),
        cmocka_unit_test(grows_while_it_works),
        cmocka_unit_test(a_silly_number_of_threads_is_refused),
        cmocka_unit_test(idle_threads_use_no_processor),
        cmocka_unit_test(topology_from_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
