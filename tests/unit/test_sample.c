/* coordinator/schedule/sample: Philox by its published vectors, the draw by its definition. */
#include "coordinator/schedule/sample.h"
#include "proto/numerics/functions.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 3000 };

/* The first is Random123's own vector (kat_vectors: all zero); the others come from a second
 * implementation that gives it too. */
static void philox_gives_known_words(void **state)
{
    (void)state;
    assert_int_equal(tern_philox(0, 0), 0x6627e8d5);
    assert_int_equal(tern_philox(0x0123456789abcdef, 7), 0x8e94991c);
    assert_int_equal(tern_philox(UINT64_MAX, UINT32_MAX), 0xc25672de);
    assert_int_equal(tern_philox(1ull << 32, 1), 0xccf3076a);
}

struct pair {
    float value;
    uint32_t id;
};

static int by_value_then_id(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* The definition, with another sort. */
static uint32_t plain_draw(const float *logits, uint32_t n, float temperature, uint64_t seed,
                           uint32_t position)
{
    static struct pair list[MOST];
    float max = logits[0];
    double total = 0, running = 0;
    for (uint32_t i = 1; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < n; i++)
        list[i] = (struct pair){(logits[i] - max) / temperature, i};
    qsort(list, n, sizeof *list, by_value_then_id);
    for (uint32_t i = 0; i < n; i++)
        total += (double)tern_exp(list[i].value < -1000 ? -1000 : list[i].value);
    const double u = (double)(tern_philox(seed, position) >> 8) * 0x1p-24;
    for (uint32_t i = 0; i < n; i++) {
        running += (double)tern_exp(list[i].value < -1000 ? -1000 : list[i].value);
        if (running > u * total)
            return list[i].id;
    }
    return list[n - 1].id;
}

static uint32_t random_state = 1;

static float random_logit(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    /* Coarse, so that equal values are common. */
    return (float)((int)(random_state >> 16) % 200) * 0.125f;
}

static void draws_follow_the_definition(void **state)
{
    (void)state;
    static const float temperatures[] = {0.01f, 0.7f, 1.0f, 5.0f, 1000.0f};
    static float logits[MOST];
    struct tern_sampler *sampler = tern_sampler_new();
    for (uint32_t n = 1; n <= MOST; n = n * 3 + 1)
        for (uint32_t position = 0; position < 40; position++) {
            for (uint32_t i = 0; i < n; i++)
                logits[i] = random_logit();
            for (int t = 0; t < 5; t++) {
                const struct tern_sampling sampling = {temperatures[t], position * 77777ull + n};
                const uint32_t got = tern_sample(sampler, &sampling, logits, n, position);
                assert_int_equal(
                    got, plain_draw(logits, n, temperatures[t], position * 77777ull + n, position));
            }
        }
    tern_sampler_free(sampler);
}

static void frequencies_follow_the_probabilities(void **state)
{
    (void)state;
    const float logits[3] = {0, (float)log(2), (float)log(5)};
    const struct tern_sampling sampling = {1.0f, 42};
    struct tern_sampler *sampler = tern_sampler_new();
    int count[3] = {0};
    for (uint32_t position = 0; position < 8000; position++)
        count[tern_sample(sampler, &sampling, logits, 3, position)]++;
    assert_in_range(count[0], 900, 1100);
    assert_in_range(count[1], 1850, 2150);
    assert_in_range(count[2], 4800, 5200);
    tern_sampler_free(sampler);
}

static void any_bits_give_some_token(void **state)
{
    (void)state;
    const float logits[5] = {NAN, INFINITY, -INFINITY, -NAN, 3.0f};
    const struct tern_sampling sampling = {1e-6f, 1};
    struct tern_sampler *sampler = tern_sampler_new();
    for (int first = 0; first < 5; first++)
        for (uint32_t n = 1; n <= 5u - (uint32_t)first; n++)
            assert_in_range(tern_sample(sampler, &sampling, logits + first, n, 0), 0, n - 1);
    tern_sampler_free(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_known_words),
        cmocka_unit_test(draws_follow_the_definition),
        cmocka_unit_test(frequencies_follow_the_probabilities),
        cmocka_unit_test(any_bits_give_some_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
