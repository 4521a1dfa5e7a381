/*
 * Prefixes in the cache, against the fake supervisor: its worker asserts that no page of several
 * holders is written, and its tokens depend on all that a sequence reads.
 */
#include "coordinator/schedule/prefix.h"
#include "tests/unit/fake_supervisor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXT = 1024, PAGE = TERN_PAGE_POSITIONS, OWNERS = 80 };

static struct tern_scheduler *scheduler;
static struct tern_lane lane;

struct owner {
    struct tern_session *session;
    uint32_t ids[CONTEXT + 1], count, prompt, reused;
    uint32_t rows;
    bool ended;
    const char *reason;
};

static struct owner owners[OWNERS];

static void on_changed(void *context)
{
    struct owner *owner = context;
    const struct tern_session *session = owner->session;
    owner->count = session->count;
    owner->reused = session->reused;
    memcpy(owner->ids, session->ids, session->count * sizeof *session->ids);
    if (!session->ended)
        return;
    assert_int_equal(session->error.status, TERN_OK);
    owner->ended = true;
    owner->reason = session->reason;
    tern_session_free(owner->session);
    owner->session = NULL;
}

static void on_rows(void *context, uint32_t first, uint32_t rows, const uint8_t *logits,
                    uint32_t stride)
{
    struct owner *owner = context;
    (void)logits, (void)stride;
    assert_int_equal(first, owner->rows);
    owner->rows += rows;
}

static struct owner *submit_as(int index, const uint32_t *ids, uint32_t prompt, uint32_t most,
                               bool every_row)
{
    struct owner *owner = &owners[index];
    *owner = (struct owner){.prompt = prompt};
    const struct tern_session_wish wish = {.ids = ids,
                                           .count = prompt,
                                           .most = most,
                                           .every_row = every_row,
                                           .sampling = tern_sampling_greedy()};
    const struct tern_session_events events = {owner, on_changed, on_rows, NULL};
    owner->session = tern_session_new(&wish, CONTEXT, &events);
    assert_non_null(owner->session);
    tern_scheduler_submit(scheduler, &lane, owner->session);
    return owner;
}

static struct owner *submit(int index, const uint32_t *ids, uint32_t prompt, uint32_t most)
{
    return submit_as(index, ids, prompt, most, false);
}

/* Ids of a text `number`; texts differ from their first id on. */
static const uint32_t *text(uint32_t number)
{
    static uint32_t ids[CONTEXT];
    for (uint32_t i = 0; i < CONTEXT; i++)
        ids[i] = (number * 131 + i * 7 + 1) % FAKE_VOCABULARY;
    return ids;
}

static void finish_all(void)
{
    uint32_t steps = 0;
    while (fake_finish(scheduler))
        assert_true(++steps < 50000);
}

static void open_lane(uint32_t max_rows, uint32_t pages)
{
    fake_open(&scheduler, &lane, CONTEXT, max_rows, max_rows < 64 ? max_rows : 64, pages);
}

static void close_lane(void)
{
    fake_close(scheduler, &lane);
}

/* The model's own tokens, and so many of the prompt not computed again. */
static void check(const struct owner *owner, uint32_t count, uint32_t reused)
{
    assert_true(owner->ended);
    assert_string_equal(owner->reason, "length");
    assert_int_equal(owner->count, owner->prompt + count);
    for (uint32_t i = owner->prompt; i < owner->count; i++)
        assert_int_equal(owner->ids[i], fake_next(owner->ids, i));
    assert_int_equal(owner->reused, reused);
}

static void run(int index, const uint32_t *ids, uint32_t prompt, uint32_t most, uint32_t reused)
{
    submit(index, ids, prompt, most);
    finish_all();
    check(&owners[index], most, reused);
}

static void a_turn_computes_only_what_is_new(void **state)
{
    (void)state;
    uint32_t ids[CONTEXT], count = 100, known = 0;
    open_lane(64, 40);
    memcpy(ids, text(1), sizeof ids);
    for (uint32_t turn = 0; turn < 8; turn++) {
        const uint32_t before = fake.computed;
        run(0, ids, count, 20, known);
        assert_int_equal(fake.computed - before, count - known + 19);
        known = count + 19; /* the newest token was never computed */
        memcpy(ids, owners[0].ids, owners[0].count * sizeof ids[0]);
        count = owners[0].count;
        for (uint32_t i = 0; i < 30; i++)
            ids[count++] = (turn * 37 + i) % FAKE_VOCABULARY;
        assert_int_equal(lane.kept_count, 1);
        assert_int_equal(tern_prefix_pages(&lane), tern_pages_for(known));
    }
    close_lane();
}

