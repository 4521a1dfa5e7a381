/* coordinator/supervise: the CPU worker's life, with a fake worker that dies, hangs and lies. */
#include "tests/unit/supervise_harness.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

enum { PATIENCE_MS = 8000 };

static const struct heard *last_heard(const struct harness *h)
{
    return &h->heard[h->heard_count - 1];
}

static void bind_plan(struct harness *h, uint32_t plan)
{
    harness_bind(h, plan);
    harness_hear(h, h->heard_count + 1, PATIENCE_MS);
    assert_int_equal(last_heard(h)->what, HEARD_BOUND);
    assert_int_equal(last_heard(h)->error.status, TERN_OK);
}

static void expect_step(struct harness *h, uint32_t token)
{
    const uint64_t step = harness_issue(h, token, 0, 0);
    assert_true(step > 0);
    harness_hear(h, h->heard_count + 1, PATIENCE_MS);
    assert_int_equal(last_heard(h)->what, HEARD_DONE);
    assert_int_equal(last_heard(h)->step, step);
    assert_int_equal(last_heard(h)->token, token + 1);
}

static void expect_lost(struct harness *h, uint64_t step, enum tern_death death)
{
    harness_hear(h, h->heard_count + 1, PATIENCE_MS);
    assert_int_equal(last_heard(h)->what, HEARD_LOST);
    assert_int_equal(last_heard(h)->step, step);
    assert_int_equal(last_heard(h)->death, death);
}

static void kill_worker(struct harness *h, int signal)
{
    assert_int_equal(kill(harness_process(h, "cpu").pid, signal), 0);
}

/* ---- work ---- */

static void steps_are_done(void **state)
{
    struct harness *h = *state;
    assert_null(harness_process(h, "cpu").role);
    assert_false(tern_supervisor_ready(h->supervisor));
    bind_plan(h, 1);
    for (uint32_t token = 0; token < 100; token++)
        expect_step(h, token);
    const struct tern_process_info cpu = harness_process(h, "cpu");
    assert_true(cpu.pid > 0);
    assert_string_equal(cpu.state, "running");
    assert_int_equal(cpu.restarts, 0);
    assert_int_equal(cpu.calls[TERN_AVX2], 700);
    assert_int_equal(cpu.calls[TERN_SCALAR], 0);
}

static void three_steps_fly_at_once(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    const uint64_t first = harness_issue(h, 6, FAKE_SLOW, 0);
    assert_int_equal(harness_issue(h, 7, 0, 0), first + 1);
    assert_int_equal(harness_issue(h, 8, 0, 0), first + 2);
    assert_false(tern_supervisor_ready(h->supervisor));
    assert_int_equal(harness_issue(h, 9, 0, 0), 0);
    harness_hear(h, h->heard_count + 3, PATIENCE_MS);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(h->heard[1 + i].step, first + i);
    assert_int_equal(h->heard[3].token, 9);
    assert_true(tern_supervisor_ready(h->supervisor));
}

static void plans_come_and_go(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    bind_plan(h, 2);
    expect_step(h, 3);
    tern_supervisor_release(h->supervisor, 1);
    assert_int_equal(harness_issue(h, 3, 0, 0), 0);
    bind_plan(h, 1);
    expect_step(h, 4);
    tern_supervisor_release(h->supervisor, 2);
    tern_supervisor_release(h->supervisor, 3);
}

static void a_plan_released_while_it_is_bound_is_not_answered(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    harness_bind(h, 2);
    tern_supervisor_release(h->supervisor, 2);
    harness_bind(h, 3);
    harness_hear(h, 2, PATIENCE_MS);
    assert_int_equal(last_heard(h)->step, 3);
    expect_step(h, 4);
}

static void nothing_runs_at_idle(void **state)
{
    struct harness *h = *state;
    struct rusage before, after;
    bind_plan(h, 1);
    expect_step(h, 1);
    harness_wait(h, 100); /* the last look at its progress */
    getrusage(RUSAGE_SELF, &before);
    harness_wait(h, 400);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_nvcsw - before.ru_nvcsw < 10);
}

/* ---- deaths ---- */

static void a_crash_loses_the_steps_in_flight(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    const uint64_t first = harness_issue(h, FAKE_CRASH, 1, 0);
    harness_issue(h, 5, 0, 0);
    harness_hear(h, 3, PATIENCE_MS);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(h->heard[1 + i].what, HEARD_LOST);
        assert_int_equal(h->heard[1 + i].step, first + i);
        assert_int_equal(h->heard[1 + i].death, TERN_DEATH_FAULT);
    }
    expect_step(h, FAKE_CRASH);
    const struct tern_process_info cpu = harness_process(h, "cpu");
    assert_int_equal(cpu.restarts, 1);
    assert_string_equal(cpu.state, "running");
}

