/* Work beside the loop: comes back to the loop, short jobs pass long ones, and the end waits. */
#include "coordinator/jobs.h"
#include "proto/wait.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 500 };

struct work {
    struct tern_job job; /* first */
    struct world *world;
    unsigned value;
    bool waits; /* until the gate opens */
    bool again; /* comes again and again */
};

struct world {
    struct tern_loop *loop;
    struct tern_jobs *jobs;
    unsigned done, expected, last;
    char order[16]; /* clients whose jobs are done */
    _Atomic bool gate;
    _Atomic unsigned begun, ran;
};

static void run(struct tern_job *job)
{
    struct work *work = (struct work *)job;
    atomic_fetch_add(&work->world->begun, 1);
    while (work->waits && !atomic_load(&work->world->gate))
        usleep(1000);
    if (work->again)
        usleep(500);
    work->value += 1; /* no atomic: the queue orders it */
    atomic_fetch_add(&work->world->ran, 1);
}

static void done(struct tern_job *job)
{
    struct work *work = (struct work *)job;
    assert_int_equal(work->value, 1);
    struct world *world = work->world;
    world->last = work->waits;
    if (world->done < sizeof world->order)
        world->order[world->done] = (char)job->client;
    atomic_store(&world->gate, true);
    work->value = 0;
    if (work->again)
        tern_jobs_add(world->jobs, job);
    if (++world->done == world->expected)
        tern_loop_stop(world->loop);
}

static void stop_the_loop(struct tern_job *job)
{
    tern_loop_stop(((struct work *)job)->world->loop);
}

static void give_up(void *context)
{
    struct world *world = context;
    tern_loop_stop(world->loop);
}

static void begin(struct world *world, unsigned expected)
{
    struct tern_error error;
    *world = (struct world){.loop = tern_loop_new(), .expected = expected};
    assert_non_null(world->loop);
    assert_int_equal(tern_jobs_new(world->loop, &world->jobs, &error), TERN_OK);
    tern_loop_timer(world->loop, tern_now_ns() + 20000000000ull, give_up, world);
}

static void end(struct world *world)
{
    tern_jobs_free(world->jobs);
    tern_loop_free(world->loop);
}

static void add(struct world *world, struct work *work, size_t bytes, bool waits)
{
    *work = (struct work){
        .job = {.bytes = bytes, .run = run, .done = done}, .world = world, .waits = waits};
    tern_jobs_add(world->jobs, &work->job);
}

/* The first one added, which a thread then holds until the gate opens. */
static void wait_until_one_runs(struct world *world)
{
    while (atomic_load(&world->begun) == 0)
        usleep(1000);
}

static void each_comes_back_once(void **state)
{
    static struct work work[MANY];
    struct world world;
    (void)state;
    begin(&world, MANY);
    for (unsigned i = 0; i < MANY; i++)
        add(&world, &work[i], i % 3 == 0 ? TERN_SHORT_JOB + 1 : i, false);
    assert_true(tern_loop_run(world.loop));
    assert_int_equal(world.done, MANY);
    assert_int_equal(world.ran, MANY);
    end(&world);
}

/* The long one ends only once the short one has: behind it, the short one would never come. */
static void a_short_one_passes_long_ones(void **state)
{
    struct work lengthy[4], brief;
    struct world world;
    (void)state;
    begin(&world, 5);
    for (unsigned i = 0; i < 4; i++)
        add(&world, &lengthy[i], TERN_SHORT_JOB + 1, true);
    add(&world, &brief, TERN_SHORT_JOB, false);
    assert_true(tern_loop_run(world.loop));
    assert_int_equal(world.done, 5);
    assert_int_equal(world.last, true);
    end(&world);
}

/* However many short ones keep coming. */
static void long_ones_get_their_turn(void **state)
{
    struct work brief[16], lengthy;
    struct world world;
    (void)state;
    begin(&world, UINT32_MAX);
    atomic_store(&world.gate, true);
    for (unsigned i = 0; i < 16; i++) {
        brief[i] = (struct work){
            .job = {.bytes = 1, .run = run, .done = done}, .world = &world, .again = true};
        tern_jobs_add(world.jobs, &brief[i].job);
    }
    lengthy = (struct work){.job = {.bytes = TERN_SHORT_JOB + 1, .run = run, .done = stop_the_loop},
                            .world = &world};
    tern_jobs_add(world.jobs, &lengthy.job);
    assert_true(tern_loop_run(world.loop));
    assert_int_equal(lengthy.value, 1);
    assert_true(world.done < 200);
    end(&world);
}

/* The thread is busy with the first of all; who has many waits behind who has few. */
static void clients_take_turns(void **state)
{
    struct work work[8];
    struct world world;
    (void)state;
    begin(&world, 8);
    for (unsigned i = 0; i < 8; i++) {
        work[i] = (struct work){.job = {.bytes = TERN_SHORT_JOB + 1, .run = run, .done = done},
                                .world = &world,
                                .waits = i == 0};
        work[i].job.client = (uint64_t) "aaaaabbc"[i];
        tern_jobs_add(world.jobs, &work[i].job);
        if (i == 0)
            wait_until_one_runs(&world);
    }
    atomic_store(&world.gate, true);
    assert_true(tern_loop_run(world.loop));
    assert_memory_equal(world.order, "aabcabaa", 8);
    end(&world);
}

/* What waits can be taken back, wherever it stands; what runs comes to its end. */
static void what_waits_is_dropped(void **state)
{
    struct work work[6];
    struct world world;
    (void)state;
    begin(&world, 3);
    for (unsigned i = 0; i < 5; i++)
        add(&world, &work[i], TERN_SHORT_JOB + 1, i == 0);
    wait_until_one_runs(&world);
    assert_false(tern_jobs_drop(world.jobs, &work[0].job));
    assert_true(tern_jobs_drop(world.jobs, &work[3].job));
    assert_true(tern_jobs_drop(world.jobs, &work[1].job));
    assert_true(tern_jobs_drop(world.jobs, &work[4].job));
    add(&world, &work[5], TERN_SHORT_JOB + 1, false);
    atomic_store(&world.gate, true);
    assert_true(tern_loop_run(world.loop));
    assert_int_equal(world.ran, 3);
    for (unsigned i = 0; i < 6; i++)
        assert_false(tern_jobs_drop(world.jobs, &work[i].job));
    end(&world);
}

/* What runs is waited for; what is queued never runs; nothing is told. */
static void the_end_waits_for_what_runs(void **state)
{
    struct work work[3];
    struct world world;
    (void)state;
    begin(&world, 3);
    for (unsigned i = 0; i < 3; i++)
        add(&world, &work[i], TERN_SHORT_JOB + 1, i == 0);
    wait_until_one_runs(&world);
    atomic_store(&world.gate, true);
    tern_jobs_free(world.jobs);
    assert_int_equal(world.done, 0);
    assert_int_equal(world.ran, work[0].value + work[1].value + work[2].value);
    tern_loop_free(world.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_comes_back_once),     cmocka_unit_test(a_short_one_passes_long_ones),
        cmocka_unit_test(long_ones_get_their_turn), cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(what_waits_is_dropped),    cmocka_unit_test(the_end_waits_for_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