static void the_same_prompt_and_its_neighbours(void **state)
{
    (void)state;
    uint32_t ids[CONTEXT];
    open_lane(64, 40);
    memcpy(ids, text(1), sizeof ids);
    run(0, ids, 300, 5, 0);
    run(0, ids, 300, 5, 299); /* the last prompt token is always computed */
    run(0, ids, 300, 5, 299);
    ids[299]++;
    run(0, ids, 300, 5, 299);
    run(0, ids, 200, 5, 3 * PAGE); /* a strict prefix: much would be lost, so whole pages only */
    run(0, ids, 1, 5, 0);
    run(0, ids, PAGE, 5, 1); /* no whole page before the last token, but what the one left */
    run(0, ids, PAGE + 1, 5, PAGE);
    close_lane();
}

static void prompts_of_every_length(void **state)
{
    (void)state;
    uint32_t ids[CONTEXT];
    memcpy(ids, text(3), sizeof ids);
    for (uint32_t common = 1; common < 200; common += 7)
        for (uint32_t length = common + 1; length < 260; length += 61) {
            open_lane(32, 40);
            run(0, text(3), 150, 30, 0);
            memcpy(ids, owners[0].ids, 180 * sizeof ids[0]);
            for (uint32_t i = common; i < length; i++)
                ids[i] = (ids[i] + 1) % FAKE_VOCABULARY;
            submit(0, ids, length, 10);
            finish_all();
            const uint32_t reused = owners[0].reused;
            check(&owners[0], 10, reused);
            assert_true(reused <= common && reused + PAGE > (common < 179 ? common : 179));
            close_lane();
        }
}

/* One that runs shares its whole pages; so do several at once with a kept one. */
static void running_sessions_share(void **state)
{
    (void)state;
    uint32_t ids[CONTEXT];
    open_lane(64, 40);
    memcpy(ids, text(1), sizeof ids);
    submit(0, ids, 300, 400);
    for (int i = 0; i < 20; i++)
        fake_finish_some(scheduler, 1);
    assert_int_equal(owners[0].reused, 0);
    for (int i = 1; i < 6; i++) {
        ids[290]++;
        submit(i, ids, 320, 50);
    }
    finish_all();
    check(&owners[0], 400, 0);
    for (int i = 1; i < 6; i++)
        check(&owners[i], 50, 4 * PAGE);
    close_lane();
}

/* A prompt that several send at once is computed once, what differs by each. */
static void one_computes_for_all(void **state)
{
    (void)state;
    enum { AT_ONCE = 6 };
    uint32_t ids[CONTEXT];
    open_lane(64, 40);
    memcpy(ids, text(1), sizeof ids);
    submit(AT_ONCE, text(2), 200, 10); /* has nothing to wait for */
    for (int i = 0; i < AT_ONCE; i++) {
        ids[290]++;
        submit(i, ids, 300, 10);
    }
    const uint32_t before = fake.computed;
    finish_all();
    check(&owners[AT_ONCE], 10, 0);
    check(&owners[0], 10, 0);
    for (int i = 1; i < AT_ONCE; i++)
        check(&owners[i], 10, 4 * PAGE);
    assert_int_equal(fake.computed - before, 209 + 309 + (AT_ONCE - 1) * (309 - 4 * PAGE));
    close_lane();
}

/* Whoever waits goes on itself when the other ends or rests. */
static void waiting_ends_with_the_other(void **state)
{
    (void)state;
    open_lane(50, 40);
    submit(0, text(1), 500, 10);
    submit(1, text(1), 500, 10);
    for (int i = 0; i < 4; i++)
        fake_finish(scheduler);
    assert_int_equal(owners[1].session->sequence, -1);
    const uint32_t came = owners[0].session->computed;
    tern_scheduler_cancel(scheduler, owners[0].session);
    finish_all();
    check(&owners[1], 10, came);
    submit(0, text(2), 500, 10);
    submit(1, text(2), 500, 10);
    fake_finish(scheduler);
    owners[0].session->credit = 0;
    finish_all();
    assert_true(owners[1].ended && !owners[0].ended);
    owners[0].session->credit = UINT32_MAX;
    tern_scheduler_resume(scheduler);
    finish_all();
    check(&owners[0], 10, 0);
    close_lane();
}