static void an_exit_is_a_fault_and_a_kill_is_not(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    expect_lost(h, harness_issue(h, FAKE_EXIT, 1, 0), TERN_DEATH_FAULT);
    const uint64_t step = harness_issue(h, FAKE_SLEEP, 2, 0);
    kill_worker(h, SIGKILL);
    expect_lost(h, step, TERN_DEATH_KILLED);
    expect_step(h, 1);
}

static void impossible_results_are_a_fault(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    expect_lost(h, harness_issue(h, FAKE_LIE, 1, 0), TERN_DEATH_FAULT);
    expect_step(h, 1);
}

static void an_idle_death_is_repaired_and_loses_nothing(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    bind_plan(h, 2);
    expect_step(h, 1);
    kill_worker(h, SIGKILL);
    harness_wait(h, 300);
    assert_int_equal(harness_process(h, "cpu").restarts, 1);
    expect_step(h, 2);
    assert_int_equal(h->heard_count, 4);
}

enum { GENERATION = 400 };

/* A generation: each token from the one before; a lost step is issued again. */
static void go_on(struct harness *h, const struct heard *heard)
{
    static uint32_t token;
    if (heard->what == HEARD_DONE)
        token = heard->token;
    if (token < GENERATION && harness_issue(h, token, FAKE_SLOW, 0) == 0)
        fail_msg("not ready for the next step");
    if (token == GENERATION)
        h->wanted = h->heard_count;
}

static void kill_it(void *context)
{
    struct harness *h = context;
    const int pid = harness_process(h, "cpu").pid;
    if (pid > 0)
        kill(pid, SIGKILL);
}

static void a_generation_survives_kills_at_any_moment(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    srand(1);
    const uint64_t now = tern_now_ns();
    for (uint64_t i = 0; i < 12; i++)
        tern_loop_timer(h->loop, now + i * 30000000 + (uint64_t)rand() % 30000000, kill_it, h);
    h->next = go_on;
    go_on(h, &(struct heard){.what = HEARD_DONE, .token = 0});
    harness_hear(h, HARNESS_EVENTS, PATIENCE_MS);
    h->next = NULL;
    uint32_t token = 0;
    for (size_t i = 1; i < h->heard_count; i++)
        if (h->heard[i].what == HEARD_DONE)
            assert_int_equal(h->heard[i].token, ++token);
    assert_int_equal(token, GENERATION);
    assert_true(harness_process(h, "cpu").restarts >= 5);
}

/* ---- hanging ---- */

static void expect_hang(struct harness *h, enum tern_death death, uint32_t order)
{
    bind_plan(h, 1);
    for (uint32_t i = 0; i < 3; i++)
        expect_step(h, i);
    const uint64_t began = tern_now_ns();
    expect_lost(h, harness_issue(h, order, 1, 0), death);
    assert_true(tern_now_ns() - began >= h->supervisor->policy.hang_ns);
    assert_true(tern_now_ns() - began < h->supervisor->policy.hang_ns + 1500000000u);
    expect_step(h, 1);
}

static void a_stopped_worker_is_hung(void **state)
{
    expect_hang(*state, TERN_DEATH_HANG, FAKE_STOP);
}

static void a_sleeping_worker_is_hung(void **state)
{
    expect_hang(*state, TERN_DEATH_HANG, FAKE_SLEEP);
}

static void a_spinning_worker_is_hung(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    for (uint32_t i = 0; i < 3; i++)
        expect_step(h, i);
    /* On a loaded machine it may pass for slow first. */
    expect_lost(h, harness_issue(h, FAKE_SPIN, 1, 0), TERN_DEATH_HANG);
    expect_step(h, 1);
}

static void a_stopped_idle_worker_is_found_when_it_gets_work(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    expect_step(h, 1);
    kill_worker(h, SIGSTOP);
    harness_wait(h, 900);
    assert_int_equal(harness_process(h, "cpu").restarts, 0);
    expect_lost(h, harness_issue(h, 2, 0, 0), TERN_DEATH_HANG);
    expect_step(h, 2);
}

static void a_silent_start_is_hung(void **state)
{
    struct harness *h = *state;
    h->supervisor->policy.unknown_ns = 300000000u;
    setenv("TERN_FAKE", "silent", 1);
    harness_bind(h, 1);
    harness_wait(h, 800);
    unsetenv("TERN_FAKE");
    harness_hear(h, 1, PATIENCE_MS);
    assert_int_equal(last_heard(h)->error.status, TERN_OK);
    assert_true(harness_process(h, "cpu").restarts >= 1);
}

