/*
 * Steps in flight. The numbers in flight are neighbours: a step with run-ahead is always the last
 * one, and the next is issued only when its run is over, so that no two share a slot of a ring and
 * the board's run limit belongs to one run at a time.
 */
#include "coordinator/supervise/internal.h"

#include <string.h>

/* How long a revocation waits for a worker that is just beginning a step. */
static const uint64_t settle_ns = 100000;

uint32_t *tern_supervisor_page_table(struct tern_supervisor *s, uint32_t sequence)
{
    return own_board(s)->page_table[sequence % TERN_MAX_SEQUENCES];
}

const struct plan *steps_oldest(const struct tern_supervisor *s, uint32_t *rows)
{
    if (s->compute.flights == 0)
        return NULL;
    const struct flight *f = &s->compute.flight[0];
    *rows = f->delivered ? 1 : own_board(s)->ring[f->number % TERN_STEP_RING].rows;
    return f->plan;
}

/* ---- issuing ---- */

bool tern_supervisor_ready(const struct tern_supervisor *s)
{
    const struct compute *c = &s->compute;
    if (c->state != COMPUTE_READY || c->condemned || c->flights >= TERN_STEP_RING - 1)
        return false;
    return c->flights == 0 || c->flight[c->flights - 1].grant == 0;
}

static struct plan *ready_plan(const struct tern_supervisor *s, uint32_t number)
{
    for (struct plan *p = s->compute.plans; p != NULL; p = p->next)
        if (p->binding.plan == number)
            return p->ready ? p : NULL;
    return NULL;
}

static void write_step(struct tern_supervisor *s, const struct tern_step *step, uint64_t number,
                       uint32_t grant)
{
    struct tern_coordinator_board *board = own_board(s);
    struct tern_step *slot = &board->ring[number % TERN_STEP_RING];
    memcpy(slot, step, offsetof(struct tern_step, row));
    memcpy(slot->row, step->row, step->rows * sizeof *step->row);
    slot->number = number;
    slot->epoch = atomic_load_explicit(&board->epoch, memory_order_relaxed);
    slot->grant = grant;
    if (grant > 0)
        atomic_store(&board->run_limit, number + grant);
    atomic_store_explicit(&board->issued, number, memory_order_release);
    tern_ring(&board->bell);
}

uint64_t tern_supervisor_issue(struct tern_supervisor *s, const struct tern_step *step)
{
    struct compute *c = &s->compute;
    struct plan *plan = ready_plan(s, step->plan);
    if (plan == NULL || !tern_supervisor_ready(s) || step->rows == 0 ||
        step->rows > TERN_MAX_ROWS || step->outputs > step->rows ||
        step->end_tokens > TERN_MAX_END_TOKENS) {
        tern_log("error", "a step of plan %u with %u rows cannot be issued", step->plan,
                 step->rows);
        return 0;
    }
    const uint32_t grant = step->grant < TERN_GRANT_RING ? step->grant : TERN_GRANT_RING;
    const uint64_t number = c->last_number + 1;
    c->flight[c->flights++] =
        (struct flight){.number = number, .issued_ns = tern_now_ns(), .plan = plan, .grant = grant};
    c->last_number = number + grant;
    write_step(s, step, number, grant);
    deadline_expect(s, c->flights == 1 && !c->bind_pending);
    return number;
}

/* ---- what is finished ---- */

/* The done word says: this step is finished in all its stages. Words of other incarnations and
 * steps that were never issued say nothing. */
static bool is_finished(const struct tern_supervisor *s, uint64_t number, uint32_t stages)
{
    const struct compute *c = &s->compute;
    const uint64_t word = atomic_load_explicit(&worker_board(s)->done, memory_order_acquire);
    if (tern_word_incarnation(word) != (c->process.incarnation & 0xffff))
        return false;
    const int32_t ahead = (int32_t)(tern_word_step(word) - (uint32_t)number);
    if (ahead < 0 || (int32_t)(tern_word_step(word) - (uint32_t)c->last_number) > 0)
        return false;
    return ahead > 0 || tern_word_index(word) == stages;
}

static bool fault_is_possible(const struct plan *plan, uint32_t fault)
{
    const uint32_t kind = fault >> 24;
    return fault == TERN_FAULT_NONE ||
           ((kind == TERN_FAULT_NOT_FINITE || kind == TERN_FAULT_KV_OVERFLOW) &&
            (fault & 0xffff) < plan->instructions);
}

