/*
 * What is checked of weights while they are read: that every number a kernel will use as a float is
 * finite; and the value rule (NUMERICS section 1), applied to the floats a file holds.
 */
#ifndef TERN_LOADER_CHECK_H
#define TERN_LOADER_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a piece of a tensor of `type` is made of, for cutting tensors into pieces: bytes of a block
 * (of an element for float types). */
size_t tern_check_unit(uint32_t type);

/* Whether tern_check_values knows where the floats of `type` are. */
bool tern_check_knows(uint32_t type);

/* `units` whole blocks (or elements) of `type` at `bytes` (64-byte aligned). Floats of F32 and BF16
 * tensors below 2^-50, and -0, become +0 in place. Returns true if all floats are finite, else
 * false with *bad the index of the first unit with one that is not. Types without floats pass. */
bool tern_check_values(uint32_t type, void *bytes, size_t units, size_t *bad);

#endif
