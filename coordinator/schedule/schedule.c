/*
 * The scheduler's events: a step is done, lost, or may be issued. What happens to a session whose
 * step kills the worker again and again (DESIGN section 7) is decided here:
 *
 *   first death of a step     the same rows again
 *   second                    its sessions are suspects: each runs alone until a step of it is done
 *   second death alone by its own fault or hang, tenth by a kill from outside
 *                             that session is given up, the others go on
 */
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/compose.h"
#include "proto/plan.h"

#include <stdlib.h>

enum {
    FAULTS_ALONE = 2,
    KILLS_ALONE = 10,
    RETRY_NS = 2 * 1000 * 1000, /* while the worker is being restarted */
};

/* The step that was issued, or (lost) must be issued again. Its sessions are those with rows. */
struct flight {
    bool issued, lost;
    uint64_t number;
    struct tern_lane *lane;
    uint32_t rows, deaths;
};

struct tern_scheduler {
    struct tern_composer composer;
    struct tern_loop *loop;
    struct tern_lane *lanes; /* the first one's turn is next */
    struct flight flight;
    struct tern_step step;
    struct tern_sampler *sampler;
    int retry;    /* timer, 0: none */
    bool telling; /* owners are being told: they may call back in */
};

static void go_on(struct tern_scheduler *s);

