#include "exec.h"

#include "inject.h"
#include "proto/wait.h"
#include "step.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_PROGRAMS = 64,
    IDLE_WAIT_MS = 60000, /* every wait ends some time; a wake-up a minute is not measurable */
    SPINS_PER_LOOK = 64,
};

struct tern_executor {
    struct tern_executor_setup setup;
    _Atomic bool stop;
    uint64_t last; /* newest step begun, run-ahead too, or issued before our time */
    pthread_mutex_t lock;
    pthread_cond_t released; /* claimed has become NULL */
    const struct tern_program *program[MAX_PROGRAMS];
    const struct tern_program *claimed; /* by the step thread */
    struct tern_run run;
};

/* ---- programs ---- */

static const struct tern_program **find(struct tern_executor *e, uint32_t plan)
{
    for (uint32_t i = 0; i < MAX_PROGRAMS; i++)
        if (e->program[i] != NULL && e->program[i]->plan == plan)
            return &e->program[i];
    return NULL;
}

static const struct tern_program **free_place(struct tern_executor *e)
{
    for (uint32_t i = 0; i < MAX_PROGRAMS; i++)
        if (e->program[i] == NULL)
            return &e->program[i];
    return NULL;
}

enum tern_status tern_executor_add(struct tern_executor *executor,
                                   const struct tern_program *program, struct tern_error *error)
{
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&executor->lock);
    const struct tern_program **place = free_place(executor);
    if (find(executor, program->plan) != NULL)
        status = tern_fail(error, TERN_USAGE, "plan %u is bound already", program->plan);
    else if (place == NULL)
        status = tern_fail(error, TERN_NO_MEMORY, "more than %d plans", MAX_PROGRAMS);
    else
        *place = program;
    pthread_mutex_unlock(&executor->lock);
    return status;
}

void tern_executor_remove(struct tern_executor *executor, const struct tern_program *program)
{
    pthread_mutex_lock(&executor->lock);
    const struct tern_program **place = find(executor, program->plan);
    if (place != NULL && *place == program)
        *place = NULL;
    while (executor->claimed == program)
        pthread_cond_wait(&executor->released, &executor->lock);
    pthread_mutex_unlock(&executor->lock);
}

static const struct tern_program *claim(struct tern_executor *e, uint32_t plan)
{
    pthread_mutex_lock(&e->lock);
    const struct tern_program **place = find(e, plan);
    e->claimed = place != NULL ? *place : NULL;
    pthread_mutex_unlock(&e->lock);
    return e->claimed;
}

static void release(struct tern_executor *e)
{
    pthread_mutex_lock(&e->lock);
    e->claimed = NULL;
    pthread_cond_broadcast(&e->released);
    pthread_mutex_unlock(&e->lock);
}

/* ---- publishing ---- */

static void publish_progress(struct tern_executor *e, uint32_t index)
{
    atomic_store_explicit(&e->setup.board->progress,
                          tern_word(e->setup.incarnation, e->run.number, index),
                          memory_order_release);
}

static void publish_done(struct tern_executor *e, uint32_t stages)
{
    atomic_store_explicit(&e->setup.board->done,
                          tern_word(e->setup.incarnation, e->run.number, stages),
                          memory_order_release);
}

static void ring_coordinator(struct tern_executor *e)
{
    const uint64_t one = 1;
    /* A full counter (EAGAIN) wakes the coordinator as well. */
    const ssize_t written = write(e->setup.event, &one, sizeof one);
    (void)written;
}

static void publish_result(struct tern_executor *e, uint64_t began_ns)
{
    const struct tern_run *run = &e->run;
    struct tern_step_result *result = &e->setup.board->result[run->number % TERN_STEP_RING];
    for (uint32_t i = 0; i < run->rows; i++)
        result->fault[i] = atomic_load_explicit(&run->fault[i], memory_order_relaxed);
    for (uint32_t i = 0; i < run->outputs; i++) {
        result->fault[run->output_row[i]] = tern_step_output_fault(run, i);
        result->argmax[i] = run->argmax[i];
    }
    result->began_ns = began_ns;
    result->ended_ns = tern_now_ns();
}

static void publish_granted(struct tern_executor *e, uint64_t began_ns)
{
    const struct tern_run *run = &e->run;
    e->setup.board->granted[run->number % TERN_GRANT_RING] = (struct tern_granted_token){
        .step = run->number,
        .token = run->argmax[0],
        .fault = tern_step_output_fault(run, 0),
        .began_ns = began_ns,
        .ended_ns = tern_now_ns(),
    };
}

/* ---- hot: no allocation, no I/O, no switch from here to run_stages ---- */