/* Copies a step's results off the worker's board into c->result. False if a number is impossible.
 */
static bool take_result(struct tern_supervisor *s, const struct flight *f)
{
    const struct tern_step *step = &own_board(s)->ring[f->number % TERN_STEP_RING];
    const struct tern_step_result *from = &worker_board(s)->result[f->number % TERN_STEP_RING];
    struct tern_step_result *to = &s->compute.result;
    to->began_ns = from->began_ns;
    to->ended_ns = from->ended_ns;
    if (to->began_ns < f->issued_ns || to->began_ns > to->ended_ns || to->ended_ns > tern_now_ns())
        to->began_ns = to->ended_ns = 0;
    uint32_t output = 0;
    for (uint32_t row = 0; row < step->rows; row++) {
        const uint16_t flags = step->row[row].flags;
        to->fault[row] = from->fault[row];
        if (!fault_is_possible(f->plan, to->fault[row]))
            return false;
        if (!(flags & TERN_ROW_LOGITS) || output >= step->outputs)
            continue;
        const bool wanted = (flags & TERN_ROW_ARGMAX) && to->fault[row] == TERN_FAULT_NONE;
        to->argmax[output] = wanted ? from->argmax[output] : 0;
        if (wanted && to->argmax[output] >= f->plan->binding.vocabulary)
            return false;
        output++;
    }
    return true;
}

static bool is_end_token(const struct tern_step *step, uint32_t token)
{
    for (uint32_t i = 0; i < step->end_tokens; i++)
        if (step->end_token[i] == token)
            return true;
    return false;
}

static void learn_usual_time(struct plan *plan, uint32_t rows, uint64_t took_ns)
{
    if (took_ns == 0)
        return;
    uint64_t *usual = &plan->usual_ns[row_class(rows)];
    *usual = *usual == 0 ? took_ns : *usual - *usual / 8 + took_ns / 8;
}

static void pop_flight(struct compute *c)
{
    c->flights--;
    memmove(&c->flight[0], &c->flight[1], c->flights * sizeof c->flight[0]);
}

static void condemn_liar(struct tern_supervisor *s, uint64_t step)
{
    if (!s->compute.condemned)
        tern_log("error", "the CPU worker's results of step %llu are impossible",
                 (unsigned long long)step);
    compute_condemn(s, TERN_DEATH_FAULT);
}

/* Delivers the oldest step itself. False: its numbers are impossible. */
static bool deliver_step(struct tern_supervisor *s, struct flight *f)
{
    struct compute *c = &s->compute;
    const struct tern_step *step = &own_board(s)->ring[f->number % TERN_STEP_RING];
    const uint64_t number = f->number;
    if (!take_result(s, f)) {
        condemn_liar(s, number);
        return false;
    }
    c->starts = 0;
    learn_usual_time(f->plan, step->rows, c->result.ended_ns - c->result.began_ns);
    deadline_progress(s);
    f->delivered = true;
    f->ended = f->grant == 0 || c->result.fault[step->rows - 1] != TERN_FAULT_NONE ||
               is_end_token(step, c->result.argmax[0]);
    if (f->ended)
        pop_flight(c);
    s->events.step_done(s->events.context, number, &c->result);
    return true;
}

/* Delivers the next token of a run. */
static bool deliver_granted(struct tern_supervisor *s, struct flight *f)
{
    struct compute *c = &s->compute;
    const struct tern_step *step = &own_board(s)->ring[f->number % TERN_STEP_RING];
    const uint64_t number = f->number + f->taken + 1;
    struct tern_granted_token granted = worker_board(s)->granted[number % TERN_GRANT_RING];
    const bool failed = granted.fault != TERN_FAULT_NONE;
    if (granted.step != number || !fault_is_possible(f->plan, granted.fault) ||
        (!failed && granted.token >= f->plan->binding.vocabulary)) {
        condemn_liar(s, number);
        return false;
    }
    if (failed)
        granted.token = 0;
    if (granted.began_ns < f->issued_ns || granted.began_ns > granted.ended_ns ||
        granted.ended_ns > tern_now_ns())
        granted.began_ns = granted.ended_ns = 0;
    learn_usual_time(f->plan, 1, granted.ended_ns - granted.began_ns);
    c->starts = 0;
    deadline_progress(s);
    f->taken++;
    f->ended = f->taken == f->grant || failed || is_end_token(step, granted.token);
    if (f->ended)
        pop_flight(c);
    s->events.step_granted(s->events.context, number, &granted);
    return true;
}

