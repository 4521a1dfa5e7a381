#include "pool.h"

#include "proto/wait.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Waiting inside a step is for work of a few to some hundred microseconds; waking a sleeper costs
 * 3 of them on a busy machine, 20 to 60 on one whose cores are asleep, so a spin of about twice
 * that loses little when it was in vain. After the first few it yields at every look: without that,
 * a thread woken onto this core waited out the whole spin (measured: 105 of 110 us). */
enum { SPIN_NS = 100000, YIELD_AFTER_NS = 10000, SPINS_PER_LOOK = 64 };

struct slot {
    alignas(64) _Atomic uint32_t asleep;
    uint32_t index;
    struct tern_pool *pool;
    pthread_t thread;
};

struct tern_pool {
    /* What helpers watch: number of the dispatch << 16 | its threads. Written by thread 0 only. */
    alignas(64) _Atomic uint64_t ticket;
    tern_pool_work work;
    void *context;
    /* The door: number of the dispatch << 17 | open << 16 | helpers inside. */
    alignas(64) _Atomic uint64_t door;
    _Atomic uint32_t joiner_asleep;
    alignas(64) _Atomic bool stop;
    uint32_t threads; /* started, thread 0 included */
    struct tern_cores cores;
    struct slot slot[TERN_MAX_THREADS];
};

enum { THREADS_MASK = 0xffff, INSIDE_MASK = 0xffff, OPEN = 0x10000, DOOR_NUMBER_SHIFT = 17 };

static void sleep_while_one(_Atomic uint32_t *word)
{
    while (atomic_load(word) == 1)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
    atomic_store(word, 0);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool tern_spin_on(uint64_t began_ns, uint64_t spin_ns)
{
    const uint64_t spent = tern_now_ns() - began_ns;
    if (spent >= spin_ns)
        return false;
    if (spent >= YIELD_AFTER_NS)
        sched_yield();
    return true;
}

uint64_t tern_pool_spin_ns(const struct tern_pool *pool, uint32_t threads)
{
    return threads > pool->cores.usable ? 0 : SPIN_NS;
}

uint32_t tern_pool_usable_cores(const struct tern_pool *pool)
{
    return pool->cores.usable;
}

uint32_t tern_pool_runnable(const struct tern_pool *pool)
{
    return pool->cores.runnable;
}

/* ---- the pool's threads ---- */

/* Until the ticket differs from `seen`: spins, then sleeps. The order "say asleep, look again" here
 * and "write the ticket, look who sleeps" in thread 0, both sequentially consistent, loses nobody.
 */
static uint64_t next_ticket(struct tern_pool *pool, struct slot *slot, uint64_t seen)
{
    const uint32_t threads = seen & THREADS_MASK;
    const bool needed = slot->index < threads;
    const uint64_t spin = needed ? tern_pool_spin_ns(pool, threads) : 0;
    const uint64_t began = spin > 0 ? tern_now_ns() : 0;
    while (spin > 0) {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            const uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
            if (ticket != seen)
                return ticket;
            tern_pause();
        }
        if (!tern_spin_on(began, spin))
            break;
    }
    for (;;) {
        atomic_store(&slot->asleep, 1);
        const uint64_t ticket = atomic_load(&pool->ticket);
        if (ticket != seen || atomic_load(&pool->stop)) {
            atomic_store(&slot->asleep, 0);
            return ticket;
        }
        sleep_while_one(&slot->asleep);
    }
}

