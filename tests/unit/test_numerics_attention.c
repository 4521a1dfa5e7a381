/* Keys and values as stored, and attention, against the text of NUMERICS section 3 done naively. */
#include "proto/numerics/functions.h"
#include "proto/numerics/layer.h"
#include "test_numerics_common.h"

enum {
    POSITIONS = 832,
    PAGES = POSITIONS / TERN_PAGE_POSITIONS,
    KV_HEADS = 2,
    LAYERS = 2,
    HEADS = 3
};

/* A cache whose pages lie in another order than their positions. */
struct fixture {
    struct tern_kv_layout kv;
    uint32_t pages[PAGES];
    uint8_t *cache;
    float *key, *value; /* as stored, [position][kv_head][head_size], of layer 1 */
};

static struct fixture make_cache(enum tern_kv_type type, uint32_t head_size)
{
    const uint64_t element = type == TERN_KV_F16 ? 2 : 4;
    const uint64_t layer_bytes = 2 * KV_HEADS * TERN_PAGE_POSITIONS * head_size * element;
    struct fixture f = {.kv = {.type = type,
                               .layers = LAYERS,
                               .kv_heads = KV_HEADS,
                               .head_size = head_size,
                               .page_layer_bytes = layer_bytes,
                               .page_bytes = (LAYERS * layer_bytes + 4095) / 4096 * 4096}};
    for (uint32_t i = 0; i < PAGES; i++)
        f.pages[i] = (i * 5 + 3) % PAGES;
    f.cache = malloc(PAGES * f.kv.page_bytes);
    f.key = malloc(POSITIONS * KV_HEADS * head_size * sizeof(float));
    f.value = malloc(POSITIONS * KV_HEADS * head_size * sizeof(float));
    assert_true(f.cache != NULL && f.key != NULL && f.value != NULL);
    memset(f.cache, 0xff, PAGES * f.kv.page_bytes);
    return f;
}

static void free_cache(struct fixture *f)
{
    free(f->cache);
    free(f->key);
    free(f->value);
}

/* Stores x at the place that the layout in plan.h gives; returns it as stored in kept. */
static void put_vector(struct fixture *f, uint32_t position, uint32_t head, bool value,
                       const float *x)
{
    const uint32_t n = f->kv.head_size;
    const uint64_t element = f->kv.type == TERN_KV_F16 ? 2 : 4;
    const uint64_t index = (value ? KV_HEADS * TERN_PAGE_POSITIONS : 0) +
                           head * TERN_PAGE_POSITIONS + position % TERN_PAGE_POSITIONS;
    uint8_t *at = f->cache + f->pages[position / TERN_PAGE_POSITIONS] * f->kv.page_bytes +
                  1 * f->kv.page_layer_bytes + index * n * element;
    assert_int_equal(tern_kv_store(f->kv.type, x, n, at), TERN_FAULT_NONE);
    float *kept = (value ? f->value : f->key) + (position * KV_HEADS + head) * n;
    for (uint32_t j = 0; j < n; j++)
        kept[j] = f->kv.type == TERN_KV_F16 ? expect_half(tern_float_to_half(x[j])) : x[j];
}

static void fill_cache(struct fixture *f, float key_range, uint64_t *seed)
{
    float x[256];
    for (uint32_t p = 0; p < POSITIONS; p++) {
        for (uint32_t h = 0; h < KV_HEADS; h++) {
            for (uint32_t j = 0; j < f->kv.head_size; j++)
                x[j] = key_range * random_unit(seed);
            put_vector(f, p, h, false, x);
            for (uint32_t j = 0; j < f->kv.head_size; j++)
                x[j] = j % 4 ? random_unit(seed) : fmodf(random_value(seed), 60000.0f);
            put_vector(f, p, h, true, x);
        }
    }
}

static struct tern_attention attention_of(const struct fixture *f, uint32_t position,
                                          uint32_t window, float scale)
{
    return (struct tern_attention){.cache = f->cache,
                                   .pages = f->pages,
                                   .kv = &f->kv,
                                   .kv_layer = 1,
                                   .kv_head = 1,
                                   .position = position,
                                   .window = window,
                                   .scale = scale};
}

static const float *kept_vector(const struct fixture *f, const float *kept, uint32_t position)
{
    return kept + (position * KV_HEADS + 1) * f->kv.head_size;
}

/* ---- The text, naively ---- */

struct expected_part {
    float max, weight, sum[256];
};