/* The newest step of a run that began, as far as it can be true. */
static uint64_t newest_begun(const struct tern_supervisor *s, const struct flight *f)
{
    const uint64_t begun = atomic_load(&worker_board(s)->begun);
    return begun > f->number && begun <= f->number + f->grant ? begun : f->number;
}

/* A revoked run is over when all that began before the limit was seen is delivered. */
static bool run_is_over(const struct tern_supervisor *s, const struct flight *f)
{
    if (!f->delivered || !f->revoked)
        return false;
    const uint64_t begun = newest_begun(s, f);
    return f->number + f->taken >= (begun > f->limit ? begun : f->limit);
}

void steps_collect(struct tern_supervisor *s)
{
    struct compute *c = &s->compute;
    while (c->flights > 0 && worker_board(s) != NULL) {
        struct flight *f = &c->flight[0];
        const uint64_t next = f->delivered ? f->number + f->taken + 1 : f->number;
        if (is_finished(s, next, f->plan->stages)) {
            if (!(f->delivered ? deliver_granted(s, f) : deliver_step(s, f)))
                return;
        } else if (run_is_over(s, f)) {
            pop_flight(c);
        } else {
            return;
        }
    }
}

/* A worker that says it begins a step reads the limit next, and within microseconds either marks
 * the step's progress or takes it back. One that does neither may be stopped: believe it. */
static uint64_t settle_begun(const struct tern_supervisor *s, const struct flight *f)
{
    const uint64_t until = tern_now_ns() + settle_ns;
    uint64_t begun = newest_begun(s, f);
    while (begun > f->limit && tern_now_ns() < until) {
        const uint64_t word = atomic_load(&worker_board(s)->progress);
        if ((int32_t)(tern_word_step(word) - (uint32_t)begun) >= 0)
            break;
        tern_pause();
        begun = newest_begun(s, f);
    }
    return begun;
}

uint64_t tern_supervisor_revoke(struct tern_supervisor *s, uint64_t number)
{
    struct compute *c = &s->compute;
    struct flight *f = c->flights > 0 ? &c->flight[c->flights - 1] : NULL;
    if (f == NULL || f->grant == 0 || number >= f->number + f->grant)
        return number;
    if (!f->revoked || number < f->limit) {
        f->revoked = true;
        f->limit = number > f->number ? number : f->number;
        atomic_store(&own_board(s)->run_limit, f->limit);
    }
    const uint64_t begun = settle_begun(s, f); /* after the store */
    const uint64_t newest = begun > f->limit ? begun : f->limit;
    if (run_is_over(s, f))
        pop_flight(c);
    return newest;
}

/* ---- after a death ---- */

void steps_death(struct tern_supervisor *s, enum tern_death death)
{
    struct compute *c = &s->compute;
    for (size_t i = 0; i < c->flights && c->losts < TERN_STEP_RING; i++) {
        const struct flight *f = &c->flight[i];
        c->lost[c->losts++] =
            (struct lost){.number = f->delivered ? f->number + f->taken + 1 : f->number,
                          .plan = f->plan->binding.plan,
                          .death = death};
    }
    c->flights = 0;
}

void steps_forget(struct tern_supervisor *s, const struct plan *plan)
{
    struct compute *c = &s->compute;
    size_t flights = 0, losts = 0;
    for (size_t i = 0; i < c->flights; i++)
        if (c->flight[i].plan != plan)
            c->flight[flights++] = c->flight[i];
    for (size_t i = 0; i < c->losts; i++)
        if (c->lost[i].plan != plan->binding.plan)
            c->lost[losts++] = c->lost[i];
    c->flights = flights;
    c->losts = losts;
}

void steps_tell_lost(struct tern_supervisor *s)
{
    struct compute *c = &s->compute;
    struct lost lost[TERN_STEP_RING];
    const size_t count = c->losts;
    memcpy(lost, c->lost, count * sizeof *lost);
    c->losts = 0;
    for (size_t i = 0; i < count; i++)
        s->events.step_lost(s->events.context, lost[i].number, lost[i].death);
}
