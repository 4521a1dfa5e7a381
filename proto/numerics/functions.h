/*
 * exp and what is built from it (NUMERICS section 1, points 6 and 7): one polynomial, the same
 * operations in the same order everywhere. Arguments must be finite.
 */
#ifndef TERN_NUMERICS_FUNCTIONS_H
#define TERN_NUMERICS_FUNCTIONS_H

float tern_exp(float x);
float tern_silu(float x);
float tern_gelu(float x);

#endif
