/*
 * The scheduler against a supervisor whose worker's tokens depend on every token and position of
 * the cache: fairness, chunks, pages, preemption, credit, cancelling, deaths, run-ahead.
 */
#include "tests/unit/fake_supervisor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXT = 512, MOST_IDS = CONTEXT + 1 };

static struct tern_scheduler *scheduler;
static struct tern_lane lane;

/* A session and what its owner saw. */
struct owner {
    struct tern_session *session;
    uint32_t ids[MOST_IDS], count, prompt;
    uint32_t row_count; /* logits rows received, in order */
    bool ended;
    const char *reason;
    enum tern_status status;
    struct tern_error error;
};

static void on_changed(void *context)
{
    struct owner *owner = context;
    const struct tern_session *session = owner->session;
    assert_false(owner->ended);
    owner->count = session->count;
    memcpy(owner->ids, session->ids, session->count * sizeof *session->ids);
    if (!session->ended)
        return;
    owner->ended = true;
    owner->reason = session->reason;
    owner->error = session->error;
    tern_session_free(owner->session);
    owner->session = NULL;
}

static void on_rows(void *context, uint32_t first, uint32_t rows, const uint8_t *logits,
                    uint32_t stride)
{
    struct owner *owner = context;
    assert_int_equal(first, owner->row_count);
    assert_true(rows <= owner->session->credit);
    for (uint32_t i = 0; i < rows; i++) {
        const float *row = (const float *)(const void *)(logits + (size_t)i * stride);
        const uint32_t *ids = owner->session->ids;
        assert_true(row[17] == fake_logit(ids, first + i + 1, 17));
    }
    owner->row_count += rows;
}

static struct owner owners[80];
static uint64_t asking_client; /* of the next submit */

static struct owner *submit(int index, uint32_t prompt, uint32_t most, bool every_row,
                            float temperature)
{
    struct owner *owner = &owners[index];
    uint32_t ids[CONTEXT];
    *owner = (struct owner){.prompt = prompt};
    for (uint32_t i = 0; i < prompt; i++)
        ids[i] = ((uint32_t)index * 131 + i * 7) % FAKE_VOCABULARY;
    struct tern_session_wish wish = {.ids = ids,
                                     .count = prompt,
                                     .most = most,
                                     .every_row = every_row,
                                     .sampling = tern_sampling_greedy()};
    wish.client = asking_client;
    wish.sampling.temperature = temperature;
    wish.sampling.seed = 99;
    const struct tern_session_events events = {owner, on_changed, on_rows, NULL};
    owner->session = tern_session_new(&wish, CONTEXT, &events);
    assert_non_null(owner->session);
    tern_scheduler_submit(scheduler, &lane, owner->session);
    return owner;
}

static void open_lane(uint32_t max_rows, uint32_t pages)
{
    fake_open(&scheduler, &lane, CONTEXT, max_rows, max_rows < 64 ? max_rows : 64, pages);
}

static void finish_all(void)
{
    uint32_t steps = 0;
    while (fake_finish(scheduler))
        assert_true(++steps < 20000);
}

static void check_answer(const struct owner *owner, uint32_t count)
{
    assert_true(owner->ended);
    assert_int_equal(owner->error.status, TERN_OK);
    assert_string_equal(owner->reason, "length");
    assert_int_equal(owner->count, owner->prompt + count);
    for (uint32_t i = owner->prompt; i < owner->count; i++)
        assert_int_equal(owner->ids[i], fake_next(owner->ids, i));
}

static void one_session_gives_the_models_tokens(void **state)
{
    (void)state;
    open_lane(64, 8);
    submit(0, 200, 50, false, 0);
    finish_all();
    check_answer(&owners[0], 50);
    assert_int_equal(fake.reached, 200 + 49);
    fake_close(scheduler, &lane);
}