static void expect_block(const struct fixture *f, const float *q, float scale, uint32_t first,
                         uint32_t last, struct expected_part *part)
{
    const uint32_t n = f->kv.head_size;
    float e[256], term[256];
    for (uint32_t p = first; p <= last; p++) {
        for (uint32_t j = 0; j < n; j++)
            term[j] = q[j] * kept_vector(f, f->key, p)[j];
        e[p - first] = expect_chains(term, n, 0) * scale;
    }
    part->max = e[0];
    for (uint32_t p = first; p <= last; p++)
        part->max = fmaxf(part->max, e[p - first]);
    for (uint32_t p = first; p <= last; p++)
        e[p - first] = tern_exp(e[p - first] - part->max);
    part->weight = expect_chains(e, last - first + 1, first);
    for (uint32_t j = 0; j < n; j++) {
        part->sum[j] = e[0] * kept_vector(f, f->value, first)[j];
        for (uint32_t p = first + 1; p <= last; p++)
            part->sum[j] += e[p - first] * kept_vector(f, f->value, p)[j];
    }
}

static float expect_merged(float a, float by_a, float b, float by_b)
{
    const float left = value_of(a * by_a);
    const float right = value_of(b * by_b);
    return value_of(left + right);
}

static void expect_attention(const struct fixture *f, const struct tern_attention *a,
                             const float *q, float *out)
{
    const uint32_t window = a->window == 0 ? UINT32_MAX : a->window;
    const uint32_t low = a->position >= window ? a->position - window + 1 : 0;
    struct expected_part all = {0}, part;
    bool started = false;
    for (uint32_t b = 0; 256 * b <= a->position; b++) {
        const uint32_t first = 256 * b > low ? 256 * b : low;
        const uint32_t last = 256 * b + 255 < a->position ? 256 * b + 255 : a->position;
        if (first > last)
            continue;
        expect_block(f, q, a->scale, first, last, started ? &part : &all);
        if (started) {
            const float max = fmaxf(all.max, part.max);
            const float by_all = tern_exp(all.max - max), by_part = tern_exp(part.max - max);
            all.weight = expect_merged(all.weight, by_all, part.weight, by_part);
            for (uint32_t j = 0; j < f->kv.head_size; j++)
                all.sum[j] = expect_merged(all.sum[j], by_all, part.sum[j], by_part);
            all.max = max;
        }
        started = true;
    }
    for (uint32_t j = 0; j < f->kv.head_size; j++)
        out[j] = value_of(all.sum[j] / all.weight);
}

/* ---- Tests ---- */

static void check_attention(const struct fixture *f, uint32_t position, uint32_t window,
                            uint64_t *seed)
{
    const uint32_t n = f->kv.head_size;
    const struct tern_attention a = attention_of(f, position, window, 1.0f / sqrtf((float)n));
    float q[HEADS * 256], out[HEADS * 256 + 1], expected[256];
    for (uint32_t j = 0; j < HEADS * n; j++)
        q[j] = 3.0f * random_unit(seed);
    out[HEADS * n] = 42.0f;
    assert_true(tern_attend(&a, q, HEADS, out));
    for (uint32_t h = 0; h < HEADS; h++) {
        expect_attention(f, &a, q + h * n, expected);
        assert_memory_equal(out + h * n, expected, n * sizeof *out);
    }
    assert_same_float(out[HEADS * n], 42.0f);
}

static void attention_follows_the_text(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {16, 20, 64, 100, 256};
    static const uint32_t positions[] = {0, 1, 15, 16, 63, 64, 255, 256, 257, 511, 512, 700, 831};
    static const uint32_t windows[] = {0, 1, 7, 16, 100, 256, 300, 5000};
    uint64_t seed = 51;
    for (int s = 0; s < 5; s++) {
        for (int type = TERN_KV_F16; type <= TERN_KV_F32; type++) {
            struct fixture f = make_cache((enum tern_kv_type)type, sizes[s]);
            fill_cache(&f, s % 2 ? 20.0f : 1.0f,
                       &seed); /* 20: weights far below 2^-34, merges of 0 */
            for (int p = 0; p < 13; p++)
                check_attention(&f, positions[p], windows[(p + 2 * s + type) % 8], &seed);
            for (int w = 0; w < 8; w++)
                check_attention(&f, 831, windows[w], &seed);
            free_cache(&f);
        }
    }
}

