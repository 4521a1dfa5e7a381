/* coordinator/schedule/sample: Philox by its published vectors, the draw by its definition. */
#include "coordinator/schedule/chances.h"
#include "coordinator/schedule/sample.h"
#include "proto/numerics/functions.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 10000 };

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

static float probability(float value)
{
    return tern_exp(value < -1000 ? -1000 : value);
}

/* NUMERICS section 4 word for word: every candidate sorted, every filter a loop over all. */
static uint32_t plain_draw(const float *logits, uint32_t n, const struct tern_sampling *s,
                           const uint32_t *ids, uint32_t count)
{
    static struct pair list[MOST];
    static float x[MOST];
    double total = 0, before = 0, running = 0;
    uint32_t kept = n, k = 0;
    memcpy(x, logits, n * sizeof *x);
    for (uint32_t i = 0; i < s->biases; i++)
        x[s->bias[i].id] += s->bias[i].value;
    for (uint32_t id = 0; id < n; id++) {
        bool recent = false;
        for (uint32_t i = count < 64 ? 0 : count - 64; i < count; i++)
            recent |= ids[i] == id;
        if (recent)
            x[id] = x[id] > 0 ? x[id] / s->penalty : x[id] * s->penalty;
    }
    float max = x[0];
    for (uint32_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (uint32_t i = 0; i < n; i++)
        list[i] = (struct pair){s->temperature > 0 ? (x[i] - max) / s->temperature : x[i], i};
    qsort(list, n, sizeof *list, by_value_then_id);
    if (s->temperature == 0)
        return list[0].id;
    if (s->top_k > 0 && s->top_k < kept)
        kept = s->top_k;
    for (uint32_t i = 0; i < kept; i++)
        total += (double)probability(list[i].value);
    for (k = 0; k < kept && (s->top_p >= 1 || before < s->top_p * total); k++)
        before += (double)probability(list[k].value);
    kept = k > 1 ? k : 1;
    for (k = 0; k < kept; k++)
        if ((double)probability(list[k].value) < s->min_p * (double)probability(list[0].value))
            break;
    kept = k > 1 ? k : 1;
    total = 0;
    for (uint32_t i = 0; i < kept; i++)
        total += (double)probability(list[i].value);
    const double u = (double)(tern_philox(s->seed, count) >> 8) * 0x1p-24;
    for (uint32_t i = 0; i < kept; i++) {
        running += (double)probability(list[i].value);
        if (running > u * total)
            return list[i].id;
    }
    return list[kept - 1].id;
}

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(random_state >> 8) * n) >> 24);
}

/* Coarse, so that equal values are common. */
static float random_logit(void)
{
    return (float)((int)random_below(200) - 80) * 0.125f;
}

/* No two alike: all that is between coarse ones. */
static float random_little(void)
{
    return (float)random_below(1 << 20) * 0x1p-23f;
}

static struct tern_sampling random_settings(struct tern_bias *bias, uint32_t n)
{
    static const float temperatures[] = {0, 1e-45f, 1e-30f, 1e-4f, 0.01f, 0.7f, 1, 5, 1000, 1e6f};
    static const uint32_t top_k[] = {0, 0, 1, 2, 5, 40, 100000};
    static const double top_p[] = {1, 1, 0, 0.1, 0.5, 0.9, 0.999};
    static const double min_p[] = {0, 0, 0.001, 0.05, 0.5, 1};
    static const float penalty[] = {1, 1, 1.1f, 2, 0.5f, 1000};
    struct tern_sampling s = {
        .temperature = temperatures[random_below(10)],
        .seed = (uint64_t)random_below(1 << 20) << random_below(40),
        .top_k = top_k[random_below(7)],
        .top_p = top_p[random_below(7)],
        .min_p = min_p[random_below(6)],
        .penalty = penalty[random_below(6)],
        .bias = bias,
        .biases = random_below(2) * random_below(5),
    };
    for (uint32_t i = 0; i < s.biases; i++)
        bias[i] = (struct tern_bias){random_below(n), random_logit()};
    return s;
}

static void choices_follow_the_definition(void **state)
{
    (void)state;
    static float logits[MOST];
    static uint32_t ids[100];
    struct tern_bias bias[5];
    struct tern_sampler *sampler = tern_sampler_new();
    for (uint32_t n = 1; n <= MOST; n = n * 3 + 1)
        for (int round = 0; round < 300; round++) {
            const uint32_t count = 1 + random_below(100);
            for (uint32_t i = 0; i < n; i++)
                logits[i] = random_logit() + (round % 2 == 0 ? 0 : random_little());
            for (uint32_t i = 0; i < count; i++)
                ids[i] = random_below(n);
            const struct tern_sampling s = random_settings(bias, n);
            assert_int_equal(tern_sample(sampler, &s, logits, n, ids, count),
                             plain_draw(logits, n, &s, ids, count));
        }
    tern_sampler_free(sampler);
}

