/* See fake_supervisor.h. */
#include "tests/unit/fake_supervisor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fake fake;
static uint32_t page_table[TERN_MAX_SEQUENCES][TERN_MAX_PAGES];
static uint32_t cache[FAKE_PAGES][TERN_PAGE_POSITIONS];
static float logits[TERN_MAX_ROWS][FAKE_VOCABULARY];
static struct {
    struct tern_plan plan;
    struct tern_instruction instruction[2];
    char labels[32];
} program;

static const struct tern_pages *pool;

/* The run that goes on after its step. */
static struct {
    struct tern_row row;
    uint64_t number;
    bool goes_on;
} run;

/* ---- the model ---- */

static uint32_t mix(uint32_t hash, uint32_t token)
{
    hash = (hash ^ token) * 16777619u;
    return hash ^ hash >> 13;
}

static float logit_of(uint32_t hash, uint32_t i)
{
    return (float)(mix(hash, i) % 4096) / 256.0f;
}

static uint32_t argmax_of(uint32_t hash)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < FAKE_VOCABULARY; i++)
        if (logit_of(hash, i) > logit_of(hash, best))
            best = i;
    return best;
}

static uint32_t hash_of(const uint32_t *ids, uint32_t count)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < count; i++)
        hash = mix(hash, ids[i]);
    return hash;
}

uint32_t fake_next(const uint32_t *ids, uint32_t count)
{
    return argmax_of(hash_of(ids, count));
}

float fake_logit(const uint32_t *ids, uint32_t count, uint32_t i)
{
    return logit_of(hash_of(ids, count), i);
}

/* Entries that the step in flight reads must not change under it. */
static uint32_t table_in_flight[TERN_MAX_SEQUENCES][FAKE_PAGES];

static uint32_t *slot(const struct tern_row *row, uint32_t position)
{
    assert_int_equal(page_table[row->sequence][position / TERN_PAGE_POSITIONS],
                     table_in_flight[row->sequence][position / TERN_PAGE_POSITIONS]);
    const uint32_t page = page_table[row->sequence][position / TERN_PAGE_POSITIONS];
    assert_in_range(page, 0, FAKE_PAGES - 1);
    return &cache[page][position % TERN_PAGE_POSITIONS];
}

/* Stores the row's token and hashes all that its sequence holds up to it. */
static uint32_t compute(const struct tern_row *row)
{
    uint32_t hash = 2166136261u;
    assert_true(row->position < fake.reached);
    slot(row, row->position);
    const uint32_t page = page_table[row->sequence][row->position / TERN_PAGE_POSITIONS];
    assert_int_equal(tern_pages_holders(pool, page), 1); /* not shared */
    fake.computed++;
    *slot(row, row->position) = row->token;
    for (uint32_t p = 0; p <= row->position; p++)
        hash = mix(hash, *slot(row, p));
    return hash;
}

static void reach(void *context, uint32_t positions)
{
    (void)context;
    fake.reached = positions > fake.reached ? positions : fake.reached;
}

static void relieve(void *context)
{
    (void)context;
    fake.relieved++;
    fake.held_then = tern_pages_count(pool) - tern_pages_available(pool);
}

/* ---- supervisor and loop ---- */

uint32_t *tern_supervisor_page_table(struct tern_supervisor *supervisor, uint32_t sequence)
{
    (void)supervisor;
    return page_table[sequence];
}

bool tern_supervisor_ready(const struct tern_supervisor *supervisor)
{
    (void)supervisor;
    return !fake.not_ready && !fake.in_flight;
}

