/*
 * What every plan must obey, checked without the compiler's help: the plan is run symbolically, on
 * places in memory that remember which value lies in them. Reading a place that holds no value, or
 * holds one that something wrote over, fails the test. Every value gets a number that depends on
 * all that went into it, so two plans compute the same if their results have the same numbers.
 */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include "coordinator/graph/compile.h"

/* Numbers of what a plan computes. */
struct plan_result {
    uint64_t logits, cache;   /* cache: all keys and values written, and when they are read */
    uint32_t count[TERN_OPS]; /* instructions by op */
    uint32_t on_outputs;      /* instructions that run on output rows only */
    uint64_t peak;            /* bytes of values that are alive at one time, at the most */
};

void plan_check(const struct tern_compiled *compiled, struct plan_result *result);

#endif
