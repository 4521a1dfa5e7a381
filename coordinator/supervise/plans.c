/*
 * Plans on the CPU worker. They are bound one after the other, so that a death while binding names
 * its plan: one that was never in use is given up after a few, one that was only after many,
 * because its requests still wait for their answers.
 */
#include "coordinator/supervise/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void unlink_plan(struct tern_supervisor *s, struct plan *plan)
{
    for (struct plan **p = &s->compute.plans; *p != NULL; p = &(*p)->next) {
        if (*p == plan) {
            *p = plan->next;
            break;
        }
    }
    if (s->compute.binding == plan)
        s->compute.binding = NULL;
}

static struct plan *find_plan(const struct tern_supervisor *s, uint64_t number)
{
    for (struct plan *p = s->compute.plans; p != NULL; p = p->next)
        if (p->binding.plan == number)
            return p;
    return NULL;
}

void plans_free(struct tern_supervisor *s)
{
    while (s->compute.plans != NULL) {
        struct plan *plan = s->compute.plans;
        unlink_plan(s, plan);
        free(plan);
    }
}

/* ---- sending ---- */

static enum tern_status send_segments(struct tern_supervisor *s, const struct tern_binding *b,
                                      struct tern_error *error)
{
    const struct {
        int fd;
        enum tern_segment_kind kind;
        uint64_t id, size;
        bool writable;
    } parcels[] = {
        {b->plan_fd, TERN_SEGMENT_PLAN, b->plan_id, b->plan_size, false},
        {b->weights_fd, TERN_SEGMENT_WEIGHTS, b->weights_id, b->weights_size, false},
        {b->tables_fd, TERN_SEGMENT_TABLES, b->tables_id, b->tables_size, false},
        {b->kv_fd, TERN_SEGMENT_KV, b->kv_id, b->kv_size, true},
        {b->activations_fd, TERN_SEGMENT_ACTIVATIONS, b->activations_id, b->activations_size, true},
    };
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof parcels / sizeof *parcels && status == TERN_OK; i++)
        status = send_segment(s->compute.process.channel, parcels[i].fd, parcels[i].kind,
                              parcels[i].id, parcels[i].size, parcels[i].writable, error);
    return status;
}

static enum tern_status send_bind(struct tern_supervisor *s, const struct tern_binding *b,
                                  struct tern_error *error)
{
    const enum tern_status status = send_segments(s, b, error);
    if (status != TERN_OK)
        return status;
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_BIND);
    tern_pack_u64(&pack, TERN_F_PLAN, b->plan);
    tern_pack_u64(&pack, TERN_F_SEG_PLAN, b->plan_id);
    tern_pack_u64(&pack, TERN_F_SEG_WEIGHTS, b->weights_id);
    tern_pack_u64(&pack, TERN_F_SEG_TABLES, b->tables_id);
    tern_pack_u64(&pack, TERN_F_SEG_KV, b->kv_id);
    tern_pack_u64(&pack, TERN_F_SEG_ACTIVATIONS, b->activations_id);
    tern_pack_text(&pack, TERN_F_TIER, tern_tier_name(b->tier));
    tern_pack_u64(&pack, TERN_F_THREADS, b->threads);
    return send_control(s, &pack) ? TERN_OK
                                  : tern_fail(error, TERN_FAILED,
                                              "cannot send to the CPU worker: %s", strerror(errno));
}

/* The plan to bind next: those that steps wait for come first. */
static struct plan *next_unbound(const struct tern_supervisor *s)
{
    struct plan *fresh = NULL;
    for (struct plan *p = s->compute.plans; p != NULL; p = p->next) {
        if (p->ready)
            continue;
        if (p->answered)
            return p;
        if (fresh == NULL)
            fresh = p;
    }
    return fresh;
}

void plans_next(struct tern_supervisor *s)
{
    struct compute *c = &s->compute;
    if ((c->state != COMPUTE_BINDING && c->state != COMPUTE_READY) || c->bind_pending)
        return;
    struct plan *plan = next_unbound(s);
    if (plan != NULL) {
        struct tern_error error;
        c->binding = plan;
        c->bind_pending = true;
        c->bind_number = plan->binding.plan;
        if (send_bind(s, &plan->binding, &error) != TERN_OK) {
            tern_log("error", "binding a plan: %s", error.message);
            compute_condemn(s, TERN_DEATH_FAULT);
        }
        deadline_expect(s, c->flights == 0);
    }
    if (c->state == COMPUTE_BINDING && (plan == NULL || !plan->answered))
        compute_ready(s);
}

void plans_hello(struct tern_supervisor *s)
{
    for (struct plan *p = s->compute.plans; p != NULL; p = p->next)
        p->ready = false;
    plans_next(s);
}

/* ---- answers ---- */

static void answer(struct plan *plan, const struct tern_error *error)
{
    const tern_bound bound = plan->bound;
    void *context = plan->context;
    if (error->status != TERN_OK)
        free(plan);
    bound(context, error);
}

static enum tern_status fault_error(const struct tern_message *message, struct tern_error *error)
{
    size_t length;
    const char *text = tern_message_text(message, TERN_F_TEXT, &length);
    const uint64_t status = tern_message_u64(message, TERN_F_STATUS, TERN_FAILED);
    const bool known = status >= TERN_FAILED && status <= TERN_NO_SERVICE;
    return tern_fail(error, known ? (enum tern_status)status : TERN_FAILED, "%.*s",
                     text != NULL && length < 400 ? (int)length : 400,
                     text != NULL ? text : "the CPU worker refused the plan");
}