static void lengths_end_where_they_should(void **state)
{
    (void)state;
    open_lane(64, 8);
    submit(0, 10, 0, false, 0);
    submit(1, 10, 1, false, 0);
    submit(2, CONTEXT, 5, false, 0);
    submit(3, CONTEXT - 3, 1000, false, 0);
    finish_all();
    check_answer(&owners[0], 0);
    check_answer(&owners[1], 1);
    check_answer(&owners[2], 0);
    check_answer(&owners[3], 3);
    fake_close(scheduler, &lane);
}

static void neighbours_change_nothing_and_all_advance(void **state)
{
    (void)state;
    open_lane(32, 40);
    for (int i = 0; i < 4; i++)
        submit(i, 30 + 50 * (uint32_t)i, 40, false, 0);
    /* Every session has a row in every step. */
    assert_true(fake_finish(scheduler));
    for (int step = 0; step < 20; step++) {
        for (int i = 0; i < 4; i++)
            assert_true(owners[i].session == NULL || owners[i].session->rows > 0);
        assert_true(fake_finish(scheduler));
    }
    finish_all();
    for (int i = 0; i < 4; i++)
        check_answer(&owners[i], 40);
    fake_close(scheduler, &lane);
}

static void with_one_row_they_take_turns(void **state)
{
    (void)state;
    uint32_t had[3] = {0};
    open_lane(1, 40);
    for (int i = 0; i < 3; i++)
        submit(i, 40, 40, false, 0);
    for (int step = 0; step < 90; step++) {
        had[fake.step.row[0].sequence]++;
        assert_true(fake_finish(scheduler));
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(had[i], 29, 31);
    finish_all();
    for (int i = 0; i < 3; i++)
        check_answer(&owners[i], 40);
    fake_close(scheduler, &lane);
}

static void more_sessions_than_page_tables(void **state)
{
    (void)state;
    open_lane(64, FAKE_PAGES);
    for (int i = 0; i < 80; i++)
        submit(i, 5, 10, false, 0);
    finish_all();
    for (int i = 0; i < 80; i++)
        check_answer(&owners[i], 10);
    fake_close(scheduler, &lane);
}

static void the_youngest_gives_its_pages(void **state)
{
    (void)state;
    open_lane(64, 9); /* one whole context and a page */
    submit(0, 100, 300, false, 0);
    submit(1, 90, 300, false, 0);
    submit(2, 60, 200, false, 0);
    uint32_t seen = 0, lost = 0;
    while (fake_finish(scheduler)) {
        const struct tern_session *young = owners[2].session;
        if (young != NULL && young->pages > 0)
            seen++;
        if (young != NULL && seen > 0 && young->pages == 0)
            lost++;
    }
    assert_true(lost > 0);
    check_answer(&owners[0], 300);
    check_answer(&owners[1], 300);
    check_answer(&owners[2], 200);
    fake_close(scheduler, &lane);
}

static void a_full_cache_ends_a_lone_session(void **state)
{
    (void)state;
    open_lane(64, 2);
    submit(0, 100, 300, false, 0);
    finish_all();
    check_answer(&owners[0], 2 * TERN_PAGE_POSITIONS - 100 + 1);
    fake_close(scheduler, &lane);
}

static void who_waits_goes_on_when_a_full_cache_ends_another(void **state)
{
    (void)state;
    open_lane(64, 2);
    submit(0, 100, 300, false, 0);
    submit(1, 70, 20, false, 0);
    finish_all();
    check_answer(&owners[0], 2 * TERN_PAGE_POSITIONS - 100 + 1);
    check_answer(&owners[1], 20);
    fake_close(scheduler, &lane);
}

/* The younger one has the turn, and the older one all other pages. */
static void one_row_without_a_page_stops_nobody(void **state)
{
    (void)state;
    open_lane(1, 5);
    submit(0, 150, 150, false, 0);
    for (int i = 0; i < 149; i++)
        fake_finish(scheduler);
    submit(1, 10, 100, false, 0);
    finish_all();
    check_answer(&owners[0], 150);
    check_answer(&owners[1], 100);
    fake_close(scheduler, &lane);
}

static void rows_are_bounded_by_time(void **state)
{
    (void)state;
    uint32_t largest = 0;
    open_lane(512, 8);
    fake.row_ns = 5 * 1000 * 1000; /* 50 rows take 250 ms */
    submit(0, 500, 1, false, 0);
    while (fake.in_flight) {
        largest = fake.step.rows > largest ? fake.step.rows : largest;
        fake_finish(scheduler);
    }
    assert_in_range(largest, 40, 50);
    check_answer(&owners[0], 1);
    fake_close(scheduler, &lane);
}

static void end_tokens_stop_and_stay_out(void **state)
{
    (void)state;
    open_lane(64, 8);
    submit(0, 20, 30, false, 0);
    finish_all();
    check_answer(&owners[0], 30);
    const uint32_t at = 25;
    lane.end_tokens = 1;
    lane.end_token[0] = owners[0].ids[at];
    for (uint32_t i = 20; i < at; i++)
        assert_int_not_equal(owners[0].ids[i], lane.end_token[0]);
    submit(0, 20, 30, false, 0);
    finish_all();
    assert_true(owners[0].ended);
    assert_string_equal(owners[0].reason, "stop");
    assert_int_equal(owners[0].count, at);
    fake_close(scheduler, &lane);
}

static void logits_come_in_order_within_credit(void **state)
{
    (void)state;
    open_lane(128, 16);    /* 64 outputs a step */
    fake.not_ready = true; /* nothing is issued before the credit is set */
    struct owner *owner = submit(0, 300, 0, true, 0);
    submit(1, 30, 20, false, 0);
    owner->session->credit = 7;
    fake.not_ready = false;
    tern_scheduler_resume(scheduler);
    while (owner->session != NULL)
        assert_true(fake_finish(scheduler));
    assert_int_equal(owner->row_count, 300);
    assert_string_equal(owner->reason, "length");
    finish_all();
    check_answer(&owners[1], 20);
    fake_close(scheduler, &lane);
}

static void without_credit_a_session_rests(void **state)
{
    (void)state;
    open_lane(64, 16);
    submit(0, 30, 20, false, 0);
    submit(1, 30, 20, false, 0);
    owners[0].session->credit = 0;
    finish_all();
    check_answer(&owners[1], 20);
    assert_false(owners[0].ended);
    owners[0].session->credit = UINT32_MAX;
    tern_scheduler_resume(scheduler);
    finish_all();
    check_answer(&owners[0], 20);
    fake_close(scheduler, &lane);
}

static void one_that_rests_keeps_nobody_out(void **state)
{
    (void)state;
    open_lane(64, 9);
    submit(0, 300, 200, false, 0);
    for (int i = 0; i < 12; i++)
        fake_finish(scheduler);
    assert_true(owners[0].session->pages > 4);
    owners[0].session->credit = 0;
    finish_all();
    submit(1, 300, 200, false, 0);
    finish_all();
    check_answer(&owners[1], 200);
    owners[0].session->credit = UINT32_MAX;
    tern_scheduler_resume(scheduler);
    finish_all();
    check_answer(&owners[0], 200);
    fake_close(scheduler, &lane);
}

static void cancelling_waits_for_the_step(void **state)
{
    (void)state;
    open_lane(64, 16);
    submit(0, 30, 100, false, 0);
    submit(1, 30, 20, false, 0);
    fake_finish(scheduler);
    fake_finish(scheduler);
    assert_true(owners[0].session->rows > 0);
    tern_scheduler_cancel(scheduler, owners[0].session);
    assert_false(owners[0].ended);
    fake_finish(scheduler);
    assert_true(owners[0].ended);
    assert_string_equal(owners[0].reason, "cancelled");
    /* One that is not in the step ends at once. */
    submit(2, 30, 20, false, 0);
    tern_scheduler_cancel(scheduler, owners[2].session);
    assert_true(owners[2].ended);
    finish_all();
    check_answer(&owners[1], 20);
    fake_close(scheduler, &lane);
}

static void a_fault_fails_its_row_only(void **state)
{
    (void)state;
    open_lane(64, 16);
    fake.fault_token = 131 + 7; /* in the prompt of session 1 only */
    fake.fault = tern_fault(TERN_FAULT_KV_OVERFLOW, 1);
    submit(0, 10, 5, false, 0);
    submit(1, 10, 5, false, 0);
    finish_all();
    check_answer(&owners[0], 5);
    assert_true(owners[1].ended);
    assert_int_equal(owners[1].error.status, TERN_BAD_MODEL);
    assert_non_null(strstr(owners[1].error.message, "layer 5, down"));
    assert_non_null(strstr(owners[1].error.message, "--kv f32"));
    fake_close(scheduler, &lane);
}

static void deaths_cost_no_token(void **state)
{
    (void)state;
    uint32_t step = 0;
    open_lane(16, 40);
    for (int i = 0; i < 3; i++)
        submit(i, 30, 60, false, i == 2 ? 0.8f : 0);
    while (fake.in_flight) {
        const uint32_t rows = fake.step.rows, issued = fake.issued;
        if (step++ % 3 == 0) {
            fake_lose(scheduler, (enum tern_death)(step % 3));
            assert_int_equal(fake.issued, issued + 1); /* the same rows again */
            assert_int_equal(fake.step.rows, rows);
        }
        fake_finish_some(scheduler, step % 5);
        while (fake.in_flight && step % 2 == 0 && fake_run(scheduler))
            ;
    }
    check_answer(&owners[0], 60);
    check_answer(&owners[1], 60);
    uint32_t drawn[MOST_IDS];
    memcpy(drawn, owners[2].ids, sizeof drawn);
    submit(2, 30, 60, false, 0.8f); /* alone and undisturbed */
    finish_all();
    assert_int_equal(owners[2].count, 90);
    assert_memory_equal(drawn, owners[2].ids, 90 * sizeof drawn[0]);
    fake_close(scheduler, &lane);
}

/* The worker dies whenever session 1 is in the step; `until` deaths alone end it. */
static void find_the_guilty(enum tern_death death, uint32_t until)
{
    uint32_t alone = 0;
    open_lane(64, 40);
    for (int i = 0; i < 3; i++)
        submit(i, 30, 20, false, 0);
    fake_finish(scheduler);
    const uint16_t guilty = (uint16_t)owners[1].session->sequence;
    while (fake.in_flight) {
        const struct tern_row *row = fake.step.row;
        bool in_step = false;
        for (uint32_t i = 0; i < fake.step.rows; i++)
            in_step |= owners[1].session != NULL && row[i].sequence == guilty;
        if (!in_step) {
            fake_finish(scheduler);
            continue;
        }
        alone += row[0].sequence == row[fake.step.rows - 1].sequence;
        fake_lose(scheduler, death);
    }
    assert_int_equal(alone, until);
    check_answer(&owners[0], 20);
    check_answer(&owners[2], 20);
    assert_true(owners[1].ended);
    assert_int_equal(owners[1].error.status, TERN_GAVE_UP);
    fake_close(scheduler, &lane);
}

static void the_guilty_one_is_found(void **state)
{
    (void)state;
    find_the_guilty(TERN_DEATH_FAULT, 2);
    find_the_guilty(TERN_DEATH_HANG, 2);
    find_the_guilty(TERN_DEATH_KILLED, 10);
}

/* Memory may be why the kernel kills it: what ended sessions left goes, and memory with it. */
static void kills_make_room(void **state)
{
    (void)state;
    open_lane(64, 40);
    submit(0, 300, 1, false, 0);
    finish_all();
    assert_non_null(lane.kept);
    submit(1, 100, 20, false, 0);
    for (uint32_t kills = 1; kills < 5; kills++)
        fake_lose(scheduler, TERN_DEATH_KILLED);
    assert_int_equal(fake.relieved, 0);
    assert_non_null(lane.kept);
    fake_lose(scheduler, TERN_DEATH_KILLED);
    assert_int_equal(fake.relieved, 1);
    assert_null(lane.kept);
    assert_int_equal(fake.held_then, owners[1].session->pages);
    finish_all();
    check_answer(&owners[1], 20);
    submit(2, 100, 20, false, 0);
    for (uint32_t kills = 1; kills <= 10; kills++)
        fake_lose(scheduler, TERN_DEATH_KILLED);
    assert_int_equal(owners[2].error.status, TERN_GAVE_UP);
    assert_int_equal(fake.held_then, 0); /* its own too */
    submit(3, 100, 20, false, 0);
    const uint32_t before = fake.relieved;
    for (uint32_t crashes = 1; crashes <= 2; crashes++)
        fake_lose(scheduler, TERN_DEATH_FAULT);
    assert_int_equal(owners[3].error.status, TERN_GAVE_UP);
    assert_int_equal(fake.relieved, before);
    fake_close(scheduler, &lane);
}

/* A suspect rests, loses its pages to an older session, and comes back while there are none. */
static void a_suspect_without_pages_stops_nobody(void **state)
{
    (void)state;
    open_lane(64, 8);
    submit(0, 100, 400, false, 0);
    submit(1, 100, 200, false, 0);
    fake_finish(scheduler);
    fake_lose(scheduler, TERN_DEATH_FAULT);
    fake_lose(scheduler, TERN_DEATH_FAULT);
    assert_true(owners[1].session->suspect > 0);
    owners[1].session->credit = 0;
    while (owners[1].session->pages > 0 || tern_pages_available(lane.pages) > 0)
        assert_true(fake_finish(scheduler));
    owners[1].session->credit = UINT32_MAX;
    assert_true(owners[1].session->suspect > 0);
    finish_all();
    check_answer(&owners[0], 400);
    check_answer(&owners[1], 200);
    fake_close(scheduler, &lane);
}

static void a_restart_is_waited_for(void **state)
{
    (void)state;
    open_lane(64, 16);
    fake.not_ready = true;
    submit(0, 10, 5, false, 0);
    assert_false(fake.in_flight);
    assert_non_null(fake.timer);
    fake.not_ready = false;
    fake.timer(fake.timer_context);
    finish_all();
    check_answer(&owners[0], 5);
    fake_close(scheduler, &lane);
}

static void a_lone_greedy_session_runs_ahead(void **state)
{
    (void)state;
    open_lane(64, 16);
    submit(0, 10, 100, false, 0);
    assert_int_equal(fake.step.grant, 16);
    finish_all();
    check_answer(&owners[0], 100);
    assert_int_equal(fake.issued, 6); /* 17 tokens a step */
    submit(1, 10, 100, false, 0.5f);
    assert_int_equal(fake.step.grant, 0); /* sampled here: no run-ahead */
    finish_all();
    fake_close(scheduler, &lane);
}

/* Somebody comes, or cancels, at every moment of a run, with the worker 0 to 2 steps ahead. */
static void runs_are_revoked(void **state)
{
    (void)state;
    for (uint32_t ahead = 0; ahead < 3; ahead++)
        for (uint32_t tokens = 0; tokens < 17; tokens++) {
            open_lane(64, 16);
            fake.ahead = ahead;
            submit(0, 10, 60, false, 0);
            fake_finish_some(scheduler, tokens);
            const uint32_t before = fake.issued;
            submit(1, 10, 30, false, 0);
            for (uint32_t i = 0; i < ahead; i++)
                fake_run(scheduler);
            assert_true(fake.in_flight);
            assert_in_range(fake.issued, before + (tokens < 16), before + 1);
            if (tokens % 2 == 1)
                tern_scheduler_cancel(scheduler, owners[0].session);
            while (fake_run(scheduler))
                ;
            finish_all();
            check_answer(&owners[1], 30);
            if (tokens % 2 == 0)
                check_answer(&owners[0], 60);
            else
                assert_string_equal(owners[0].reason, "cancelled");
            fake_close(scheduler, &lane);
        }
}

static void a_cancelled_run_keeps_its_pages_until_it_is_over(void **state)
{
    (void)state;
    open_lane(64, 16);
    fake.ahead = 2;
    submit(0, 10, 60, false, 0);
    fake_finish_some(scheduler, 3);
    tern_scheduler_cancel(scheduler, owners[0].session);
    assert_false(owners[0].ended);
    assert_true(fake_run(scheduler));
    assert_false(owners[0].ended);
    assert_true(fake_run(scheduler));
    assert_true(owners[0].ended);
    assert_string_equal(owners[0].reason, "cancelled");
    assert_false(fake.in_flight);
    fake_close(scheduler, &lane);
}

/* The worker said that it begins a step, saw the limit late, and says nothing more. */
static void a_step_that_is_taken_back_holds_up_no_end(void **state)
{
    (void)state;
    open_lane(64, 16);
    fake.ahead = 1;
    submit(0, 10, 60, false, 0);
    fake_finish_some(scheduler, 3);
    tern_scheduler_cancel(scheduler, owners[0].session);
    assert_false(owners[0].ended);
    assert_non_null(fake.timer);
    fake_take_back();
    fake.timer(fake.timer_context);
    assert_true(owners[0].ended);
    assert_string_equal(owners[0].reason, "cancelled");
    fake_close(scheduler, &lane);
}

static void deaths_in_a_run_cost_no_token(void **state)
{
    (void)state;
    open_lane(64, 16);
    submit(0, 10, 200, false, 0);
    for (uint32_t i = 0; fake.in_flight; i++) {
        fake_finish_some(scheduler, i % 17);
        if (fake.in_flight)
            fake_lose(scheduler, TERN_DEATH_KILLED);
    }
    check_answer(&owners[0], 200);
    fake_close(scheduler, &lane);
}

/* All seats are taken by one client: another's only session gets one at once, and its answer long
 * before the first one's end. All answers are right. */
static void clients_take_turns(void **state)
{
    (void)state;
    open_lane(64, FAKE_PAGES);
    for (int i = 0; i < 75; i++)
        submit(i, 10, 40, false, 0);
    for (int i = 0; i < 5; i++)
        fake_finish(scheduler);
    asking_client = 1;
    submit(75, 10, 20, false, 0);
    asking_client = 0;
    for (int i = 0; i < 40; i++)
        fake_finish(scheduler);
    check_answer(&owners[75], 20);
    assert_false(owners[74].ended);
    finish_all();
    for (int i = 0; i < 75; i++)
        check_answer(&owners[i], 40);
    fake_close(scheduler, &lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_session_gives_the_models_tokens),
        cmocka_unit_test(lengths_end_where_they_should),
        cmocka_unit_test(neighbours_change_nothing_and_all_advance),
        cmocka_unit_test(with_one_row_they_take_turns),
        cmocka_unit_test(more_sessions_than_page_tables),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(the_youngest_gives_its_pages),
        cmocka_unit_test(a_full_cache_ends_a_lone_session),
        cmocka_unit_test(who_waits_goes_on_when_a_full_cache_ends_another),
        cmocka_unit_test(one_row_without_a_page_stops_nobody),
        cmocka_unit_test(rows_are_bounded_by_time),
        cmocka_unit_test(end_tokens_stop_and_stay_out),
        cmocka_unit_test(logits_come_in_order_within_credit),
        cmocka_unit_test(without_credit_a_session_rests),
        cmocka_unit_test(one_that_rests_keeps_nobody_out),
        cmocka_unit_test(cancelling_waits_for_the_step),
        cmocka_unit_test(a_fault_fails_its_row_only),
        cmocka_unit_test(deaths_cost_no_token),
        cmocka_unit_test(the_guilty_one_is_found),
        cmocka_unit_test(kills_make_room),
        cmocka_unit_test(a_suspect_without_pages_stops_nobody),
        cmocka_unit_test(a_restart_is_waited_for),
        cmocka_unit_test(a_lone_greedy_session_runs_ahead),
        cmocka_unit_test(runs_are_revoked),
        cmocka_unit_test(a_cancelled_run_keeps_its_pages_until_it_is_over),
        cmocka_unit_test(a_step_that_is_taken_back_holds_up_no_end),
        cmocka_unit_test(deaths_in_a_run_cost_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
