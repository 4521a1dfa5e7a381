/*
 * Tiers: the instruction sets that kernels are written for, best last. The coordinator chooses one
 * for a model and the worker runs it, so both ask the same function what this processor can do.
 */
#ifndef TERN_PROTO_TIER_H
#define TERN_PROTO_TIER_H

#include <stdbool.h>

/* Ordered: a processor that runs one runs all below it. */
enum tern_tier { TERN_SCALAR, TERN_AVX2, TERN_AVX512, TERN_AVX512VNNI, TERN_TIERS };

/* The best tier this processor (and its operating system) can run. */
enum tern_tier tern_best_tier(void);

const char *tern_tier_name(enum tern_tier tier); /* "scalar", "avx2", "avx512", "avx512vnni" */
bool tern_tier_parse(const char *name, enum tern_tier *tier);

#endif
