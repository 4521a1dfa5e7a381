/* Rows of weights in the formats of GGUF: how many bytes they take, their floats, their products
 * with activations (NUMERICS.md section 2, layouts from FORMATS.md). */
#ifndef REFERENCE_WEIGHTS_H
#define REFERENCE_WEIGHTS_H

#include "gguf_read.h"

/* Bytes of a row of so many weights; 0 for a type that this program does not know. */
size_t weights_row_bytes(uint32_t type, size_t columns);

/* The weights of a row as values: an embedding, a norm's gain, a bias. */
void weights_row(float *out, const struct tensor *tensor, size_t row);

/* out[r] = row r times x, a value, for all rows; x has as many values as the tensor has columns.
 * Activations that meet integer weights are rounded to `steps` steps (127 or 32639) per block. */
void weights_product(float *out, const struct tensor *tensor, const float *x, int steps);

#endif
