/*
 * Composing one step of a lane: which sessions get how many rows, and pages for their positions.
 * Part of the scheduler; called only while no step is in flight.
 */
#ifndef TERN_COMPOSE_H
#define TERN_COMPOSE_H

#include "coordinator/schedule/schedule.h"

/* What sessions of all lanes share. */
struct tern_composer {
    struct tern_supervisor *supervisor;
    bool sequence[TERN_MAX_SEQUENCES]; /* taken page tables */
    struct tern_session *ended;        /* sessions that ended and whose owners do not know yet */
    uint32_t sharing;                  /* see tern_pace_rows; of the step that is composed */
};

/* Gives every session that takes part its `rows` and pages; sessions that found no pages lose
 * theirs. Returns the rows of the step, 0: nothing can run now. */
uint32_t tern_compose(struct tern_composer *composer, struct tern_lane *lane);
/* The same for this session alone, at most `rows` rows. 0: older sessions hold all pages, or it has
 * ended. */
uint32_t tern_compose_alone(struct tern_composer *composer, struct tern_session *session,
                            uint32_t rows);

/* A session that rests (its owner takes nothing) must not keep others out: one of the lane's loses
 * its page table, and its pages as far as they are needed; it is computed again when it goes on.
 * False: none holds anything. */
bool tern_compose_evict_resting(struct tern_composer *composer, struct tern_lane *lane);

/* Takes pages for up to `positions` positions after the session's rows, as far as there are free
 * ones; returns for how many there are pages. */
uint32_t tern_compose_ahead(struct tern_composer *composer, struct tern_session *session,
                            uint32_t positions);

/* Output rows of a session that has rows. */
uint32_t tern_session_outputs(const struct tern_session *session);

/* Writes the rows of all sessions that have some into *step. */
void tern_compose_step(const struct tern_lane *lane, struct tern_step *step);

/* Takes the session out of its lane, gives its pages back, and queues it for its owner. An error
 * must have been filled before; reason NULL then. */
void tern_session_end(struct tern_composer *composer, struct tern_session *session,
                      const char *reason);

#endif
