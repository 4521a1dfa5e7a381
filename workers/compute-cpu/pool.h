/*
 * The thread pool: thread 0 is whoever calls tern_pool_run (the step thread), the others are
 * helpers, pinned to cores of their own. A dispatch opens a door: helpers that come while there is
 * work enter and take some; when thread 0 finds no more work it closes the door and waits for those
 * inside. So a helper that gets no core (other programs run too) costs its help, not a wait.
 *
 * Between dispatches helpers spin for a short time and then sleep on a futex. Nobody spins when
 * there are more threads than usable cores: the spinner would take the core from the one it waits
 * for.
 */
#ifndef TERN_CPU_POOL_H
#define TERN_CPU_POOL_H

#include "proto/status.h"
#include "topology.h"
#include <stdbool.h>

struct tern_pool;

/* Work of one dispatch: takes units from a common counter until none is left, so that all is done
 * however many threads come. `thread` counts from 0 and is below the dispatch's threads; no two
 * threads at work have the same. */
typedef void (*tern_pool_work)(void *context, uint32_t thread);

/* A pool of no threads but the caller's. NULL: out of memory. Copies *cores. */
struct tern_pool *tern_pool_new(const struct tern_cores *cores);
/* No dispatch may be running. Joins all threads. */
void tern_pool_free(struct tern_pool *pool);

/* Makes sure that dispatches of `threads` (1 .. TERN_MAX_THREADS) can be run; may be called while
 * one of fewer threads is running. TERN_NO_MEMORY if a thread cannot be started. */
enum tern_status tern_pool_grow(struct tern_pool *pool, uint32_t threads, struct tern_error *error);

/* Runs work(context, 0) here and work(context, i), 0 < i < threads, on helpers that come in time;
 * returns when all have returned. Only ever called from one thread at a time; what it wrote before
 * is visible to the work, and the other way round. */
void tern_pool_run(struct tern_pool *pool, uint32_t threads, tern_pool_work work, void *context);

/* Pins the calling thread where the pool would pin its thread 0. */
void tern_pool_pin_caller(const struct tern_pool *pool);

/* How long a wait of a step with so many threads may spin, in nanoseconds; 0: not at all. */
uint64_t tern_pool_spin_ns(const struct tern_pool *pool, uint32_t threads);

/* Called between looks of a spin that began at began_ns: lets others run, and says whether to go on
 * spinning. */
bool tern_spin_on(uint64_t began_ns, uint64_t spin_ns);

/* Of the cores the pool was made with. */
uint32_t tern_pool_usable_cores(const struct tern_pool *pool);
uint32_t tern_pool_runnable(const struct tern_pool *pool);

#endif
