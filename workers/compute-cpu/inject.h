/*
 * Fault injection, in test builds only (-DTERN_FAULT_INJECTION); otherwise every hook is nothing.
 *
 * TERN_INJECT holds up to 16 orders "ACTION:STEP:INSTRUCTION", separated by commas; "*" stands for
 * every step or instruction. Actions: crash (SIGSEGV), hang (sleeps for ever before the
 * instruction), spin (the same, using CPU), exit (TERN_WORKER_RETRY), nan (the first value of the
 * instruction's first output becomes NaN). TERN_RUN_TWICE=1 runs every stage a second time and ends
 * with TERN_WORKER_FATAL if activations or the step's cache pages differ.
 */
#ifndef TERN_CPU_INJECT_H
#define TERN_CPU_INJECT_H

#include "program.h"

#ifdef TERN_FAULT_INJECTION

/* Reads the environment; before threads start. False (logged) if it is malformed. */
bool tern_inject_setup(void);
void tern_inject_before(const struct tern_run *run, const struct tern_call *call);
void tern_inject_after(const struct tern_run *run, const struct tern_call *call);
bool tern_inject_twice(void);
/* A sum over everything that a finished stage has written for the step. */
uint64_t tern_inject_sum(const struct tern_run *run);
void tern_inject_compare(const struct tern_run *run, const struct tern_call *first,
                         uint64_t before);

#define TERN_INJECT_BEFORE(run, call) tern_inject_before(run, call)
#define TERN_INJECT_AFTER(run, call)  tern_inject_after(run, call)
#define TERN_RUN_AGAIN(run, again, first)                                                          \
    do {                                                                                           \
        if (tern_inject_twice()) {                                                                 \
            const uint64_t sum = tern_inject_sum(run);                                             \
            again;                                                                                 \
            tern_inject_compare(run, first, sum);                                                  \
        }                                                                                          \
    } while (0)

#else

static inline bool tern_inject_setup(void)
{
    return true;
}
#define TERN_INJECT_BEFORE(run, call)     ((void)0)
#define TERN_INJECT_AFTER(run, call)      ((void)0)
#define TERN_RUN_AGAIN(run, again, first) ((void)(first))

#endif
#endif