/* What every step must obey (proto/board.h). */
static void check_step(const struct tern_step *step)
{
    uint32_t outputs = 0;
    bool seen[TERN_MAX_SEQUENCES] = {false};
    assert_in_range(step->rows, 1, program.plan.max_rows);
    for (uint32_t i = 0; i < step->rows; i++) {
        const struct tern_row *row = &step->row[i];
        assert_true(row->position < program.plan.context);
        outputs += (row->flags & TERN_ROW_LOGITS) != 0;
        if (i > 0 && row->sequence == step->row[i - 1].sequence) {
            assert_int_equal(row->position, step->row[i - 1].position + 1);
        } else {
            assert_false(seen[row->sequence]);
            seen[row->sequence] = true;
        }
    }
    assert_int_equal(outputs, step->outputs);
    assert_true(outputs <= program.plan.max_outputs);
    assert_true(step->grant == 0 ||
                (outputs == 1 && step->row[0].sequence == step->row[step->rows - 1].sequence &&
                 (step->row[step->rows - 1].flags & TERN_ROW_ARGMAX)));
}

uint64_t tern_supervisor_issue(struct tern_supervisor *supervisor, const struct tern_step *step)
{
    assert_true(tern_supervisor_ready(supervisor));
    check_step(step);
    for (uint32_t i = 0; i < step->rows; i++)
        memcpy(table_in_flight[step->row[i].sequence], page_table[step->row[i].sequence],
               sizeof table_in_flight[0]);
    fake.step = *step;
    fake.step.number = fake.last_number + 1;
    fake.last_number += 1 + step->grant;
    fake.run_limit = fake.last_number;
    fake.in_flight = true;
    fake.issued++;
    run.goes_on = false;
    return fake.step.number;
}

uint64_t tern_supervisor_revoke(struct tern_supervisor *supervisor, uint64_t number)
{
    (void)supervisor;
    const uint64_t current = run.goes_on ? run.number : fake.step.number;
    const uint64_t newest = (number > current ? number : current) + fake.ahead;
    if (newest < fake.run_limit)
        fake.run_limit = newest;
    if (run.goes_on && run.number >= fake.run_limit)
        run.goes_on = fake.in_flight = false;
    return fake.run_limit;
}

int tern_loop_timer(struct tern_loop *loop, uint64_t at_ns, tern_callback callback, void *context)
{
    (void)loop, (void)at_ns;
    fake.timer = callback;
    fake.timer_context = context;
    return 1;
}

void tern_loop_cancel(struct tern_loop *loop, int timer)
{
    (void)loop, (void)timer;
    fake.timer = NULL;
}

/* ---- what happens to a step ---- */

static bool is_end(uint32_t token)
{
    for (uint32_t i = 0; i < fake.step.end_tokens; i++)
        if (fake.step.end_token[i] == token)
            return true;
    return false;
}

/* After a token of the run: does the worker go on by itself? */
static void advance_run(uint32_t token, uint32_t fault, uint64_t number)
{
    run.goes_on = fault == 0 && !is_end(token) && number < fake.run_limit;
    run.row.token = token;
    run.row.position++;
    run.number = number;
    fake.in_flight = run.goes_on;
}

/* The step itself, from which a run may go on. */
static void finish_step(struct tern_scheduler *scheduler)
{
    static struct tern_step_result result;
    const struct tern_supervisor_events events = tern_scheduler_events(scheduler);
    uint32_t output = 0;
    result.began_ns = 1000;
    result.ended_ns = 1000 + fake.row_ns * fake.step.rows;
    for (uint32_t i = 0; i < fake.step.rows; i++) {
        const struct tern_row *row = &fake.step.row[i];
        const uint32_t hash = compute(row);
        result.fault[i] = fake.fault != 0 && row->token == fake.fault_token ? fake.fault : 0;
        if (!(row->flags & TERN_ROW_LOGITS))
            continue;
        for (uint32_t j = 0; j < FAKE_VOCABULARY; j++)
            logits[output][j] = logit_of(hash, j);
        result.argmax[output++] = row->flags & TERN_ROW_ARGMAX ? argmax_of(hash) : 0xffffffff;
    }
    run.row = fake.step.row[fake.step.rows - 1];
    advance_run(result.argmax[0], result.fault[fake.step.rows - 1], fake.step.number);
    events.step_done(events.context, fake.step.number, &result);
}

