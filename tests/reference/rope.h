/* Rotation of pairs (NUMERICS.md section 1, rule 8). */
#ifndef REFERENCE_ROPE_H
#define REFERENCE_ROPE_H

#include <stdbool.h>
#include <stddef.h>

/* inverse[i] = base^(-2i/dimensions) / factor, i < dimensions/2. The power is correctly rounded to
 * double. factors[i] takes the place of factor unless it is NULL. */
void rope_frequencies(double *inverse, size_t dimensions, double base, double factor,
                      const float *factors);

/* Rotates the first `dimensions` values of a head: pairs (2i, 2i+1) if interleaved, else
 * (i, i + dimensions/2). */
void rope_rotate(float *head, size_t dimensions, const double *inverse, size_t position,
                 bool interleaved);

#endif
