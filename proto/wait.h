/*
 * Waiting in shared memory: doorbells. A doorbell is a 32-bit futex word that is only incremented
 * and carries no meaning; whoever wakes re-reads the words that do. Shared futexes (never
 * FUTEX_PRIVATE), because the two sides are processes. Waiting works on a read-only mapping.
 */
#ifndef TERN_PROTO_WAIT_H
#define TERN_PROTO_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint32_t tern_doorbell;

/* Increments and wakes every waiter. */
void tern_ring(tern_doorbell *bell);

/* Sleeps until the bell differs from `seen` or timeout_ms (>= 0) has passed; may return early.
 * Read the bell, then check the condition, then wait with the value read: no wake-up is lost. */
void tern_wait(const tern_doorbell *bell, uint32_t seen, int timeout_ms);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t tern_now_ns(void);

static inline void tern_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
