/*
 * The scheduler: lanes and their turns, issuing steps, telling owners. What comes back is in
 * results.c, what a death means in deaths.c.
 */
#include "coordinator/schedule/schedule.h"
#include "coordinator/schedule/internal.h"
#include "coordinator/schedule/prefix.h"
#include "proto/plan.h"

#include <stdlib.h>

enum {
    RETRY_NS = 2 * 1000 * 1000, /* while the worker is being restarted, or a run must end */
    RUN_AHEAD = 16,             /* steps granted at most: what cancelling may have to wait for */
};

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

const struct tern_figures *tern_scheduler_figures(const struct tern_scheduler *scheduler)
{
    return &scheduler->figures;
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
    tern_prefix_drop_all(lane);
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

/* Lanes that take turns while somebody in one of them waits for a token, 0: nobody does. */
static uint32_t count_sharing(const struct tern_scheduler *s)
{
    uint32_t lanes = 0;
    bool awaited = false;
    for (const struct tern_lane *lane = s->lanes; lane != NULL; lane = lane->next) {
        lanes += lane_runnable(lane);
        for (const struct tern_session *i = lane->sessions; i != NULL; i = i->next)
            if (i->sequence >= 0 && tern_session_runnable(i) && tern_session_awaits_token(i))
                awaited = true;
    }
    return awaited ? lanes : 0;
}

/* The first lane, in turn, that has rows now. */
static struct tern_lane *compose_turn(struct tern_scheduler *s, uint32_t *rows)
{
    s->composer.sharing = count_sharing(s);
    for (struct tern_lane *lane = s->lanes; lane != NULL; lane = lane->next) {
        if (!lane_runnable(lane) || (*rows = tern_compose(&s->composer, lane)) == 0)
            continue;
        unlink_lane(s, lane);
        append_lane(s, lane);
        return lane;
    }
    return NULL;
}

/* Page tables are for all lanes: those that rest in one must not keep another's sessions out. */
static bool evict_resting(struct tern_scheduler *s)
{
    bool found = false;
    for (struct tern_lane *lane = s->lanes; lane != NULL && !found; lane = lane->next)
        found = tern_compose_evict_resting(&s->composer, lane);
    return found;
}

/* Gives rows to the sessions of the next step; its lane, or NULL: nothing can run. A suspect that
 * finds no pages waits like others: those that hold them must get on. */
static struct tern_lane *compose_next(struct tern_scheduler *s, uint32_t *rows)
{
    struct tern_session *suspect = find_suspect(s);
    if (suspect != NULL) {
        struct tern_lane *lane = suspect->lane;
        *rows = tern_compose_alone(&s->composer, suspect, suspect->suspect);
        if (*rows > 0)
            return lane;
    }
    struct tern_lane *lane;
    while ((lane = compose_turn(s, rows)) == NULL && evict_resting(s))
        ;
    return lane;
}

/* May no step follow by itself? Somebody could run who is not in the step, or who is in it wants
 * it no more. */
static bool run_ahead_is_unwanted(const struct tern_scheduler *s)
{
    for (const struct tern_lane *lane = s->lanes; lane != NULL; lane = lane->next)
        for (const struct tern_session *i = lane->sessions; i != NULL; i = i->next)
            if (i->rows == 0 ? tern_session_runnable(i) : i->cancelled)
                return true;
    return false;
}

/* Run-ahead for a step of one greedy session while nobody else wants the worker. Not for a step
 * that was lost: what kills the worker is found one step at a time. */
static void grant(struct tern_scheduler *s)
{
    struct tern_step *step = &s->step;
    const struct tern_lane *lane = s->flight.lane;
    struct tern_session *session = lane->sessions;
    while (session != NULL && session->rows == 0)
        session = session->next;
    if (session == NULL || session->rows != step->rows || session->every_row ||
        !(step->row[step->rows - 1].flags & TERN_ROW_ARGMAX) || s->flight.deaths > 0 ||
        session->suspect > 0 || run_ahead_is_unwanted(s))
        return;
    const uint32_t left = session->limit - session->count - 1;
    step->grant = tern_compose_ahead(&s->composer, session, left < RUN_AHEAD ? left : RUN_AHEAD);
    if (session->ignore_ends)
        return;
    step->end_tokens = lane->end_tokens;
    for (uint32_t i = 0; i < lane->end_tokens; i++)
        step->end_token[i] = lane->end_token[i];
}

static void retry(void *context)
{
    struct tern_scheduler *s = context;
    s->retry = 0;
    tern_scheduler_go_on(s);
}

static void retry_soon(struct tern_scheduler *s)
{
    if (s->retry == 0)
        s->retry = tern_loop_timer(s->loop, tern_now_ns() + RETRY_NS, retry, s);
}

void tern_flight_finish(struct tern_scheduler *s)
{
    for (struct tern_session *i = s->flight.lane->sessions, *next; i != NULL; i = next) {
        next = i->next;
        if (i->rows > 0 && i->cancelled)
            tern_session_end(&s->composer, i, "cancelled");
        else
            i->rows = 0;
    }
    s->flight = (struct tern_flight){0};
}

void tern_flight_revoke(struct tern_scheduler *s)
{
    struct tern_flight *flight = &s->flight;
    if (!flight->issued || flight->last == flight->number)
        return;
    const uint64_t newest = tern_supervisor_revoke(s->composer.supervisor, flight->next - 1);
    if (newest < flight->last)
        flight->last = newest > flight->number ? newest : flight->number;
    if (flight->next > flight->last)
        tern_flight_finish(s);
    else
        retry_soon(s); /* the newest may be one that the worker takes back without a word */
}

static void issue(struct tern_scheduler *s)
{
    struct tern_flight *flight = &s->flight;
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
    tern_compose_step(lane, &s->step);
    grant(s);
    lane->reach(lane->context, positions + s->step.grant);
    flight->number = tern_supervisor_issue(s->composer.supervisor, &s->step);
    flight->rows = s->step.rows;
    flight->issued = flight->number != 0;
    flight->lost = !flight->issued;
    flight->next = flight->number;
    flight->last = flight->number + s->step.grant;
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
    if (s->flight.issued && run_ahead_is_unwanted(s))
        tern_flight_revoke(s);
    if (s->flight.issued || !has_work(s))
        return;
    if (!tern_supervisor_ready(s->composer.supervisor)) {
        retry_soon(s);
        return;
    }
    if (!s->flight.lost) {
        uint32_t rows = 0;
        struct tern_lane *lane = compose_next(s, &rows);
        if (lane == NULL)
            return;
        s->flight = (struct tern_flight){.lane = lane};
    }
    issue(s);
    if (s->flight.lost)
        retry_soon(s);
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

void tern_scheduler_go_on(struct tern_scheduler *s)
{
    pump(s);
    tell(s);
}

struct tern_supervisor_events tern_scheduler_events(struct tern_scheduler *scheduler)
{
    return (struct tern_supervisor_events){.context = scheduler,
                                           .step_done = tern_schedule_done,
                                           .step_granted = tern_schedule_granted,
                                           .step_lost = tern_schedule_lost,
                                           .plan_lost = tern_schedule_plan_lost};
}

/* ---- owners ---- */

/* How many sessions of the same client are in the lane up to this one, itself counted. */
static uint32_t rank_of(const struct tern_lane *lane, const struct tern_session *session)
{
    uint32_t rank = 1;
    for (const struct tern_session *s = lane->sessions; s != session; s = s->next)
        rank += s->client == session->client;
    return rank;
}

/* Clients take turns: a client's third session stands behind everybody's second, whoever came
 * first. Behind all that are not younger in this sense, so that nobody is passed for ever. */
static struct tern_session **find_place(struct tern_lane *lane, const struct tern_session *session)
{
    struct tern_session **place = &lane->sessions;
    uint32_t rank = 1;
    for (const struct tern_session *s = lane->sessions; s != NULL; s = s->next)
        rank += s->client == session->client;
    for (struct tern_session **link = &lane->sessions; *link != NULL; link = &(*link)->next)
        if (rank_of(lane, *link) <= rank)
            place = &(*link)->next;
    return place;
}

void tern_scheduler_submit(struct tern_scheduler *scheduler, struct tern_lane *lane,
                           struct tern_session *session)
{
    struct tern_session **link = find_place(lane, session);
    session->lane = lane;
    session->next = *link;
    *link = session;
    tern_scheduler_go_on(scheduler);
}

void tern_scheduler_cancel(struct tern_scheduler *scheduler, struct tern_session *session)
{
    if (session->ended)
        return;
    session->cancelled = true;
    if (session->rows == 0)
        tern_session_end(&scheduler->composer, session, "cancelled");
    else
        tern_flight_revoke(scheduler);
    tern_scheduler_go_on(scheduler);
}

void tern_scheduler_resume(struct tern_scheduler *scheduler)
{
    tern_scheduler_go_on(scheduler);
}