/* False if the door of that dispatch is closed: it is over, or nearly. */
static bool enter(struct tern_pool *pool, uint64_t ticket)
{
    uint64_t door = atomic_load_explicit(&pool->door, memory_order_relaxed);
    do {
        if (door >> DOOR_NUMBER_SHIFT != ticket >> 16 || !(door & OPEN))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&pool->door, &door, door + 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

static void leave(struct tern_pool *pool)
{
    const uint64_t door = atomic_fetch_sub(&pool->door, 1) - 1;
    if ((door & (INSIDE_MASK | OPEN)) == 0 && atomic_load(&pool->joiner_asleep) == 1)
        wake(&pool->joiner_asleep);
}

static void *help(void *context)
{
    struct slot *slot = context;
    struct tern_pool *pool = slot->pool;
    uint64_t seen = 0;
    for (;;) {
        seen = next_ticket(pool, slot, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_relaxed))
            return NULL;
        if (slot->index >= (seen & THREADS_MASK) || !enter(pool, seen))
            continue;
        pool->work(pool->context, slot->index);
        leave(pool);
    }
}

/* ---- thread 0 ---- */

static void wake_sleepers(struct tern_pool *pool, uint32_t threads)
{
    for (uint32_t i = 1; i < threads; i++)
        if (atomic_load(&pool->slot[i].asleep) == 1)
            wake(&pool->slot[i].asleep);
}

static bool nobody_inside(struct tern_pool *pool)
{
    return (atomic_load_explicit(&pool->door, memory_order_acquire) & INSIDE_MASK) == 0;
}

static void join(struct tern_pool *pool, uint32_t threads)
{
    if ((atomic_fetch_and(&pool->door, ~(uint64_t)OPEN) & INSIDE_MASK) == 0)
        return;
    const uint64_t spin = tern_pool_spin_ns(pool, threads);
    const uint64_t began = spin > 0 ? tern_now_ns() : 0;
    while (spin > 0) {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (nobody_inside(pool))
                return;
            tern_pause();
        }
        if (!tern_spin_on(began, spin))
            break;
    }
    while ((atomic_load(&pool->door) & INSIDE_MASK) != 0) {
        atomic_store(&pool->joiner_asleep, 1);
        if ((atomic_load(&pool->door) & INSIDE_MASK) != 0)
            sleep_while_one(&pool->joiner_asleep);
        atomic_store(&pool->joiner_asleep, 0);
    }
}

void tern_pool_run(struct tern_pool *pool, uint32_t threads, tern_pool_work work, void *context)
{
    if (threads <= 1) {
        work(context, 0);
        return;
    }
    const uint64_t number = (atomic_load_explicit(&pool->ticket, memory_order_relaxed) >> 16) + 1;
    pool->work = work;
    pool->context = context;
    atomic_store_explicit(&pool->door, number << DOOR_NUMBER_SHIFT | OPEN, memory_order_release);
    atomic_store(&pool->ticket, number << 16 | threads);
    wake_sleepers(pool, threads);
    work(context, 0);
    join(pool, threads);
}

/* ---- life ---- */

static void pin(const struct tern_pool *pool, pthread_t thread, uint32_t index)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(pool->cores.cpu[index], &mask);
    /* A refusal costs speed only. */
    pthread_setaffinity_np(thread, sizeof mask, &mask);
}

void tern_pool_pin_caller(const struct tern_pool *pool)
{
    pin(pool, pthread_self(), 0);
}

struct tern_pool *tern_pool_new(const struct tern_cores *cores)
{
    struct tern_pool *pool = aligned_alloc(64, sizeof *pool);
    if (pool == NULL)
        return NULL;
    memset(pool, 0, sizeof *pool);
    pool->cores = *cores;
    pool->threads = 1;
    return pool;
}

enum tern_status tern_pool_grow(struct tern_pool *pool, uint32_t threads, struct tern_error *error)
{
    if (threads == 0 || threads > TERN_MAX_THREADS)
        return tern_fail(error, TERN_USAGE, "%u threads: must be 1 to %u", threads,
                         TERN_MAX_THREADS);
    for (; pool->threads < threads; pool->threads++) {
        struct slot *slot = &pool->slot[pool->threads];
        slot->index = pool->threads;
        slot->pool = pool;
        const int failed = pthread_create(&slot->thread, NULL, help, slot);
        if (failed != 0)
            return tern_fail(error, TERN_NO_MEMORY, "cannot start thread %u of %u: %s",
                             pool->threads + 1, threads, strerror(failed));
        if (slot->index < pool->cores.count)
            pin(pool, slot->thread, slot->index);
    }
    return TERN_OK;
}

void tern_pool_free(struct tern_pool *pool)
{
    if (pool == NULL)
        return;
    atomic_store(&pool->stop, true);
    const uint64_t last = atomic_load(&pool->ticket);
    atomic_store(&pool->ticket, ((last >> 16) + 1) << 16);
    wake_sleepers(pool, pool->threads);
    for (uint32_t i = 1; i < pool->threads; i++)
        pthread_join(pool->slot[i].thread, NULL);
    free(pool);
}
