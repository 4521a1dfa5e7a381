/*
 * What a process's threads are doing, by /proc: the difference between a worker that hangs and one
 * that gets no CPU.
 */
#ifndef TERN_SUPERVISE_ACTIVITY_H
#define TERN_SUPERVISE_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { ACTIVITY_THREADS = 1024 }; /* more are not looked at */

struct thread_time {
    int id;
    uint64_t cpu_ns; /* used since its start; the kernel counts in ticks of 10 ms */
};

struct activity {
    bool stopped;  /* by a signal or a debugger */
    bool runnable; /* a thread runs or waits for a CPU */
    bool disk;     /* a thread waits in the kernel and cannot be interrupted */
    size_t threads;
    struct thread_time time[ACTIVITY_THREADS]; /* in the order of /proc */
};

/* False if the process is gone. */
bool activity_read(pid_t pid, struct activity *activity);

/* The most CPU time that one thread used between two looks. */
uint64_t activity_busiest(const struct activity *before, const struct activity *after);

/* Takes the state letter and the times out of a line of /proc/PID/stat. */
bool activity_parse(const char *line, char *state, uint64_t *ticks);

#endif
