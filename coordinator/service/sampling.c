/* How tokens are to be chosen, read from a message. */
#include "coordinator/service/request.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define LARGEST_BIAS 1e4f

static enum tern_status read_temperature(const struct tern_message *message, float *out,
                                         struct tern_error *error)
{
    const double value = tern_message_f64(message, TERN_F_TEMP, 0);
    if (!(value >= 0 && value <= TERN_MAX_TEMPERATURE))
        return tern_fail(error, TERN_USAGE,
                         "temperature %g is not between 0 (the best token) and %d", value,
                         TERN_MAX_TEMPERATURE);
    *out = (float)value; /* what is too small for a float is 0: the best token either way */
    return TERN_OK;
}

static enum tern_status read_share(const struct tern_message *message, enum tern_field field,
                                   const char *name, double otherwise, double *out,
                                   struct tern_error *error)
{
    *out = tern_message_f64(message, field, otherwise);
    if (!(*out >= 0 && *out <= 1))
        return tern_fail(error, TERN_USAGE, "%s %g is not between 0 and 1 (%g: no cut)", name, *out,
                         otherwise);
    return TERN_OK;
}

static enum tern_status read_penalty(const struct tern_message *message, float *out,
                                     struct tern_error *error)
{
    const double value = tern_message_f64(message, TERN_F_REPEAT_PENALTY, 1);
    if (!(value >= 1e-3 && value <= 1e3))
        return tern_fail(error, TERN_USAGE,
                         "repeat penalty %g is not between 0.001 and 1000 (1: none)", value);
    *out = (float)value;
    return TERN_OK;
}

static enum tern_status read_bias(const struct tern_message *message, struct tern_sampling *out,
                                  struct tern_error *error)
{
    size_t length;
    const char *bytes = tern_message_text(message, TERN_F_BIAS, &length);
    if (length == 0)
        return TERN_OK;
    if (length % sizeof(struct tern_bias) != 0)
        return tern_fail(error, TERN_USAGE, "the bias list is %zu bytes, no multiple of %zu",
                         length, sizeof(struct tern_bias));
    struct tern_bias *bias = malloc(length);
    if (bias == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    memcpy(bias, bytes, length);
    out->bias = bias;
    out->biases = (uint32_t)(length / sizeof *bias);
    for (uint32_t i = 0; i < out->biases; i++)
        if (!(fabsf(bias[i].value) <= LARGEST_BIAS))
            return tern_fail(
                error, TERN_USAGE, "bias %g for id %" PRIu32 " is not between %g and %g",
                (double)bias[i].value, bias[i].id, (double)-LARGEST_BIAS, (double)LARGEST_BIAS);
    return TERN_OK;
}

/* Of 53 bits, which every reader of JSON keeps. */
static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = tern_now_ns() * 0x9E3779B97F4A7C15u;
    return seed >> 11;
}

enum tern_status tern_sampling_read(const struct tern_message *message, struct tern_sampling *out,
                                    struct tern_error *error)
{
    *out = tern_sampling_greedy();
    out->seed = tern_message_has(message, TERN_F_SEED) ? tern_message_u64(message, TERN_F_SEED, 0)
                                                       : random_seed();
    out->top_k = (uint32_t)tern_message_u64(message, TERN_F_TOP_K, 0);
    enum tern_status status = read_temperature(message, &out->temperature, error);
    if (status == TERN_OK)
        status = read_share(message, TERN_F_TOP_P, "top-p", 1, &out->top_p, error);
    if (status == TERN_OK)
        status = read_share(message, TERN_F_MIN_P, "min-p", 0, &out->min_p, error);
    if (status == TERN_OK)
        status = read_penalty(message, &out->penalty, error);
    if (status == TERN_OK)
        status = read_bias(message, out, error);
    return status;
}

enum tern_status tern_sampling_check(const struct tern_sampling *sampling, uint32_t vocabulary,
                                     struct tern_error *error)
{
    for (uint32_t i = 0; i < sampling->biases; i++)
        if (sampling->bias[i].id >= vocabulary)
            return tern_fail(error, TERN_USAGE,
                             "bias for id %" PRIu32 "; the vocabulary has ids 0 to %" PRIu32,
                             sampling->bias[i].id, vocabulary - 1);
    return TERN_OK;
}
