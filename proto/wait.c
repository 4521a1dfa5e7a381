#include "proto/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void tern_ring(tern_doorbell *bell)
{
    atomic_fetch_add_explicit(bell, 1, memory_order_release);
    syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void tern_wait(const tern_doorbell *bell, uint32_t seen, int timeout_ms)
{
    const struct timespec timeout = {
        .tv_sec = timeout_ms / 1000,
        .tv_nsec = (timeout_ms % 1000) * 1000000L,
    };
    syscall(SYS_futex, bell, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

uint64_t tern_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