/* 2 s for what stops or sleeps, 3 s for what computes, never more than 60 s. */
static enum judgement judge(struct stall stall)
{
    const uint64_t second = 1000000000u;
    stall.elapsed_ns *= second / 10;
    stall.used_ns *= second / 10;
    stall.extended_ns *= second;
    stall.most_ns = 60 * second;
    stall.patience = (struct patience){2 * second, 2 * second, 3 * second};
    return deadline_judge(&stall);
}

static void the_deadline_depends_on_what_the_worker_does(void **state)
{
    (void)state; /* elapsed and used in tenths of a second, extended in seconds */
    const struct {
        struct stall stall;
        enum judgement judgement;
    } cases[] = {
        {{.elapsed_ns = 19, .stopped = true}, JUDGE_WAIT},
        {{.elapsed_ns = 20, .stopped = true}, JUDGE_HUNG},
        {{.elapsed_ns = 19}, JUDGE_WAIT},
        {{.elapsed_ns = 20}, JUDGE_ASLEEP},
        {{.elapsed_ns = 20, .slept = true}, JUDGE_HUNG},
        {{.elapsed_ns = 29, .wants = true, .used_ns = 29}, JUDGE_WAIT},
        {{.elapsed_ns = 30, .wants = true, .used_ns = 29}, JUDGE_HUNG},
        {{.elapsed_ns = 30, .wants = true, .used_ns = 10}, JUDGE_SLOW},
        {{.elapsed_ns = 50, .wants = true, .used_ns = 29, .extended_ns = 6}, JUDGE_WAIT},
        {{.elapsed_ns = 60, .wants = true, .used_ns = 10, .extended_ns = 6}, JUDGE_SLOW},
        {{.elapsed_ns = 60, .wants = true, .used_ns = 29, .extended_ns = 6}, JUDGE_HUNG},
        {{.elapsed_ns = 599, .wants = true, .extended_ns = 60}, JUDGE_WAIT},
        {{.elapsed_ns = 600, .wants = true, .extended_ns = 60}, JUDGE_HUNG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(judge(cases[i].stall), cases[i].judgement);
}

/* ---- starting and binding ---- */

static void expect_bind_failure(struct harness *h, const char *fake, enum tern_status status,
                                const char *text)
{
    setenv("TERN_FAKE", fake, 1);
    harness_bind(h, 1);
    harness_hear(h, 1, PATIENCE_MS);
    assert_int_equal(last_heard(h)->error.status, status);
    assert_non_null(strstr(last_heard(h)->error.message, text));
    unsetenv("TERN_FAKE");
}

static void a_plan_that_crashes_the_worker_is_given_up(void **state)
{
    struct harness *h = *state;
    expect_bind_failure(h, "crash-bind", TERN_FAILED, "died 3 times");
    assert_int_equal(harness_process(h, "cpu").pid, 0);
    assert_string_equal(harness_process(h, "cpu").state, "stopped");
    bind_plan(h, 1);
    expect_step(h, 1);
}

static void a_plan_that_crashes_the_worker_leaves_others_alone(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    expect_step(h, 1);
    kill_worker(h, SIGKILL); /* plan 1 is bound again in a process that behaves */
    harness_wait(h, 300);
    setenv("TERN_FAKE", "fault-bind", 1);
    harness_bind(h, 2);
    harness_hear(h, 3, PATIENCE_MS);
    unsetenv("TERN_FAKE");
    assert_int_equal(last_heard(h)->what, HEARD_BOUND);
    expect_step(h, 1);
}

static void a_worker_that_cannot_start_fails_the_plan(void **state)
{
    expect_bind_failure(*state, "crash-start", TERN_FAILED, "SIGSEGV");
}

static void a_refused_plan_is_answered_with_the_reason(void **state)
{
    struct harness *h = *state;
    expect_bind_failure(h, "fault-bind", TERN_NO_MEMORY, "no room for it");
    assert_true(harness_process(h, "cpu").pid > 0);
}

static void a_missing_program_is_reported_at_once(void **state)
{
    struct harness *h = *state;
    char path[128];
    struct tern_error error;
    snprintf(path, sizeof path, "%s/tern-cpu", h->folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tern_supervisor_bind(h->supervisor, &h->binding, NULL, NULL, &error),
                     TERN_FAILED);
    assert_non_null(strstr(error.message, path));
}

static void starts_without_a_finished_step_come_later_and_later(void **state)
{
    struct harness *h = *state;
    const uint64_t delays[3] = {150000000u, 300000000u, 600000000u};
    memcpy(h->supervisor->policy.restart_ns, delays, sizeof delays);
    bind_plan(h, 1);
    setenv("TERN_FAKE", "crash-restart", 1);
    const uint64_t step = harness_issue(h, FAKE_CRASH, 1, 0);
    const uint64_t began = tern_now_ns();
    harness_wait(h, 700);
    assert_in_range(harness_process(h, "cpu").restarts, 2, 4);
    assert_string_equal(harness_process(h, "cpu").state, "restarting");
    unsetenv("TERN_FAKE");
    expect_lost(h, step, TERN_DEATH_FAULT);
    assert_true(tern_now_ns() - began >= 1000000000u);
    expect_step(h, 1);
}

static void a_plan_that_was_in_use_is_lost_after_many_deaths(void **state)
{
    struct harness *h = *state;
    const uint64_t delays[3] = {1000000, 1000000, 1000000};
    memcpy(h->supervisor->policy.restart_ns, delays, sizeof delays);
    bind_plan(h, 1);
    expect_step(h, 1);
    setenv("TERN_FAKE", "crash-restart", 1);
    harness_issue(h, FAKE_CRASH, 1, 0);
    harness_hear(h, 3, PATIENCE_MS);
    assert_int_equal(last_heard(h)->what, HEARD_PLAN_LOST);
    assert_int_equal(last_heard(h)->step, 1);
    assert_int_equal(harness_process(h, "cpu").restarts, 10);
    unsetenv("TERN_FAKE");
    bind_plan(h, 1);
    expect_step(h, 1);
}

static void nothing_is_told_of_a_released_plan_s_steps(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    harness_issue(h, 1, FAKE_SLOW, 0);
    tern_supervisor_release(h->supervisor, 1);
    bind_plan(h, 1);
    expect_step(h, 2);
    assert_int_equal(h->heard_count, 3);
}

static void a_wrong_secret_is_refused(void **state)
{
    struct harness *h = *state;
    setenv("TERN_FAKE", "wrong-secret", 1);
    bind_plan(h, 1);
    expect_step(h, 1);
}

static void a_stranger_is_not_listened_to(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    void *stranger = zmq_socket(h->zmq, ZMQ_DEALER);
    assert_int_equal(zmq_connect(stranger, h->control), 0);
    struct tern_pack pack;
    size_t size;
    tern_pack_begin(&pack, TERN_MSG_FAULT);
    tern_pack_u64(&pack, TERN_F_PLAN, 1);
    const void *bytes = tern_pack_end(&pack, &size);
    zmq_send(stranger, bytes, size, 0);
    zmq_send(stranger, "nonsense", 8, 0);
    zmq_send(stranger, "a", 1, ZMQ_SNDMORE);
    zmq_send(stranger, "b", 1, 0);
    tern_pack_free(&pack);
    harness_wait(h, 100);
    const int linger = 0;
    zmq_setsockopt(stranger, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(stranger);
    expect_step(h, 1);
    assert_int_equal(harness_process(h, "cpu").restarts, 0);
}

/* ---- run-ahead ---- */

static void granted_tokens_come_in_order(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    const uint64_t step = harness_issue(h, 10, 0, 20);
    assert_false(tern_supervisor_ready(h->supervisor));
    harness_hear(h, 22, PATIENCE_MS);
    for (uint32_t i = 0; i <= 20; i++) {
        assert_int_equal(h->heard[1 + i].what, i == 0 ? HEARD_DONE : HEARD_GRANTED);
        assert_int_equal(h->heard[1 + i].step, step + i);
        assert_int_equal(h->heard[1 + i].token, 11 + i);
    }
    assert_true(tern_supervisor_ready(h->supervisor));
    assert_int_equal(harness_issue(h, 31, 0, 0), step + 21);
    harness_hear(h, 23, PATIENCE_MS);
    assert_int_equal(last_heard(h)->token, 32);
}

static void a_run_ends_at_an_end_token(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    harness_issue(h, 495, 0, 40);
    harness_hear(h, 6, PATIENCE_MS);
    assert_int_equal(last_heard(h)->token, 500);
    assert_true(tern_supervisor_ready(h->supervisor));
    harness_issue(h, 499, 0, 40);
    harness_hear(h, 7, PATIENCE_MS);
    assert_true(tern_supervisor_ready(h->supervisor));
}

static void a_run_can_be_revoked(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    const uint64_t step = harness_issue(h, 10, 0, 60);
    harness_hear(h, 7, PATIENCE_MS);
    const uint64_t newest = tern_supervisor_revoke(h->supervisor, step);
    assert_in_range(newest, step + 5, step + 59);
    harness_hear(h, 2 + (size_t)(newest - step), PATIENCE_MS);
    assert_int_equal(last_heard(h)->step, newest);
    harness_wait(h, 100);
    assert_int_equal(last_heard(h)->step, newest);
    assert_true(tern_supervisor_ready(h->supervisor));
    expect_step(h, 70);
    assert_int_equal(last_heard(h)->step, step + 61);
    assert_int_equal(tern_supervisor_revoke(h->supervisor, 5), 5);
}

static void a_death_in_a_run_loses_the_step_after_the_last_token(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    harness_issue(h, 10, 0, 60);
    harness_hear(h, 7, PATIENCE_MS);
    kill_worker(h, SIGKILL);
    while (last_heard(h)->what != HEARD_LOST) {
        const struct heard before = *last_heard(h);
        harness_hear(h, h->heard_count + 1, PATIENCE_MS);
        assert_int_equal(last_heard(h)->step, before.step + 1);
    }
    assert_int_equal(last_heard(h)->death, TERN_DEATH_KILLED);
    expect_step(h, 1);
}

/* ---- the end ---- */

static void a_deaf_worker_is_killed_at_the_end(void **state)
{
    struct harness *h = *state;
    setenv("TERN_FAKE", "deaf", 1);
    bind_plan(h, 1);
    expect_step(h, 1); /* the teardown sees whether it is gone */
}

static void a_stopped_worker_is_killed_at_the_end(void **state)
{
    struct harness *h = *state;
    bind_plan(h, 1);
    kill_worker(h, SIGSTOP);
}

static void stat_lines_are_read_whatever_the_name(void **state)
{
    (void)state;
    char letter;
    uint64_t ticks;
    assert_true(
        activity_parse("12 (a) R (b) S 1 1 1 0 -1 4 5 6 7 8 30 12 0 0 20", &letter, &ticks));
    assert_int_equal(letter, 'S');
    assert_int_equal(ticks, 42);
    assert_false(activity_parse("12 a S 1 1", &letter, &ticks));
    assert_false(activity_parse("12 (a) S 1 1", &letter, &ticks));
}

#define WITH_WORKER(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORKER(steps_are_done),
        WITH_WORKER(three_steps_fly_at_once),
        WITH_WORKER(plans_come_and_go),
        WITH_WORKER(a_plan_released_while_it_is_bound_is_not_answered),
        WITH_WORKER(nothing_runs_at_idle),
        WITH_WORKER(a_crash_loses_the_steps_in_flight),
        WITH_WORKER(an_exit_is_a_fault_and_a_kill_is_not),
        WITH_WORKER(impossible_results_are_a_fault),
        WITH_WORKER(an_idle_death_is_repaired_and_loses_nothing),
        WITH_WORKER(a_generation_survives_kills_at_any_moment),
        WITH_WORKER(a_stopped_worker_is_hung),
        WITH_WORKER(a_sleeping_worker_is_hung),
        WITH_WORKER(a_spinning_worker_is_hung),
        WITH_WORKER(a_stopped_idle_worker_is_found_when_it_gets_work),
        WITH_WORKER(a_silent_start_is_hung),
        WITH_WORKER(a_plan_that_crashes_the_worker_is_given_up),
        WITH_WORKER(a_plan_that_crashes_the_worker_leaves_others_alone),
        WITH_WORKER(a_worker_that_cannot_start_fails_the_plan),
        WITH_WORKER(a_refused_plan_is_answered_with_the_reason),
        WITH_WORKER(a_missing_program_is_reported_at_once),
        WITH_WORKER(starts_without_a_finished_step_come_later_and_later),
        WITH_WORKER(a_plan_that_was_in_use_is_lost_after_many_deaths),
        WITH_WORKER(nothing_is_told_of_a_released_plan_s_steps),
        WITH_WORKER(a_wrong_secret_is_refused),
        WITH_WORKER(a_stranger_is_not_listened_to),
        WITH_WORKER(granted_tokens_come_in_order),
        WITH_WORKER(a_run_ends_at_an_end_token),
        WITH_WORKER(a_run_can_be_revoked),
        WITH_WORKER(a_death_in_a_run_loses_the_step_after_the_last_token),
        WITH_WORKER(a_deaf_worker_is_killed_at_the_end),
        WITH_WORKER(a_stopped_worker_is_killed_at_the_end),
        cmocka_unit_test(the_deadline_depends_on_what_the_worker_does),
        cmocka_unit_test(stat_lines_are_read_whatever_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