/* Draws at positions 0 to `draws` - 1, counted by token. */
static void count_draws(const struct tern_sampling *s, const float *logits, uint32_t n,
                        uint32_t draws, uint32_t *count)
{
    static const uint32_t ids[8000];
    struct tern_sampler *sampler = tern_sampler_new();
    memset(count, 0, n * sizeof *count);
    for (uint32_t position = 0; position < draws; position++)
        count[tern_sample(sampler, s, logits, n, ids, position)]++;
    tern_sampler_free(sampler);
}

/* Chi-square over 20 tokens: 19 degrees of freedom, 43.8 is passed by 1 of 1000. */
static void frequencies_follow_the_probabilities(void **state)
{
    (void)state;
    float logits[20];
    uint32_t count[20];
    double total = 0, chi = 0;
    struct tern_sampling s = tern_sampling_greedy();
    s.temperature = 1;
    s.seed = 42;
    for (int i = 0; i < 20; i++)
        total += exp((double)(logits[i] = (float)(i % 7) * 0.4f));
    count_draws(&s, logits, 20, 8000, count);
    for (int i = 0; i < 20; i++) {
        const double expected = 8000 * exp((double)logits[i]) / total;
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    }
    assert_true(chi < 43.8);
}

static void edge_values_mean_what_they_say(void **state)
{
    (void)state;
    const float logits[5] = {0.5f, 1e4f, -1e4f, 9.999e3f, 0};
    uint32_t count[5];
    static const float tiny[] = {1e-45f, 1e-38f, 1e-30f, 1e-5f, 1e-4f};
    struct tern_sampling s = tern_sampling_greedy();
    for (int i = 0; i < 5; i++) {
        s.temperature = tiny[i];
        count_draws(&s, logits, 5, 100, count);
        assert_int_equal(count[1], 100);
    }
    s.temperature = 1e6f; /* nearly even */
    count_draws(&s, logits, 5, 1000, count);
    for (int i = 0; i < 5; i++)
        assert_true(count[i] > 100);
    struct tern_sampling best = s;
    best.top_k = 1;
    count_draws(&best, logits, 5, 100, count);
    assert_int_equal(count[1], 100);
    best = s;
    best.top_p = 0;
    count_draws(&best, logits, 5, 100, count);
    assert_int_equal(count[1], 100);
    best = s;
    best.min_p = 1;
    count_draws(&best, logits, 5, 100, count);
    assert_int_equal(count[1], 100);
}

static void any_bits_give_some_token(void **state)
{
    (void)state;
    const float logits[5] = {NAN, INFINITY, -INFINITY, -NAN, 3.0f};
    const uint32_t ids[3] = {0, 4, UINT32_MAX};
    const struct tern_bias bias[2] = {{1, 5}, {77, 1}};
    struct tern_sampler *sampler = tern_sampler_new();
    struct tern_sampling s = tern_sampling_greedy();
    for (int setting = 0; setting < 4; setting++) {
        s.temperature = setting % 2 == 0 ? 1e-6f : 0;
        s.penalty = setting < 2 ? 1 : 1.5f;
        s.bias = bias;
        s.biases = setting < 2 ? 0 : 2;
        for (int first = 0; first < 5; first++)
            for (uint32_t n = 1; n <= 5u - (uint32_t)first; n++)
                assert_in_range(tern_sample(sampler, &s, logits + first, n, ids, 3), 0, n - 1);
    }
    tern_sampler_free(sampler);
}

static void chances_are_logarithms_of_the_softmax(void **state)
{
    (void)state;
    static float logits[MOST];
    struct tern_chance chance[1 + TERN_MOST_CHANCES];
    double total = 0, sum = 0;
    for (int i = 0; i < MOST; i++)
        total += exp((double)(logits[i] = random_logit()));
    for (uint32_t id = 0; id < MOST; id++) {
        tern_chances(logits, MOST, id, id % (TERN_MOST_CHANCES + 1), chance);
        assert_int_equal(chance[0].id, id);
        assert_true(chance[0].logprob <= 0);
        assert_true(fabs((double)chance[0].logprob - ((double)logits[id] - log(total))) < 1e-5);
        sum += exp((double)chance[0].logprob);
        for (uint32_t i = 1; i <= id % (TERN_MOST_CHANCES + 1); i++)
            for (uint32_t other = 0; other < MOST; other++) {
                bool listed = false;
                for (uint32_t j = 1; j < i; j++)
                    listed |= chance[j].id == other;
                assert_true(listed || logits[other] < logits[chance[i].id] ||
                            (logits[other] == logits[chance[i].id] && other >= chance[i].id));
            }
    }
    assert_true(fabs(sum - 1) < 1e-4);
    tern_chances(logits, 2, 1, 5, chance); /* fewer tokens than asked for */
    assert_int_equal(chance[3].id, UINT32_MAX);
    const float lone = -1e4f;
    tern_chances(&lone, 1, 0, 1, chance);
    assert_true(chance[0].logprob == 0 && chance[1].logprob == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_known_words),
        cmocka_unit_test(choices_follow_the_definition),
        cmocka_unit_test(frequencies_follow_the_probabilities),
        cmocka_unit_test(edge_values_mean_what_they_say),
        cmocka_unit_test(chances_are_logarithms_of_the_softmax),
        cmocka_unit_test(any_bits_give_some_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