static void count_call(struct tern_executor *e, const struct tern_call *call)
{
    _Atomic uint64_t *calls = &e->setup.board->calls[call->kernels->tier];
    atomic_store_explicit(calls, atomic_load_explicit(calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Runs calls from *call on to the end of its stage; returns the last one. */
static const struct tern_call *run_stage(struct tern_executor *e, const struct tern_call *call)
{
    for (;; call++) {
        TERN_INJECT_BEFORE(&e->run, call);
        call->run(call, &e->run);
        TERN_INJECT_AFTER(&e->run, call);
        count_call(e, call);
        publish_progress(e, call->index + 1);
        if (call->ends_stage)
            return call;
    }
}

/* All stages but for the last one's done word, which follows the results. */
static void run_stages(struct tern_executor *e)
{
    const struct tern_program *program = e->run.program;
    const struct tern_call *end = program->call + program->header.instructions;
    for (const struct tern_call *call = program->call; call < end; call++) {
        const struct tern_call *first = call;
        call = run_stage(e, first);
        TERN_RUN_AGAIN(&e->run, run_stage(e, first), first);
        if (call + 1 < end)
            publish_done(e, call->stage + 1u);
    }
}

/* ---- the loop ---- */

static void run_step(struct tern_executor *e)
{
    struct tern_run *run = &e->run;
    const uint32_t stages = run->program->header.stages;
    uint64_t began_ns = tern_now_ns();
    e->last = run->number;
    atomic_store(&e->setup.board->begun, run->number);
    publish_progress(e, 0);
    run_stages(e);
    publish_result(e, began_ns);
    publish_done(e, stages);
    ring_coordinator(e);
    while (tern_run_ahead(run, e->setup.coordinator, e->setup.board)) {
        began_ns = tern_now_ns();
        e->last = run->number;
        publish_progress(e, 0);
        run_stages(e);
        publish_granted(e, began_ns);
        publish_done(e, stages);
        ring_coordinator(e);
    }
    /* Whoever saw a step begun that was taken back looks again. */
    if (run->number < run->last_granted)
        ring_coordinator(e);
}

/* The next step that was issued and not begun. Numbers that run-ahead used up are in no slot. */
static const struct tern_step *next_step(struct tern_executor *e)
{
    const struct tern_coordinator_board *board = e->setup.coordinator;
    const uint64_t issued = atomic_load_explicit(&board->issued, memory_order_acquire);
    uint64_t number = e->last + 1;
    if (issued >= TERN_STEP_RING && number < issued - TERN_STEP_RING + 1)
        number = issued - TERN_STEP_RING + 1;
    for (; number <= issued; number++) {
        const struct tern_step *step = &board->ring[number % TERN_STEP_RING];
        if (__atomic_load_n(&step->number, __ATOMIC_RELAXED) == number)
            return step;
    }
    e->last = issued > e->last ? issued : e->last;
    return NULL;
}

static enum tern_worker_exit take_and_run(struct tern_executor *e, const struct tern_step *step)
{
    struct tern_error error;
    enum tern_status status;
    const uint32_t epoch = atomic_load_explicit(&e->setup.coordinator->epoch, memory_order_acquire);
    if (step->epoch != epoch) {
        e->last = step->number;
        return TERN_WORKER_ENDED;
    }
    e->run.program = claim(e, step->plan);
    if (e->run.program == NULL) {
        status = tern_fail(&error, TERN_USAGE, "step %llu: plan %u is not bound",
                           (unsigned long long)step->number, step->plan);
    } else {
        e->run.threads = e->run.program->threads;
        status = tern_step_take(step, &e->run, &error);
    }
    if (status == TERN_OK)
        run_step(e);
    else
        tern_log("error", "%s", error.message);
    release(e);
    return status == TERN_OK ? TERN_WORKER_ENDED : TERN_WORKER_BAD_INPUT;
}

/* How long the wait after a step may spin. With as many threads as cores it may not: the
 * coordinator needs a core to prepare the next step. */
static uint64_t idle_spin_ns(const struct tern_executor *e)
{
    const uint32_t threads = e->run.threads;
    if (threads == 0 || threads >= tern_pool_usable_cores(e->setup.pool))
        return 0;
    return tern_pool_spin_ns(e->setup.pool, threads);
}

static void spin_for_issue(const struct tern_executor *e, uint64_t spin_ns)
{
    const struct tern_coordinator_board *board = e->setup.coordinator;
    const uint64_t began = tern_now_ns();
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(&board->issued, memory_order_relaxed) > e->last)
                return;
            tern_pause();
        }
    } while (tern_spin_on(began, spin_ns));
}

enum tern_worker_exit tern_executor_run(struct tern_executor *executor)
{
    struct tern_executor *e = executor;
    const tern_doorbell *bell = &e->setup.coordinator->bell;
    bool spun = true;
    while (!atomic_load_explicit(&e->stop, memory_order_acquire)) {
        const uint32_t seen = atomic_load_explicit(bell, memory_order_acquire);
        const struct tern_step *step = next_step(e);
        if (step != NULL) {
            const enum tern_worker_exit status = take_and_run(e, step);
            if (status != TERN_WORKER_ENDED)
                return status;
            spun = false;
        } else if (!spun) {
            const uint64_t spin_ns = idle_spin_ns(e);
            if (spin_ns > 0)
                spin_for_issue(e, spin_ns);
            spun = true;
        } else if (!atomic_load_explicit(&e->stop, memory_order_acquire)) {
            tern_wait(bell, seen, IDLE_WAIT_MS);
        }
    }
    return TERN_WORKER_ENDED;
}

/* ---- life ---- */

struct tern_executor *tern_executor_new(const struct tern_executor_setup *setup)
{
    struct tern_executor *e = aligned_alloc(64, (sizeof *e + 63) / 64 * 64);
    if (e == NULL)
        return NULL;
    memset(e, 0, sizeof *e);
    e->setup = *setup;
    e->last = atomic_load_explicit(&setup->coordinator->issued, memory_order_acquire);
    e->run.pool = setup->pool;
    e->run.page_table = setup->coordinator->page_table;
    e->run.serial_work = setup->serial_work;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->released, NULL);
    return e;
}

void tern_executor_free(struct tern_executor *executor)
{
    if (executor == NULL)
        return;
    pthread_cond_destroy(&executor->released);
    pthread_mutex_destroy(&executor->lock);
    free(executor);
}

void tern_executor_stop(struct tern_executor *executor)
{
    atomic_store_explicit(&executor->stop, true, memory_order_release);
}
