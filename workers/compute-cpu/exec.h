/*
 * The executor: waits for steps on the coordinator's board, checks each once, runs the program of
 * its plan, publishes results on the worker's own board, and rings the coordinator. One thread (the
 * step thread) runs it; programs are added and removed by another.
 *
 * At idle every thread sleeps on a futex.
 */
#ifndef TERN_CPU_EXEC_H
#define TERN_CPU_EXEC_H

#include "program.h"
#include "proto/worker.h"

struct tern_executor;

struct tern_executor_setup {
    const struct tern_coordinator_board *coordinator; /* read-only */
    struct tern_worker_board *board;                  /* fresh, all zero */
    int event; /* eventfd written after each step; stays the caller's */
    uint32_t incarnation;
    struct tern_pool *pool;
    uint64_t serial_work; /* TERN_SERIAL_WORK; tests: 0, so that everything is split */
};

/* Steps issued before this call are not this executor's. NULL: out of memory. */
struct tern_executor *tern_executor_new(const struct tern_executor_setup *setup);
/* The step thread has returned. Programs stay the caller's. */
void tern_executor_free(struct tern_executor *executor);

/* Makes a program known; the pool has been grown to its threads. TERN_USAGE if its plan number is
 * taken, TERN_NO_MEMORY. */
enum tern_status tern_executor_add(struct tern_executor *executor,
                                   const struct tern_program *program, struct tern_error *error);
/* After this no step uses the program; waits for one that does. */
void tern_executor_remove(struct tern_executor *executor, const struct tern_program *program);

/* Runs steps until tern_executor_stop (TERN_WORKER_ENDED), or until a step is one that the
 * coordinator must not send (TERN_WORKER_BAD_INPUT, logged). */
enum tern_worker_exit tern_executor_run(struct tern_executor *executor);
/* Takes effect when the step thread next looks; ring the coordinator's doorbell to make it look. */
void tern_executor_stop(struct tern_executor *executor);

#endif
