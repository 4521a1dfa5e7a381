/* The scheduler's own state, shared by schedule.c, results.c and deaths.c. */
#ifndef TERN_SCHEDULE_INTERNAL_H
#define TERN_SCHEDULE_INTERNAL_H

#include "coordinator/schedule/compose.h"

/* The step that was issued, or (lost) must be issued again. Its sessions are those with rows. With
 * run-ahead it is followed by steps of its own up to `last`; its one session then has one row, that
 * of step `next`. */
struct tern_flight {
    bool issued, lost;
    uint64_t number; /* of the step itself */
    uint64_t next;   /* number of the result that comes next */
    uint64_t last;   /* number of the last result that comes; `number` without run-ahead */
    struct tern_lane *lane;
    uint32_t rows, deaths;
};

struct tern_scheduler {
    struct tern_composer composer;
    struct tern_loop *loop;
    struct tern_lane *lanes; /* the first one's turn is next */
    struct tern_flight flight;
    struct tern_step step;
    struct tern_sampler *sampler;
    struct tern_figures figures;
    int retry;    /* timer, 0: none */
    bool telling; /* owners are being told: they may call back in */
};

/* Issues the next step if none is in flight, then tells owners what is new: the worker computes
 * meanwhile. */
void tern_scheduler_go_on(struct tern_scheduler *scheduler);

/* The step in flight is over: its sessions have no rows any more. */
void tern_flight_finish(struct tern_scheduler *scheduler);
/* Run-ahead stops as soon as it can: somebody else wants a step. */
void tern_flight_revoke(struct tern_scheduler *scheduler);

/* The supervisor's events. */
void tern_schedule_done(void *context, uint64_t step, const struct tern_step_result *result);
void tern_schedule_granted(void *context, uint64_t step, const struct tern_granted_token *granted);
void tern_schedule_lost(void *context, uint64_t step, enum tern_death death);
void tern_schedule_plan_lost(void *context, uint32_t plan, const struct tern_error *error);

#endif
