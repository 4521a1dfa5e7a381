/*
 * What a finished step means: rows are in the cache, logits go out, tokens are chosen, sessions
 * come to their ends. Tokens of run-ahead steps were chosen by the worker as the step's own was.
 */
#include "coordinator/schedule/internal.h"
#include "proto/plan.h"

static const char *fault_text(uint32_t fault)
{
    if (fault >> 24 == TERN_FAULT_KV_OVERFLOW)
        return "a key or value does not fit the f16 cache; use --kv f32";
    return "a value is not finite: the weights are damaged or unsuitable; "
           "get the file again or use another model file";
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

/* Is this the token after which the session's answer is over? */
static bool is_end_of(const struct tern_session *session, uint32_t token)
{
    const struct tern_lane *lane = session->lane;
    if (session->ignore_ends)
        return false;
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
    if (is_end_of(session, token)) {
        tern_session_end(&s->composer, session, "stop");
        return;
    }
    session->ids[session->count++] = token;
    session->changed = true;
    if (session->count == session->limit)
        tern_session_end(&s->composer, session, "length");
}

static void choose(struct tern_scheduler *s, struct tern_session *session, const uint8_t *logits,
                   uint32_t argmax, uint64_t now)
{
    const struct tern_plan *plan = session->lane->plan;
    const float *row = (const float *)(const void *)logits;
    uint32_t token = argmax;
    if (!tern_session_argmax(session))
        token = tern_sample(s->sampler, &session->sampling, row, plan->vocabulary, session->ids,
                            session->count);
    if (token >= plan->vocabulary) {
        tern_fail(&session->error, TERN_NO_MEMORY, "out of memory while sampling");
        tern_session_end(&s->composer, session, NULL);
        return;
    }
    if (session->every_choice && !is_end_of(session, token))
        session->events.chosen(session->events.context, token, row);
    accept(s, session, token, now);
}

/* The session's rows are in the cache: hands out logits, chooses a token, or goes on. */
static void absorb(struct tern_scheduler *s, struct tern_session *session, uint32_t output,
                   uint32_t argmax, uint64_t now)
{
    const struct tern_plan *plan = session->lane->plan;
    const uint8_t *logits = session->lane->logits + (size_t)output * plan->logits.stride;
    const uint32_t rows = session->rows, first = session->computed;
    const uint32_t outputs = tern_session_outputs(session);
    session->rows = session->suspect = 0;
    session->faults = session->kills = 0;
    session->computed += rows;
    if (session->every_row) {
        session->events.rows(session->events.context, first, rows, logits, plan->logits.stride);
        session->changed = true;
    } else if (outputs > 0) {
        choose(s, session, logits, argmax, now);
    }
    if (session->ended || tern_session_pending(session) > 0)
        return;
    if (session->times.first_ns == 0)
        session->times.first_ns = session->times.last_ns = now;
    tern_session_end(&s->composer, session, "length"); /* nothing to generate */
}

/* A cancelled session keeps its rows: it ends when the flight is over. */
static void settle(struct tern_scheduler *s, struct tern_session *session, uint32_t output,
                   uint32_t argmax, uint32_t fault, uint64_t now)
{
    if (session->cancelled)
        return;
    if (fault == 0) {
        absorb(s, session, output, argmax, now);
        return;
    }
    fail_by_fault(session->lane, session, fault);
    tern_session_end(&s->composer, session, NULL);
}

static uint64_t between(uint64_t began_ns, uint64_t ended_ns)
{
    return ended_ns > began_ns ? ended_ns - began_ns : 0;
}

static uint32_t first_fault(const struct tern_step_result *result, uint32_t row, uint32_t rows)
{
    for (uint32_t i = row; i < row + rows; i++)
        if (result->fault[i] != 0)
            return result->fault[i];
    return 0;
}

static void measure(struct tern_lane *lane, uint64_t spent)
{
    uint32_t rows = 0;
    uint64_t attended = 0;
    for (const struct tern_session *i = lane->sessions; i != NULL; i = i->next) {
        rows += i->rows;
        attended += i->rows * (i->computed + (i->rows + 1) / 2ull);
    }
    tern_pace_measure(&lane->pace, rows, attended, spent);
}

static void count(struct tern_scheduler *s, struct tern_lane *lane, struct tern_count rows,
                  uint64_t spent, uint64_t now)
{
    tern_figures_add(&s->figures, rows, spent, now);
    tern_figures_add(&lane->figures, rows, spent, now);
}

static void take_results(struct tern_scheduler *s, const struct tern_step_result *result)
{
    struct tern_lane *lane = s->flight.lane;
    const uint64_t now = tern_now_ns();
    const uint64_t spent = between(result->began_ns, result->ended_ns);
    struct tern_count counted = {0};
    uint32_t row = 0, output = 0;
    measure(lane, spent);
    for (struct tern_session *i = lane->sessions, *next; i != NULL; i = next) {
        next = i->next;
        if (i->rows == 0)
            continue;
        const uint32_t rows = i->rows, outputs = tern_session_outputs(i);
        const uint32_t fault = first_fault(result, row, rows);
        *(i->times.first_ns != 0 ? &counted.decode : &counted.prompt) += rows;
        if (i->times.first_ns != 0)
            i->times.worker_ns += spent;
        settle(s, i, output, outputs > 0 ? result->argmax[output] : 0, fault, now);
        row += rows;
        output += outputs;
    }
    count(s, lane, counted, spent, now);
}

/* More steps of the run are to come: the session's next row is being computed. */
static bool run_goes_on(const struct tern_scheduler *s, struct tern_session *session)
{
    if (s->flight.next > s->flight.last || session->ended)
        return false;
    session->rows = 1;
    return true;
}

static struct tern_session *session_in_flight(const struct tern_scheduler *s)
{
    struct tern_session *session = s->flight.lane->sessions;
    while (session != NULL && session->rows == 0)
        session = session->next;
    return session;
}

void tern_schedule_done(void *context, uint64_t step, const struct tern_step_result *result)
{
    struct tern_scheduler *s = context;
    if (!s->flight.issued || step != s->flight.number || step != s->flight.next)
        return;
    struct tern_session *session = session_in_flight(s); /* the only one, if there is a run */
    s->flight.next++;
    take_results(s, result);
    if (s->flight.last == s->flight.number || !run_goes_on(s, session))
        tern_flight_finish(s);
    tern_scheduler_go_on(s);
}

void tern_schedule_granted(void *context, uint64_t step, const struct tern_granted_token *granted)
{
    struct tern_scheduler *s = context;
    if (!s->flight.issued || step != s->flight.next || step > s->flight.last)
        return;
    struct tern_session *session = session_in_flight(s);
    s->flight.next++;
    const uint64_t spent = between(granted->began_ns, granted->ended_ns), now = tern_now_ns();
    if (session->times.first_ns != 0)
        session->times.worker_ns += spent;
    count(s, s->flight.lane, (struct tern_count){.decode = 1}, spent, now);
    settle(s, session, 0, granted->token, granted->fault, now);
    if (!run_goes_on(s, session))
        tern_flight_finish(s);
    tern_scheduler_go_on(s);
}