/* An independent sense of what attention is: softmax in double. */
static void attention_is_a_softmax(void **state)
{
    (void)state;
    uint64_t seed = 52;
    struct fixture f = make_cache(TERN_KV_F32, 32);
    float x[32], q[32], out[32];
    for (uint32_t p = 0; p < POSITIONS; p++) {
        for (int vector = 0; vector < 2; vector++) {
            for (int j = 0; j < 32; j++)
                x[j] = random_unit(&seed);
            put_vector(&f, p, 1, vector == 1, x);
        }
    }
    for (int j = 0; j < 32; j++)
        q[j] = 4.0f * random_unit(&seed);
    const struct tern_attention a = attention_of(&f, 800, 0, 0.5f);
    assert_true(tern_attend(&a, q, 1, out));
    double total = 0.0, sum[32] = {0};
    for (uint32_t p = 0; p <= 800; p++) {
        double score = 0.0;
        for (int j = 0; j < 32; j++)
            score += (double)q[j] * kept_vector(&f, f.key, p)[j];
        const double e = exp(score * 0.5);
        total += e;
        for (int j = 0; j < 32; j++)
            sum[j] += e * kept_vector(&f, f.value, p)[j];
    }
    for (int j = 0; j < 32; j++)
        assert_true(fabs(out[j] - sum[j] / total) < 1e-5);
    free_cache(&f);
}

/* Scores 40 apart: the smaller block vanishes; products of the merge obey the value rule. */
static void merges_obey_the_value_rule(void **state)
{
    (void)state;
    struct fixture f = make_cache(TERN_KV_F32, 16);
    float key[16] = {0}, value[16], q[16] = {1.0f}, out[16], expected[16];
    for (uint32_t p = 0; p < POSITIONS; p++) {
        key[0] = p < 256 ? 0.0f : p < 512 ? 20.0f : 10.0f;
        for (int j = 0; j < 16; j++)
            value[j] = ldexpf(1.0f, -3 * j) * (p & 1 ? -1.0f : 1.5f);
        put_vector(&f, p, 1, false, key);
        put_vector(&f, p, 1, true, value);
    }
    for (uint32_t p = 250; p < POSITIONS; p += 29) {
        const struct tern_attention a = attention_of(&f, p, 0, 1.0f);
        assert_true(tern_attend(&a, q, 1, out));
        expect_attention(&f, &a, q, expected);
        assert_memory_equal(out, expected, sizeof out);
    }
    free_cache(&f);
}

static void what_is_not_finite_is_reported(void **state)
{
    (void)state;
    struct fixture f = make_cache(TERN_KV_F32, 16);
    float q[16] = {1.0f}, x[16] = {1.0f}, out[16];
    for (uint32_t p = 0; p < POSITIONS; p++) {
        put_vector(&f, p, 1, false, x);
        put_vector(&f, p, 1, true, x);
    }
    const struct tern_attention a = attention_of(&f, 600, 0, 1.0f);
    assert_true(tern_attend(&a, q, 1, out));
    x[0] = 3e38f;
    put_vector(&f, 300, 1, true, x);
    put_vector(&f, 301, 1, true, x); /* their sum overflows in block 1 */
    assert_false(tern_attend(&a, q, 1, out));
    const struct tern_attention later = attention_of(&f, 600, 200, 1.0f);
    assert_true(tern_attend(&later, q, 1, out));
    put_vector(&f, 599, 1, false, x);
    assert_true(tern_attend(&later, q, 1, out)); /* scores 3e38 apart are fine */
    assert_same_float(out[0], 1.0f);
    q[0] = 2.0f;
    assert_false(tern_attend(&later, q, 1, out)); /* a score overflows */
    free_cache(&f);
}

static void keys_and_values_are_stored_as_said(void **state)
{
    (void)state;
    const float x[] = {1.0f, -0.0f, 0x1p-25f, 0x1.8p-24f, 65519.996f, 0x1.002p0f, 0x1.006p0f};
    const uint16_t halves[] = {0x3c00, 0x8000, 0, 2, 0x7bff, 0x3c00, 0x3c02};
    uint16_t half[8] = {0};
    half[7] = 0xabcd;
    assert_int_equal(tern_kv_store(TERN_KV_F16, x, 7, half), TERN_FAULT_NONE);
    assert_memory_equal(half, halves, sizeof halves);
    assert_int_equal(half[7], 0xabcd);
    float same[7];
    assert_int_equal(tern_kv_store(TERN_KV_F32, x, 7, same), TERN_FAULT_NONE);
    assert_memory_equal(same, x, sizeof x);
    const float large[] = {1.0f, -65520.0f};
    assert_int_equal(tern_kv_store(TERN_KV_F16, large, 2, half), TERN_FAULT_KV_OVERFLOW);
    assert_int_equal(tern_kv_store(TERN_KV_F16, large, 1, half), TERN_FAULT_NONE);
    assert_int_equal(tern_kv_store(TERN_KV_F32, large, 2, same), TERN_FAULT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_follows_the_text),
        cmocka_unit_test(attention_is_a_softmax),
        cmocka_unit_test(merges_obey_the_value_rule),
        cmocka_unit_test(what_is_not_finite_is_reported),
        cmocka_unit_test(keys_and_values_are_stored_as_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
