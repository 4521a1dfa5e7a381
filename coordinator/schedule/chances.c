#include "coordinator/schedule/chances.h"
#include "proto/numerics/functions.h"

#include <math.h>

/* Keeps the `room` largest logits of out, sorted. */
static void insert(struct tern_chance *out, uint32_t room, uint32_t id, float logit)
{
    uint32_t at = room - 1;
    if (room == 0 || !(logit > out[at].logprob))
        return;
    for (; at > 0 && logit > out[at - 1].logprob; at--)
        out[at] = out[at - 1];
    out[at] = (struct tern_chance){id, logit};
}

void tern_chances(const float *logits, uint32_t n, uint32_t chosen, uint32_t likeliest,
                  struct tern_chance *out)
{
    float max = logits[0];
    double sum = 0;
    out[0] = (struct tern_chance){chosen, logits[chosen]};
    for (uint32_t i = 1; i <= likeliest; i++)
        out[i] = (struct tern_chance){UINT32_MAX, -INFINITY};
    for (uint32_t id = 0; id < n; id++) {
        max = logits[id] > max ? logits[id] : max;
        insert(out + 1, likeliest, id, logits[id]);
    }
    for (uint32_t id = 0; id < n; id++)
        sum += (double)tern_exp(logits[id] - max);
    const double log_sum = log(sum);
    for (uint32_t i = 0; i <= likeliest; i++)
        out[i].logprob = (float)((double)out[i].logprob - (double)max - log_sum);
}