void plans_answer(struct tern_supervisor *s, const struct tern_message *message)
{
    struct compute *c = &s->compute;
    struct plan *plan = c->binding;
    struct tern_error error = {.status = TERN_OK};
    if (!c->bind_pending || tern_message_u64(message, TERN_F_PLAN, UINT64_MAX) != c->bind_number) {
        tern_log("warning", "the CPU worker answered about a plan it was not asked to bind");
        return;
    }
    c->bind_pending = false;
    deadline_progress(s);
    if (plan == NULL) { /* released meanwhile */
        plans_next(s);
        return;
    }
    if (message->kind == TERN_MSG_FAULT)
        fault_error(message, &error);
    if (error.status != TERN_OK && plan->answered) {
        /* It worked before: memory may be short now. Steps wait for it, so try again later. It
         * stays `binding`, so that the death is its own. */
        tern_log("error", "a plan cannot be bound again: %s", error.message);
        compute_condemn(s, TERN_DEATH_FAULT);
        return;
    }
    c->binding = NULL;
    const bool first = !plan->answered;
    plan->answered = true;
    plan->ready = error.status == TERN_OK;
    plan->faults = plan->kills = 0;
    if (error.status != TERN_OK)
        unlink_plan(s, plan);
    if (first)
        answer(plan, &error);
    plans_next(s);
}

/* ---- deaths ---- */

static bool is_given_up(const struct tern_supervisor *s, struct plan *plan, enum tern_death death)
{
    if (death == TERN_DEATH_KILLED)
        plan->kills++;
    else
        plan->faults++;
    if (plan->faults + plan->kills >= s->policy.bind_kills)
        return !plan->answered || s->events.plan_lost != NULL;
    return !plan->answered && plan->faults >= s->policy.bind_faults;
}

/* Takes the plans out of the list that this death was one too many for. */
static struct plan *take_given_up(struct tern_supervisor *s, enum tern_death death,
                                  bool before_hello)
{
    struct compute *c = &s->compute;
    struct plan *given_up = NULL;
    for (struct plan *p = c->plans, *next; p != NULL; p = next) {
        next = p->next;
        p->ready = false;
        if ((p != c->binding && !before_hello) || !is_given_up(s, p, death))
            continue;
        steps_forget(s, p);
        unlink_plan(s, p);
        p->next = given_up;
        given_up = p;
    }
    c->binding = NULL;
    c->bind_pending = false;
    return given_up;
}

static void give_up(struct tern_supervisor *s, struct plan *plan, const char *how)
{
    const uint32_t number = plan->binding.plan;
    struct tern_error error;
    tern_fail(&error, TERN_FAILED, "the CPU worker died %u times while it prepared the model: %s",
              plan->faults + plan->kills, how);
    if (!plan->answered) {
        answer(plan, &error);
        return;
    }
    free(plan);
    s->events.plan_lost(s->events.context, number, &error);
}

void plans_death(struct tern_supervisor *s, enum tern_death death, bool before_hello,
                 const char *how)
{
    struct plan *given_up = take_given_up(s, death, before_hello);
    while (given_up != NULL) { /* a callback may bind and release others */
        struct plan *plan = given_up;
        given_up = plan->next;
        give_up(s, plan, how);
    }
    plans_released(s, UINT32_MAX);
}

/* ---- the caller's side ---- */

static bool read_plan(const struct tern_binding *binding, struct tern_plan *plan)
{
    return pread(binding->plan_fd, plan, sizeof *plan, TERN_SEGMENT_DATA) ==
               (ssize_t)sizeof *plan &&
           plan->stages >= 1 && plan->stages <= TERN_MAX_STAGES;
}

enum tern_status tern_supervisor_bind(struct tern_supervisor *s, const struct tern_binding *binding,
                                      tern_bound bound, void *context, struct tern_error *error)
{
    struct tern_plan header;
    if (!read_plan(binding, &header))
        return tern_fail(error, TERN_FAILED, "the plan to bind is malformed");
    if ((unsigned)binding->tier >= TERN_TIERS)
        return tern_fail(error, TERN_FAILED, "plan %u asks for tier %d, which does not exist",
                         binding->plan, (int)binding->tier);
    if (find_plan(s, binding->plan) != NULL)
        return tern_fail(error, TERN_FAILED, "plan %u is bound already", binding->plan);
    struct plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    plan->binding = *binding;
    plan->bound = bound;
    plan->context = context;
    plan->stages = header.stages;
    plan->instructions = header.instructions;

    const enum tern_status status = compute_want(s, error);
    if (status != TERN_OK) {
        free(plan);
        return status;
    }
    struct plan **end = &s->compute.plans;
    while (*end != NULL)
        end = &(*end)->next;
    *end = plan;
    plans_next(s);
    return TERN_OK;
}

void tern_supervisor_release(struct tern_supervisor *s, uint32_t number)
{
    struct plan *plan = find_plan(s, number);
    if (plan == NULL)
        return;
    const bool known_to_worker = plan->ready || s->compute.binding == plan;
    steps_forget(s, plan);
    unlink_plan(s, plan);
    free(plan);
    if (!known_to_worker)
        return;
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_RELEASE);
    tern_pack_u64(&pack, TERN_F_PLAN, number);
    if (send_control(s, &pack))
        s->compute.releases++;
    plans_next(s);
}

bool tern_supervisor_releasing(const struct tern_supervisor *s)
{
    return s->compute.releases > 0;
}

void tern_supervisor_on_released(struct tern_supervisor *s, tern_callback released, void *context)
{
    s->compute.released = released;
    s->compute.released_context = context;
}

void plans_released(struct tern_supervisor *s, uint32_t count)
{
    struct compute *c = &s->compute;
    if (c->releases == 0)
        return;
    c->releases -= count < c->releases ? count : c->releases;
    if (c->releases == 0 && c->released != NULL)
        c->released(c->released_context);
}
