/*
 * What happens to sessions when the worker dies (DESIGN section 7):
 *
 *   first death of a step     the same rows again
 *   second                    its sessions are suspects: each runs alone until a step of it is done
 *   second death alone by its own fault or hang, tenth by a kill from outside
 *                             that session is given up, the others go on
 *   from the fifth kill on      the killer may be the kernel, for memory: what is not in use goes
 */
#include "coordinator/schedule/internal.h"
#include "coordinator/schedule/prefix.h"

enum { FAULTS_ALONE = 2, KILLS_ALONE = 10, KILLS_SUSPICIOUS = 5 };

static uint32_t participants(const struct tern_lane *lane)
{
    uint32_t count = 0;
    for (const struct tern_session *i = lane->sessions; i != NULL; i = i->next)
        count += i->rows > 0;
    return count;
}

static void give_up(struct tern_scheduler *s, struct tern_session *session, enum tern_death death,
                    uint32_t count)
{
    tern_fail(&session->error, TERN_GAVE_UP,
              "given up: the compute worker %s %u times on the same step of this request",
              death == TERN_DEATH_KILLED ? "was killed"
              : death == TERN_DEATH_HANG ? "hung"
                                         : "crashed",
              count);
    tern_session_end(&s->composer, session, NULL);
}

static void charge(struct tern_scheduler *s, struct tern_session *session, enum tern_death death)
{
    struct tern_lane *const lane = session->lane;
    const bool killed = death == TERN_DEATH_KILLED;
    const uint32_t count = killed ? ++session->kills : ++session->faults;
    if (count >= (killed ? KILLS_ALONE : FAULTS_ALONE))
        give_up(s, session, death, count);
    if (killed && count >= KILLS_SUSPICIOUS) {
        tern_prefix_drop_all(lane);
        lane->relieve(lane->context);
    }
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

void tern_schedule_lost(void *context, uint64_t step, enum tern_death death)
{
    struct tern_scheduler *s = context;
    struct tern_flight *flight = &s->flight;
    if (!flight->issued || step != flight->next)
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
        *flight = (struct tern_flight){0};
    tern_scheduler_go_on(s);
}

void tern_schedule_plan_lost(void *context, uint32_t plan, const struct tern_error *error)
{
    struct tern_scheduler *s = context;
    struct tern_lane *lane = s->lanes;
    while (lane != NULL && lane->number != plan)
        lane = lane->next;
    if (lane == NULL)
        return;
    if (s->flight.lane == lane)
        s->flight = (struct tern_flight){0};
    while (lane->sessions != NULL) {
        struct tern_session *session = lane->sessions;
        session->error = *error;
        tern_session_end(&s->composer, session, NULL);
    }
    tern_scheduler_remove_lane(s, lane);
    lane->lost(lane->context, error);
    tern_scheduler_go_on(s);
}
