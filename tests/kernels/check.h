/*
 * What the kernel tests share: a random source, memory whose end faults, and inputs that hurt.
 * Every test runs a tier's function and the scalar one on the same input, in output areas filled
 * with the same pattern, and compares the whole areas: a bit that differs and a byte written
 * outside both fail.
 */
#ifndef TERN_TESTS_KERNELS_CHECK_H
#define TERN_TESTS_KERNELS_CHECK_H

#include "proto/numerics/layer.h"
#include "proto/numerics/product.h"
#include "proto/numerics/quantize.h"
#include "proto/numerics/value.h"
#include "workers/compute-cpu/kernels/kernels.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- Random numbers (xorshift), the same in every run ---- */
uint32_t random_bits(void);
uint32_t random_below(uint32_t limit);
/* Any sign, magnitude 2^low .. 2^high. */
float random_float(int low, int high);

/* `bytes` usable bytes, 64-byte aligned, then `slack` readable ones, then memory that faults. */
void *guarded_alloc(size_t bytes, size_t slack);
void guarded_free(void *p);

/* A pattern that no kernel writes by accident. */
void fill_pattern(void *p, size_t bytes);

static inline uint32_t word_at(const void *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Kinds of input. */
enum check_kind {
    KIND_RANDOM,   /* random bytes or floats of ordinary size */
    KIND_LARGEST,  /* largest codes and scales */
    KIND_SMALLEST, /* most negative codes (-128 where there is one) and scales */
    KIND_TINY,     /* results around 2^-50, scales subnormal or zero */
    KIND_SPARSE,   /* mostly zeros and negative zeros */
    KINDS
};
extern const char *const kind_names[KINDS];

/* n floats of a kind. */
void fill_floats(float *x, size_t n, enum check_kind kind);
/* A row of weights: any bytes, finite scales. */
void fill_weights(uint32_t type, uint8_t *row, uint32_t columns, enum check_kind kind);
/* A row of activations in the form `act`, made directly (codes need not come from floats). */
void fill_act(struct tern_act act, uint32_t columns, uint8_t *row, enum check_kind kind);

/* Runs `check` for every tier above scalar that this processor has. */
void for_each_tier(void (*check)(const struct tern_kernels *k));

#endif
