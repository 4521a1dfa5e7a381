/*
 * A supervisor for the scheduler's tests, and a model whose tokens are a hash of everything the
 * cache holds of the sequence: whatever is wrong with pages, positions, rows or replays changes the
 * tokens. Nothing runs by itself: a test finishes or loses the step in flight.
 */
#ifndef TERN_TESTS_FAKE_SUPERVISOR_H
#define TERN_TESTS_FAKE_SUPERVISOR_H

#include "coordinator/schedule/schedule.h"
#include "proto/plan.h"

enum { FAKE_VOCABULARY = 1000, FAKE_PAGES = 256 };

struct fake {
    struct tern_step step; /* in flight */
    bool in_flight;
    bool not_ready; /* the worker is being restarted */
    uint64_t last_number, run_limit;
    uint32_t ahead;       /* steps of a run that the worker has begun already when it is revoked */
    uint32_t issued;      /* steps, in all */
    uint32_t computed;    /* rows, in all */
    uint64_t row_ns;      /* what a row takes, by the worker's clock */
    uint32_t fault_token; /* a row of this token has this fault */
    uint32_t fault;
    tern_callback timer; /* set by tern_loop_timer, NULL: none */
    void *timer_context;
    uint32_t reached;   /* positions announced to the lane */
    uint32_t relieved;  /* how often the lane was to give memory back */
    uint32_t held_then; /* pages that somebody held, the last time */
};

extern struct fake fake;

/* A lane on a pool of `pages` pages; free with fake_close. */
void fake_open(struct tern_scheduler **scheduler, struct tern_lane *lane, uint32_t context,
               uint32_t max_rows, uint32_t max_outputs, uint32_t pages);
void fake_close(struct tern_scheduler *scheduler, struct tern_lane *lane);

/* The token after these. */
uint32_t fake_next(const uint32_t *ids, uint32_t count);
/* Logit `i` of the row after these. */
float fake_logit(const uint32_t *ids, uint32_t count, uint32_t i);

/* Finishes the step in flight and its whole run; false if there is none. */
bool fake_finish(struct tern_scheduler *scheduler);
/* Finishes the step and at most `tokens` of its run; what remains of the run can go on with
 * fake_run. */
bool fake_finish_some(struct tern_scheduler *scheduler, uint32_t tokens);
/* Further tokens of the run; false when it is over. */
bool fake_run(struct tern_scheduler *scheduler);
/* A revoked run ends without the steps that the worker seemed to have begun (fake.ahead). */
void fake_take_back(void);
/* The worker dies in the step. */
void fake_lose(struct tern_scheduler *scheduler, enum tern_death death);

#endif