struct tern_scheduler *tern_scheduler_new(struct tern_loop *loop)
{
    struct tern_scheduler *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->loop = loop;
    s->sampler = tern_sampler_new();
    if (s->sampler == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

void tern_scheduler_free(struct tern_scheduler *scheduler)
{
    if (scheduler == NULL)
        return;
    tern_loop_cancel(scheduler->loop, scheduler->retry);
    tern_sampler_free(scheduler->sampler);
    free(scheduler);
}

void tern_scheduler_attach(struct tern_scheduler *scheduler, struct tern_supervisor *supervisor)
{
    scheduler->composer.supervisor = supervisor;
}

/* ---- lanes ---- */

static void append_lane(struct tern_scheduler *s, struct tern_lane *lane)
{
    struct tern_lane **link = &s->lanes;
    while (*link != NULL)
        link = &(*link)->next;
    lane->next = NULL;
    *link = lane;
}

static void unlink_lane(struct tern_scheduler *s, struct tern_lane *lane)
{
    struct tern_lane **link = &s->lanes;
    while (*link != NULL && *link != lane)
        link = &(*link)->next;
    if (*link != NULL)
        *link = lane->next;
}

void tern_scheduler_add_lane(struct tern_scheduler *scheduler, struct tern_lane *lane)
{
    append_lane(scheduler, lane);
}

void tern_scheduler_remove_lane(struct tern_scheduler *scheduler, struct tern_lane *lane)
{
    unlink_lane(scheduler, lane);
}

/* ---- issuing ---- */

static bool lane_runnable(const struct tern_lane *lane)
{
    for (const struct tern_session *s = lane->sessions; s != NULL; s = s->next)
        if (tern_session_runnable(s))
            return true;
    return false;
}

static struct tern_session *find_suspect(struct tern_scheduler *s)
{
    for (struct tern_lane *lane = s->lanes; lane != NULL; lane = lane->next)
        for (struct tern_session *i = lane->sessions; i != NULL; i = i->next)
            if (i->suspect > 0 && tern_session_runnable(i))
                return i;
    return NULL;
}

/* Gives rows to the sessions of the next step; its lane, or NULL: nothing can run. */
static struct tern_lane *compose_next(struct tern_scheduler *s, uint32_t *rows)
{
    struct tern_session *suspect = find_suspect(s);
    if (suspect != NULL) {
        struct tern_lane *lane = suspect->lane;
        *rows = tern_compose_alone(&s->composer, suspect, suspect->suspect);
        return *rows > 0 ? lane : NULL;
    }
    for (struct tern_lane *lane = s->lanes; lane != NULL; lane = lane->next) {
        if (!lane_runnable(lane) || (*rows = tern_compose(&s->composer, lane)) == 0)
            continue;
        unlink_lane(s, lane);
        append_lane(s, lane);
        return lane;
    }
    return NULL;
}

static void issue(struct tern_scheduler *s)
{
    struct flight *flight = &s->flight;
    struct tern_lane *lane = flight->lane;
    const uint64_t now = tern_now_ns();
    uint32_t positions = 0;
    for (struct tern_session *i = lane->sessions; i != NULL; i = i->next) {
        if (i->rows == 0)
            continue;
        if (i->times.began_ns == 0)
            i->times.began_ns = now;
        if (i->computed + i->rows > positions)
            positions = i->computed + i->rows;
    }
    lane->reach(lane->context, positions);
    tern_compose_step(lane, &s->step);
    flight->rows = s->step.rows;
    flight->number = tern_supervisor_issue(s->composer.supervisor, &s->step);
    flight->issued = true;
    flight->lost = false;
}

static void retry(void *context)
{
    struct tern_scheduler *s = context;
    s->retry = 0;
    go_on(s);
}

static bool has_work(const struct tern_scheduler *s)
{
    if (s->flight.lost)
        return true;
    for (const struct tern_lane *lane = s->lanes; lane != NULL; lane = lane->next)
        if (lane_runnable(lane))
            return true;
    return false;
}

/* Issues the next step if none is in flight and something can run. */
static void pump(struct tern_scheduler *s)
{
    if (s->flight.issued || !has_work(s))
        return;
    if (!tern_supervisor_ready(s->composer.supervisor)) {
        if (s->retry == 0)
            s->retry = tern_loop_timer(s->loop, tern_now_ns() + RETRY_NS, retry, s);
        return;
    }
    if (!s->flight.lost) {
        uint32_t rows = 0;
        struct tern_lane *lane = compose_next(s, &rows);
        if (lane == NULL)
            return;
        s->flight = (struct flight){.lane = lane};
    }
    issue(s);
}

/* ---- telling owners ---- */

static void tell_ended(struct tern_scheduler *s)
{
    struct tern_session *session;
    while ((session = s->composer.ended) != NULL) {
        s->composer.ended = session->next;
        session->next = NULL;
        session->events.changed(session->events.context);
    }
}

/* Tells the owners of sessions with news. Owners may submit, cancel and free their own ended
 * session from inside; whatever ends meanwhile waits in the list until the loop below. */
static void tell(struct tern_scheduler *s)
{
    struct tern_session *news[TERN_MAX_SEQUENCES];
    uint32_t count = 0;
    if (s->telling)
        return;
    s->telling = true;
    for (struct tern_lane *lane = s->lanes; lane != NULL; lane = lane->next)
        for (struct tern_session *i = lane->sessions; i != NULL; i = i->next)
            if (i->changed && count < TERN_MAX_SEQUENCES) {
                i->changed = false;
                news[count++] = i;
            }
    for (uint32_t i = 0; i < count; i++)
        if (!news[i]->ended)
            news[i]->events.changed(news[i]->events.context);
    tell_ended(s);
    s->telling = false;
}

/* The worker computes while owners are told. */
static void go_on(struct tern_scheduler *s)
{
    pump(s);
    tell(s);
}

/* ---- results ---- */

static const char *fault_text(uint32_t fault)
{
    if (fault >> 24 == TERN_FAULT_KV_OVERFLOW)
        return "a key or value does not fit the f16 cache; use --kv f32";
    return "a value is not finite (the weights are damaged, or the input drives them out of range)";
}

static void fail_by_fault(const struct tern_lane *lane, struct tern_session *session,
                          uint32_t fault)
{
    const uint32_t index = fault & 0xffff;
    if (index >= lane->plan->instructions) {
        tern_fail(&session->error, TERN_BAD_MODEL, "%s: %s", lane->name, fault_text(fault));
        return;
    }
    const struct tern_instruction *at = &tern_plan_instructions(lane->plan)[index];
    const char *label = tern_plan_label(lane->plan, at->label);
    if (at->layer == 0xffff)
        tern_fail(&session->error, TERN_BAD_MODEL, "%s: %s: %s", lane->name, label,
                  fault_text(fault));
    else
        tern_fail(&session->error, TERN_BAD_MODEL, "%s: layer %u, %s: %s", lane->name, at->layer,
                  label, fault_text(fault));
}

static bool is_end(const struct tern_lane *lane, uint32_t token)
{
    for (uint32_t i = 0; i < lane->end_tokens; i++)
        if (lane->end_token[i] == token)
            return true;
    return false;
}

/* A token was chosen for the position after the newest. */
static void accept(struct tern_scheduler *s, struct tern_session *session, uint32_t token,
                   uint64_t now)
{
    if (session->times.first_ns == 0)
        session->times.first_ns = now;
    session->times.last_ns = now;
    if (is_end(session->lane, token) && !session->ignore_ends) {
        tern_session_end(&s->composer, session, "stop");
        return;
    }
    session->ids[session->count++] = token;
    session->changed = true;
    if (session->count == session->limit)
        tern_session_end(&s->composer, session, "length");
}

static void choose(struct tern_scheduler *s, struct tern_session *session, uint32_t output,
                   uint32_t argmax, uint64_t now)
{
    const struct tern_plan *plan = session->lane->plan;
    uint32_t token = argmax;
    if (session->sampling.temperature > 0) {
        const uint8_t *row = session->lane->logits + (size_t)output * plan->logits.stride;
        token = tern_sample(s->sampler, &session->sampling, (const float *)(const void *)row,
                            plan->vocabulary, session->count);
    }
    if (token >= plan->vocabulary) {
        tern_fail(&session->error, TERN_NO_MEMORY, "out of memory while sampling");
        tern_session_end(&s->composer, session, NULL);
        return;
    }
    accept(s, session, token, now);
}

/* The session's rows are in the cache: hands out logits, chooses a token, or goes on. */
static void absorb(struct tern_scheduler *s, struct tern_session *session, uint32_t output,
                   const struct tern_step_result *result, uint64_t now)
{
    const struct tern_plan *plan = session->lane->plan;
    const uint32_t rows = session->rows, first = session->computed;
    const uint32_t outputs = tern_session_outputs(session);
    session->rows = session->suspect = 0;
    session->faults = session->kills = 0;
    session->computed += rows;
    if (session->every_row) {
        session->events.rows(session->events.context, first, rows,
                             session->lane->logits + (size_t)output * plan->logits.stride,
                             plan->logits.stride);
        session->changed = true;
    } else if (outputs > 0) {
        choose(s, session, output, result->argmax[output], now);
    }
    if (session->ended || tern_session_pending(session) > 0)
        return;
    if (session->times.first_ns == 0)
        session->times.first_ns = session->times.last_ns = now;
    tern_session_end(&s->composer, session, "length"); /* nothing to generate */
}

static uint32_t first_fault(const struct tern_step_result *result, uint32_t row, uint32_t rows)
{
    for (uint32_t i = row; i < row + rows; i++)
        if (result->fault[i] != 0)
            return result->fault[i];
    return 0;
}

static void take_results(struct tern_scheduler *s, const struct tern_step_result *result)
{
    struct tern_lane *lane = s->flight.lane;
    const uint64_t now = tern_now_ns();
    const uint64_t spent =
        result->ended_ns > result->began_ns ? result->ended_ns - result->began_ns : 0;
    uint32_t row = 0, output = 0;
    tern_lane_measure(lane, s->flight.rows, spent);
    for (struct tern_session *i = lane->sessions, *next; i != NULL; i = next) {
        next = i->next;
        if (i->rows == 0)
            continue;
        const uint32_t rows = i->rows, outputs = tern_session_outputs(i);
        const uint32_t fault = first_fault(result, row, rows);
        if (i->times.first_ns != 0)
            i->times.worker_ns += spent;
        if (i->cancelled) {
            tern_session_end(&s->composer, i, "cancelled");
        } else if (fault != 0) {
            fail_by_fault(lane, i, fault);
            tern_session_end(&s->composer, i, NULL);
        } else {
            absorb(s, i, output, result, now);
        }
        row += rows;
        output += outputs;
    }
}

static void step_done(void *context, uint64_t step, const struct tern_step_result *result)
{
    struct tern_scheduler *s = context;
    if (!s->flight.issued || step != s->flight.number)
        return;
    take_results(s, result);
    s->flight = (struct flight){0};
    go_on(s);
}

/* ---- deaths ---- */

static uint32_t participants(const struct tern_lane *lane)
{
    uint32_t count = 0;
    for (const struct tern_session *i = lane->sessions; i != NULL; i = i->next)
        count += i->rows > 0;
    return count;
}

static void charge(struct tern_scheduler *s, struct tern_session *session, enum tern_death death)
{
    uint32_t *count = death == TERN_DEATH_KILLED ? &session->kills : &session->faults;
    const uint32_t allowed = death == TERN_DEATH_KILLED ? KILLS_ALONE : FAULTS_ALONE;
    if (++*count < allowed)
        return;
    tern_fail(&session->error, TERN_GAVE_UP,
              "given up: the compute worker %s %u times on the same step of this request",
              death == TERN_DEATH_KILLED ? "was killed"
              : death == TERN_DEATH_HANG ? "hung"
                                         : "crashed",
              *count);
    tern_session_end(&s->composer, session, NULL);
}

/* Rows of the lost step go back to their sessions; each of them will run alone. */
static void isolate(struct tern_lane *lane)
{
    for (struct tern_session *i = lane->sessions; i != NULL; i = i->next)
        if (i->rows > 0) {
            i->suspect = i->rows;
            i->rows = 0;
        }
}

static void step_lost(void *context, uint64_t step, enum tern_death death)
{
    struct tern_scheduler *s = context;
    struct flight *flight = &s->flight;
    if (!flight->issued || step != flight->number)
        return;
    const bool alone = participants(flight->lane) == 1;
    flight->issued = false;
    flight->deaths++;
    for (struct tern_session *i = flight->lane->sessions, *next; i != NULL; i = next) {
        next = i->next;
        if (i->rows > 0 && i->cancelled)
            tern_session_end(&s->composer, i, "cancelled");
        else if (i->rows > 0 && alone)
            charge(s, i, death);
    }
    if (!alone && flight->deaths >= 2)
        isolate(flight->lane);
    flight->lost = participants(flight->lane) > 0;
    if (!flight->lost)
        *flight = (struct flight){0};
    go_on(s);
}

static void step_granted(void *context, uint64_t step, uint32_t token, uint32_t fault)
{
    (void)context, (void)step, (void)token, (void)fault;
}

struct tern_supervisor_events tern_scheduler_events(struct tern_scheduler *scheduler)
{
    return (struct tern_supervisor_events){.context = scheduler,
                                           .step_done = step_done,
                                           .step_granted = step_granted,
                                           .step_lost = step_lost};
}

/* ---- owners ---- */

void tern_scheduler_submit(struct tern_scheduler *scheduler, struct tern_lane *lane,
                           struct tern_session *session)
{
    struct tern_session **link = &lane->sessions;
    while (*link != NULL)
        link = &(*link)->next;
    session->lane = lane;
    session->next = NULL;
    *link = session;
    go_on(scheduler);
}

void tern_scheduler_cancel(struct tern_scheduler *scheduler, struct tern_session *session)
{
    if (session->ended)
        return;
    session->cancelled = true;
    if (session->rows == 0)
        tern_session_end(&scheduler->composer, session, "cancelled");
    go_on(scheduler);
}

void tern_scheduler_resume(struct tern_scheduler *scheduler)
{
    go_on(scheduler);
}
