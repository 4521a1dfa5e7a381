/* Log-probabilities of tokens, from a row of logits as the model gave it: before bias, penalty and
 * filters. */
#ifndef TERN_CHANCES_H
#define TERN_CHANCES_H

#include <stdint.h>

enum { TERN_MOST_CHANCES = 20 };

struct tern_chance {
    uint32_t id;
    float logprob; /* natural logarithm, at most 0, finite for finite logits */
};

/* out[0]: of token `chosen` < n; out[1 .. likeliest]: the likeliest ones, best first, the lower id
 * first among equals (id UINT32_MAX and -inf where n is smaller). likeliest <=
 * TERN_MOST_CHANCES. The sum over the vocabulary runs in double, in order of id, so that one row
 * always gives the same bits. */
void tern_chances(const float *logits, uint32_t n, uint32_t chosen, uint32_t likeliest,
                  struct tern_chance *out);

#endif
