/*
 * The scheduler: composes steps from the sessions of all ready models and takes their results.
 *
 * One step is in flight at a time (a single greedy session may run ahead of it for a while). Each
 * step belongs to one lane (a ready model); lanes with work take turns. A step gives one row to
 * every runnable session, then shares what is left of its rows between the prompts. Its rows are
 * bounded by the plan and by predicted time, so that a long prompt delays nobody and a cancellation
 * takes effect soon.
 *
 * Between steps, and only then, sessions end, pages move and page tables change: no step in flight
 * can touch what is given away.
 */
#ifndef TERN_SCHEDULE_H
#define TERN_SCHEDULE_H

#include "coordinator/loop.h"
#include "coordinator/schedule/figures.h"
#include "coordinator/schedule/pace.h"
#include "coordinator/schedule/pages.h"
#include "coordinator/schedule/session.h"
#include "coordinator/supervise.h"

struct tern_scheduler;

/* What the scheduler needs of a ready model; made by the model, all borrowed. */
struct tern_lane {
    const char *name;             /* of the model, for messages */
    uint32_t number;              /* of its binding */
    const struct tern_plan *plan; /* checked */
    const uint8_t *logits;        /* max_outputs rows at plan->logits.stride */
    struct tern_pages *pages;
    uint32_t end_tokens, end_token[TERN_MAX_END_TOKENS];
    /* Positions below `positions` are about to be used: fills the RoPE tables. */
    void (*reach)(void *context, uint32_t positions);
    /* Memory is short: what pages without holders occupy goes back to the system. */
    void (*relieve)(void *context);
    /* The worker cannot run the plan any more; all sessions have ended, the lane is removed. */
    void (*lost)(void *context, const struct tern_error *error);
    void *context;

    /* The scheduler's own; all zero at first. */
    struct tern_lane *next;
    struct tern_session *sessions; /* first served first: by age, but clients take turns */
    struct tern_prefix *kept;      /* left by ended sessions, least recently used first */
    uint32_t kept_count;
    uint32_t turn; /* sessions at the front that come last in the next step */
    struct tern_pace pace;
    struct tern_figures figures;
};

struct tern_scheduler *tern_scheduler_new(struct tern_loop *loop); /* NULL: out of memory */
void tern_scheduler_free(struct tern_scheduler *scheduler);

/* What a supervisor must call. The supervisor made with these is then attached. */
struct tern_supervisor_events tern_scheduler_events(struct tern_scheduler *scheduler);
void tern_scheduler_attach(struct tern_scheduler *scheduler, struct tern_supervisor *supervisor);

void tern_scheduler_add_lane(struct tern_scheduler *scheduler, struct tern_lane *lane);
/* The lane has no sessions any more; what it kept is given up. */
void tern_scheduler_remove_lane(struct tern_scheduler *scheduler, struct tern_lane *lane);

/* The session joins the lane's queue. Its events come until it has ended. */
void tern_scheduler_submit(struct tern_scheduler *scheduler, struct tern_lane *lane,
                           struct tern_session *session);
/* Ends it with reason "cancelled", at once or when its step is done; `changed` then comes from the
 * loop or from inside this call. */
void tern_scheduler_cancel(struct tern_scheduler *scheduler, struct tern_session *session);
/* The owner raised session->credit from 0. */
void tern_scheduler_resume(struct tern_scheduler *scheduler);

/* Of all lanes there were. */
const struct tern_figures *tern_scheduler_figures(const struct tern_scheduler *scheduler);

#endif