bool fake_finish_some(struct tern_scheduler *scheduler, uint32_t tokens)
{
    if (!fake.in_flight)
        return false;
    if (!run.goes_on)
        finish_step(scheduler);
    for (uint32_t i = 0; i < tokens && fake_run(scheduler); i++)
        ;
    return true;
}

bool fake_finish(struct tern_scheduler *scheduler)
{
    return fake_finish_some(scheduler, UINT32_MAX);
}

bool fake_run(struct tern_scheduler *scheduler)
{
    const struct tern_supervisor_events events = tern_scheduler_events(scheduler);
    if (!run.goes_on)
        return false;
    const uint64_t number = run.number + 1;
    const uint32_t token = argmax_of(compute(&run.row));
    const uint32_t fault = fake.fault != 0 && run.row.token == fake.fault_token ? fake.fault : 0;
    advance_run(token, fault, number);
    const struct tern_granted_token granted = {
        .step = number,
        .token = token,
        .fault = fault,
        .began_ns = 1000,
        .ended_ns = 1000 + fake.row_ns,
    };
    events.step_granted(events.context, number, &granted);
    return true;
}

void fake_take_back(void)
{
    fake.ahead = 0;
    run.goes_on = fake.in_flight = false;
}

void fake_lose(struct tern_scheduler *scheduler, enum tern_death death)
{
    const struct tern_supervisor_events events = tern_scheduler_events(scheduler);
    const uint64_t number = run.goes_on ? run.number + 1 : fake.step.number;
    assert_true(fake.in_flight);
    /* Half a step may have been written: its positions hold anything. */
    if (run.goes_on)
        *slot(&run.row, run.row.position) = 0xdead;
    for (uint32_t i = 0; i < fake.step.rows && !run.goes_on; i++)
        *slot(&fake.step.row[i], fake.step.row[i].position) = 0xdead;
    fake.in_flight = run.goes_on = false;
    events.step_lost(events.context, number, death);
}

/* ---- lanes ---- */

void fake_open(struct tern_scheduler **scheduler, struct tern_lane *lane, uint32_t context,
               uint32_t max_rows, uint32_t max_outputs, uint32_t pages)
{
    assert_true(pages <= FAKE_PAGES);
    fake = (struct fake){.row_ns = 1000};
    memset(page_table, 0xff, sizeof page_table);
    memset(&run, 0, sizeof run);
    program.plan = (struct tern_plan){.max_rows = max_rows,
                                      .max_outputs = max_outputs,
                                      .vocabulary = FAKE_VOCABULARY,
                                      .context = context,
                                      .instructions = 2,
                                      .label_count = 2,
                                      .label_bytes = 10};
    program.plan.logits.stride = sizeof logits[0];
    program.instruction[0].layer = 0xffff;
    program.instruction[1].layer = 5;
    program.instruction[1].label = 1;
    memcpy(program.labels, "head\0down", 10);
    *scheduler = tern_scheduler_new(NULL);
    assert_non_null(*scheduler);
    tern_scheduler_attach(*scheduler, NULL);
    *lane = (struct tern_lane){.name = "fake",
                               .number = 1,
                               .plan = &program.plan,
                               .logits = (const uint8_t *)logits,
                               .pages = tern_pages_new(pages),
                               .reach = reach,
                               .relieve = relieve};
    pool = lane->pages;
    tern_scheduler_add_lane(*scheduler, lane);
}

void fake_close(struct tern_scheduler *scheduler, struct tern_lane *lane)
{
    /* Whatever happened, every page came back. */
    assert_null(lane->sessions);
    tern_scheduler_remove_lane(scheduler, lane);
    assert_int_equal(tern_pages_available(lane->pages), tern_pages_count(lane->pages));
    tern_pages_free(lane->pages);
    tern_scheduler_free(scheduler);
}