/* Others hold the pages that an evicted or ended session had. */
static void holders_outlive_the_first(void **state)
{
    (void)state;
    uint32_t ids[CONTEXT];
    open_lane(64, 20);
    memcpy(ids, text(1), sizeof ids);
    submit(0, ids, 200, 300);
    for (int i = 0; i < 8; i++)
        fake_finish_some(scheduler, 1);
    ids[195]++;
    submit(1, ids, 200, 300);
    fake_finish_some(scheduler, 1);
    tern_scheduler_cancel(scheduler, owners[0].session);
    submit(2, text(2), 500, 300); /* wants what is kept */
    submit(3, text(5), 300, 200);
    finish_all();
    assert_string_equal(owners[0].reason, "cancelled");
    check(&owners[1], 300, 3 * PAGE);
    check(&owners[2], 300, 0);
    check(&owners[3], 200, 0);
    close_lane();
}

static void a_cancelled_prompt_is_kept_as_far_as_it_came(void **state)
{
    (void)state;
    open_lane(50, 40);
    submit(0, text(1), 500, 10);
    for (int i = 0; i < 4; i++)
        fake_finish(scheduler);
    const uint32_t came = owners[0].session->computed;
    tern_scheduler_cancel(scheduler, owners[0].session);
    fake_finish(scheduler); /* its rows count for nothing */
    assert_string_equal(owners[0].reason, "cancelled");
    run(1, text(1), 500, 10, came);
    close_lane();
}

static void every_row_is_computed_and_kept(void **state)
{
    (void)state;
    open_lane(64, 40);
    run(0, text(1), 200, 10, 0);
    submit_as(1, text(1), 200, 0, true);
    finish_all();
    assert_int_equal(owners[1].rows, 200);
    assert_int_equal(owners[1].reused, 0);
    submit_as(1, text(2), 200, 0, true);
    finish_all();
    run(2, text(2), 230, 10, 200);
    submit_as(1, text(3), 200, 0, true); /* neither waits nor is waited for */
    submit(2, text(3), 200, 10);
    submit_as(3, text(3), 200, 0, true);
    fake_finish(scheduler); /* of the first one's rows alone */
    fake_finish(scheduler);
    for (int i = 1; i <= 3; i++)
        assert_true(owners[i].session->computed > 0);
    finish_all();
    check(&owners[2], 10, PAGE);
    close_lane();
}

/* Who runs comes first: nothing waits, is evicted or ends for what is kept. */
static void kept_pages_make_way(void **state)
{
    (void)state;
    open_lane(64, 16);
    for (uint32_t i = 0; i < 10; i++)
        run(0, text(10 + i), 200, 10, 0);
    assert_int_equal(lane.kept_count, 4);
    run(0, text(17), 200, 10, 199); /* now the last to go */
    run(1, text(1), 1000, 24, 0);   /* needs every page */
    submit(0, text(2), 300, 100);
    submit(1, text(3), 300, 100);
    while (fake_finish(scheduler))
        for (int i = 0; i < 2; i++)
            assert_true(owners[i].session == NULL || owners[i].session->sequence >= 0);
    check(&owners[0], 100, 0);
    check(&owners[1], 100, 0);
    close_lane();
}

/* Whoever waits for a seat gives up nothing of what is kept: it would be for nothing. */
static void waiting_for_a_seat_costs_nothing(void **state)
{
    (void)state;
    enum { KEPT = 40 };
    open_lane(64, 2 * KEPT + TERN_MAX_SEQUENCES + 8);
    for (uint32_t i = 0; i < KEPT; i++)
        run(0, text(i), 80, 1, 0);
    for (int i = 0; i < TERN_MAX_SEQUENCES; i++)
        submit(i, text(100 + (uint32_t)i), 20, 30);
    submit(TERN_MAX_SEQUENCES, text(200), 1000, 5); /* has no pages either */
    for (int i = 0; i < 10; i++)
        fake_finish_some(scheduler, 1);
    assert_int_equal(owners[TERN_MAX_SEQUENCES].session->sequence, -1);
    assert_int_equal(lane.kept_count, KEPT);
    finish_all();
    check(&owners[TERN_MAX_SEQUENCES], 5, 0);
    close_lane();
}

