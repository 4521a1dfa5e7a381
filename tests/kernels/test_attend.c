/* Attention of every tier against the scalar tier, bit for bit: head sizes, windows, blocks, groups
 * of heads, pages in any order. */
#include "tests/kernels/check.h"

enum { GUARD = 16, POSITIONS = 700 };

struct attend_shape {
    enum tern_kv_type type;
    uint32_t head_size, kv_heads, heads, position, window;
    enum check_kind kind;
};

struct cache {
    struct tern_kv_layout kv;
    uint32_t pages[POSITIONS / TERN_PAGE_POSITIONS + 1];
    uint8_t *data;
};

static void store_vectors(const struct tern_attention *a, const struct attend_shape *s)
{
    float x[TERN_MAX_HEAD];
    for (uint32_t p = 0; p <= s->position; p++) {
        fill_floats(x, s->head_size, s->kind);
        assert_int_equal(
            tern_kv_store(s->type, x, s->head_size, (void *)(uintptr_t)tern_kv_key(a, p)),
            TERN_FAULT_NONE);
        fill_floats(x, s->head_size, s->kind);
        assert_int_equal(
            tern_kv_store(s->type, x, s->head_size, (void *)(uintptr_t)tern_kv_value(a, p)),
            TERN_FAULT_NONE);
    }
}

static struct cache make_cache(const struct attend_shape *s)
{
    const uint64_t element = s->type == TERN_KV_F16 ? 2 : 4;
    struct cache c = {
        .kv = {.type = s->type, .layers = 2, .kv_heads = s->kv_heads, .head_size = s->head_size}};
    c.kv.page_layer_bytes =
        2 * s->kv_heads * (uint64_t)TERN_PAGE_POSITIONS * s->head_size * element;
    c.kv.page_bytes = (c.kv.layers * c.kv.page_layer_bytes + 4095) / 4096 * 4096;
    const uint32_t pages = s->position / TERN_PAGE_POSITIONS + 1;
    for (uint32_t i = 0; i < pages; i++)
        c.pages[i] = pages - 1 - i;
    /* The last page ends where its last vector does: reading past it faults. */
    const uint64_t used = (pages - 1) * c.kv.page_bytes + c.kv.layers * c.kv.page_layer_bytes;
    c.data = guarded_alloc(used, 0);
    return c;
}

static void check_attend(const struct tern_kernels *k, const struct attend_shape *s)
{
    struct cache c = make_cache(s);
    const struct tern_attention a = {.cache = c.data,
                                     .pages = c.pages,
                                     .kv = &c.kv,
                                     .kv_layer = 1,
                                     .kv_head = s->kv_heads - 1,
                                     .position = s->position,
                                     .window = s->window,
                                     .scale = 0.125f};
    store_vectors(&a, s);
    const size_t n = (size_t)s->heads * s->head_size;
    float *q = guarded_alloc(n * sizeof *q, 0);
    float *want = guarded_alloc((n + GUARD) * sizeof *q, 0);
    float *got = guarded_alloc((n + GUARD) * sizeof *q, 0);
    fill_floats(q, n, s->kind);
    fill_pattern(want, (n + GUARD) * sizeof *q);
    fill_pattern(got, (n + GUARD) * sizeof *q);
    assert_true(tern_attend(&a, q, s->heads, want));
    assert_true(k->attend(&a, q, s->heads, got));
    for (size_t i = 0; i < n + GUARD; i++)
        if (word_at(got + i) != word_at(want + i))
            fail_msg("%s attend %s head size %u, %u heads, position %u, window %u, %s: element %zu "
                     "is %a, not %a",
                     k->name, s->type == TERN_KV_F16 ? "f16" : "f32", s->head_size, s->heads,
                     s->position, s->window, kind_names[s->kind], i, (double)got[i],
                     (double)want[i]);
    q[random_below((uint32_t)n)] = tern_float(0x7f800000u);
    assert_false(k->attend(&a, q, s->heads, got));
    guarded_free(q);
    guarded_free(want);
    guarded_free(got);
    guarded_free(c.data);
}

static void check_shapes(const struct tern_kernels *k)
{
    static const uint32_t sizes[] = {16, 24, 40, 64, 80, 96, 128, 200, 256, 18};
    static const enum check_kind kinds[] = {KIND_RANDOM, KIND_TINY, KIND_SPARSE, KIND_SMALLEST};
    for (uint32_t i = 0; i < 160; i++) {
        const struct attend_shape s = {
            .type = i % 2 == 0 ? TERN_KV_F16 : TERN_KV_F32,
            .head_size = sizes[i % (sizeof sizes / sizeof sizes[0])],
            .kv_heads = 1 + random_below(3),
            .heads = 1 + random_below(9),
            .position = random_below(i % 3 == 0 ? 40 : POSITIONS),
            .window = i % 4 == 0 ? 1 + random_below(POSITIONS) : 0,
            .kind = kinds[random_below(4)],
        };
        check_attend(k, &s);
    }
}

static void test_attend(void **state)
{
    (void)state;
    for_each_tier(check_shapes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attend)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