static void the_least_recently_used_goes_first(void **state)
{
    (void)state;
    open_lane(64, FAKE_PAGES);
    for (uint32_t i = 0; i < TERN_KEPT_PREFIXES; i++)
        run(0, text(i), 80, 1, 0);
    run(0, text(0), 81, 1, 80);
    assert_int_equal(lane.kept_count, TERN_KEPT_PREFIXES);
    run(0, text(100), 80, 1, 0);
    assert_int_equal(lane.kept_count, TERN_KEPT_PREFIXES);
    run(0, text(0), 82, 1, 81);
    run(0, text(1), 80, 1, 0);
    close_lane();
}

static void deaths_change_nothing(void **state)
{
    (void)state;
    uint32_t ids[CONTEXT], step = 0;
    open_lane(32, 40);
    memcpy(ids, text(1), sizeof ids);
    submit(0, ids, 150, 200);
    for (int i = 0; i < 20; i++)
        fake_finish_some(scheduler, 1);
    for (int i = 1; i < 5; i++) {
        ids[140 + i]++;
        submit(i, ids, 160, 60);
    }
    while (fake.in_flight) {
        if (step++ % 3 == 0)
            fake_lose(scheduler, (enum tern_death)(step % 3));
        fake_finish_some(scheduler, step % 5);
        if (step == 40)
            submit(5, owners[1].ids, 170, 50);
        while (fake.in_flight && step % 2 == 0 && fake_run(scheduler))
            ;
    }
    check(&owners[0], 200, 0);
    for (int i = 1; i < 5; i++)
        check(&owners[i], 60, 2 * PAGE);
    assert_true(owners[5].ended && owners[5].reused >= 2 * PAGE);
    check(&owners[5], 50, owners[5].reused);
    close_lane();
}

/* Many sessions of few texts, few pages, deaths, cancels and rests, by chance. */
static void much_by_chance(uint32_t seed)
{
    open_lane(48, 30);
    for (uint32_t round = 0; round < 1000; round++) {
        seed = seed * 1664525 + 1013904223;
        const uint32_t chance = seed >> 8;
        struct owner *owner = &owners[chance % 12];
        const int index = (int)(chance % 12);
        if (owner->session == NULL) {
            uint32_t ids[CONTEXT];
            if (owner->ended && strcmp(owner->reason, "cancelled") != 0)
                for (uint32_t i = owner->prompt; i < owner->count; i++)
                    assert_int_equal(owner->ids[i], fake_next(owner->ids, i));
            memcpy(ids, text(chance / 16 % 3), sizeof ids);
            ids[chance / 64 % 300]++;
            submit(index, ids, 1 + chance / 1024 % 400, chance / 32 % 60);
        } else if (chance / 16 % 16 == 0) {
            tern_scheduler_cancel(scheduler, owner->session);
        } else if (chance / 16 % 4 == 1) {
            owner->session->credit = owner->session->credit == 0 ? UINT32_MAX : 0;
            tern_scheduler_resume(scheduler);
        }
        if (fake.in_flight && chance / 16 % 7 == 2)
            fake_lose(scheduler, TERN_DEATH_KILLED);
        else
            fake_finish_some(scheduler, chance % 4);
        while (fake.in_flight && chance % 2 == 0 && fake_run(scheduler))
            ;
    }
    for (int i = 0; i < 12; i++)
        if (owners[i].session != NULL)
            owners[i].session->credit = UINT32_MAX;
    tern_scheduler_resume(scheduler);
    while (fake.in_flight && fake_run(scheduler))
        ;
    finish_all();
    for (int i = 0; i < 12; i++)
        for (uint32_t j = owners[i].prompt; j < owners[i].count; j++)
            assert_int_equal(owners[i].ids[j], fake_next(owners[i].ids, j));
    close_lane();
}

static void all_at_once(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++)
        much_by_chance(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_computes_only_what_is_new),
        cmocka_unit_test(the_same_prompt_and_its_neighbours),
        cmocka_unit_test(prompts_of_every_length),
        cmocka_unit_test(running_sessions_share),
        cmocka_unit_test(one_computes_for_all),
        cmocka_unit_test(waiting_ends_with_the_other),
        cmocka_unit_test(holders_outlive_the_first),
        cmocka_unit_test(a_cancelled_prompt_is_kept_as_far_as_it_came),
        cmocka_unit_test(every_row_is_computed_and_kept),
        cmocka_unit_test(kept_pages_make_way),
        cmocka_unit_test(waiting_for_a_seat_costs_nothing),
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(deaths_change_nothing),
        cmocka_unit_test(all_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
