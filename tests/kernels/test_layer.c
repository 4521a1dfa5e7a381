/* The operations on one row of every tier against the scalar tier, bit for bit. */
#include "tests/kernels/check.h"

enum { LONGEST = 2100, GUARD = 16 };

struct area {
    uint8_t *want, *got;
    size_t bytes;
};

static struct area make_area(size_t bytes)
{
    struct area a = {guarded_alloc(bytes, 0), guarded_alloc(bytes, 0), bytes};
    fill_pattern(a.want, bytes);
    fill_pattern(a.got, bytes);
    return a;
}

static void compare_area(struct area a, const char *tier, const char *operation, uint32_t n)
{
    for (size_t i = 0; i < a.bytes; i++)
        if (a.want[i] != a.got[i])
            fail_msg("%s %s, n %u: byte %zu is %02x, not %02x", tier, operation, n, i, a.got[i],
                     a.want[i]);
    guarded_free(a.want);
    guarded_free(a.got);
}

static float *make_floats(uint32_t n, enum check_kind kind)
{
    float *x = guarded_alloc(n * sizeof *x, 0);
    fill_floats(x, n, kind);
    return x;
}

static uint32_t random_length(void)
{
    return 1 + random_below(random_below(2) == 0 ? 70 : LONGEST);
}

static void check_norm(const struct tern_kernels *k)
{
    for (int i = 0; i < 200; i++) {
        const uint32_t n = random_length();
        float *x = make_floats(n, (enum check_kind)(i % KINDS));
        float *gain = make_floats(n, (enum check_kind)(i / KINDS % KINDS));
        struct area a = make_area((n + GUARD) * sizeof(float));
        const bool want = tern_norm(x, gain, n, 1e-5f, (float *)(void *)a.want);
        assert_int_equal(k->norm(x, gain, n, 1e-5f, (float *)(void *)a.got), want);
        compare_area(a, k->name, "norm", n);
        assert_int_equal(k->norm(x, gain, n, 1e-5f, x), want);
        x[random_below(n)] = tern_float(0x7f800000u);
        assert_false(k->norm(x, gain, n, 1e-5f, gain));
        guarded_free(x);
        guarded_free(gain);
    }
}

static void check_add(const struct tern_kernels *k)
{
    for (int i = 0; i < 200; i++) {
        const uint32_t n = random_length();
        float *x = make_floats(n, (enum check_kind)(i % KINDS));
        float *y = make_floats(n, (enum check_kind)(i / KINDS % KINDS));
        struct area a = make_area((n + GUARD) * sizeof(float));
        assert_true(tern_add_rows(x, y, n, (float *)(void *)a.want));
        assert_true(k->add(x, y, n, (float *)(void *)a.got));
        compare_area(a, k->name, "add", n);
        x[random_below(n)] = tern_float(0xffc00000u);
        assert_false(k->add(x, y, n, x));
        guarded_free(x);
        guarded_free(y);
    }
}

/* Gates over all exponents, so that every case of exp is met. */
static void check_glu(const struct tern_kernels *k)
{
    for (int i = 0; i < 200; i++) {
        const enum tern_activation act = i % 2 == 0 ? TERN_SILU : TERN_GELU;
        const uint32_t n = random_length();
        float *gate = make_floats(n, KIND_SPARSE);
        float *up = make_floats(n, (enum check_kind)(i % KINDS));
        for (uint32_t j = 0; j < n; j++)
            if (i % 4 < 2)
                gate[j] = tern_value(random_float(-40, 9));
        struct area a = make_area((n + GUARD) * sizeof(float));
        assert_true(tern_glu(act, gate, up, n, (float *)(void *)a.want));
        assert_true(k->glu(act, gate, up, n, (float *)(void *)a.got));
        compare_area(a, k->name, act == TERN_SILU ? "silu" : "gelu", n);
        gate[random_below(n)] = tern_float(0xff800000u);
        assert_false(k->glu(act, gate, up, n, up));
        guarded_free(gate);
        guarded_free(up);
    }
}

static void check_argmax(const struct tern_kernels *k)
{
    for (int i = 0; i < 300; i++) {
        const uint32_t n = random_length();
        float *x = make_floats(n, (enum check_kind)(i % KINDS));
        for (int copies = 0; copies < 5; copies++) /* ties */
            x[random_below(n)] = 100.0f;
        assert_int_equal(k->argmax(x, n), tern_argmax(x, n));
        guarded_free(x);
    }
}

static void check_rope(const struct tern_kernels *k)
{
    for (int i = 0; i < 300; i++) {
        const uint32_t size = 2 * (8 + random_below(120));
        const uint32_t rotated = i % 3 == 0 ? 2 * (1 + random_below(size / 2)) : size;
        const enum tern_rope_pairs order = i % 2 == 0 ? TERN_ROPE_INTERLEAVED : TERN_ROPE_HALVES;
        float *x = make_floats(size, (enum check_kind)(i % KINDS));
        float *pairs = make_floats(rotated, i % 4 == 0 ? KIND_SPARSE : KIND_RANDOM);
        struct area a = make_area((size + GUARD) * sizeof(float));
        assert_true(tern_rope(x, pairs, size, rotated, order, (float *)(void *)a.want));
        assert_true(k->rope(x, pairs, size, rotated, order, (float *)(void *)a.got));
        assert_true(k->rope(x, pairs, size, rotated, order, x));
        assert_memory_equal(x, a.want, size * sizeof *x);
        compare_area(a, k->name, "rope", size);
        x[random_below(rotated)] = tern_float(0x7f800000u);
        assert_false(k->rope(x, pairs, size, rotated, order, x));
        guarded_free(x);
        guarded_free(pairs);
    }
}

static void check_kv_store(const struct tern_kernels *k)
{
    for (int i = 0; i < 300; i++) {
        const uint32_t n = random_length();
        const enum tern_kv_type type = i % 4 == 0 ? TERN_KV_F32 : TERN_KV_F16;
        float *x = make_floats(n, i % 3 == 0 ? KIND_TINY : KIND_RANDOM);
        for (uint32_t j = 0; j < n && i % 3 == 1;
             j++) /* subnormal halves and their halfway points */
            x[j] = (float)random_below(4096) * 0x1p-25f * (random_below(2) == 0 ? 1.0f : -1.0f);
        if (i % 5 == 0) {
            static const float edges[] = {65519.99f, 65520.0f, -65520.0f, 65504.0f};
            x[random_below(n)] = edges[random_below(4)];
        }
        struct area a = make_area((n + GUARD) * sizeof(float));
        const int want = tern_kv_store(type, x, n, a.want);
        assert_int_equal(k->kv_store(type, x, n, a.got), want);
        compare_area(a, k->name, "kv_store", n);
        guarded_free(x);
    }
}

static void check_quantize(const struct tern_kernels *k)
{
    for (int i = 0; i < 400; i++) {
        const struct tern_act act = {.block = i % 2 == 0 ? 32 : 256, .bits = i % 4 < 2 ? 8 : 16};
        const uint32_t columns = act.block * (1 + random_below(2048 / act.block));
        float *x = make_floats(columns, (enum check_kind)(i % KINDS));
        if (i % 7 == 0) /* exact halves: amax 127 or 32639 makes x the code */
            for (uint32_t j = 0; j < columns; j++)
                x[j] = j % act.block == 0 ? (act.bits == 8 ? 127.0f : -32639.0f)
                                          : (float)((int)random_below(252) - 126) + 0.5f;
        if (i % 11 == 0)
            memset(x, 0, act.block * sizeof *x);
        const size_t stride = tern_act_layout(act, columns).stride;
        struct area a = make_area(stride + 64);
        tern_quantize_row(x, columns, act, a.want);
        k->quantize(x, columns, act, a.got);
        compare_area(a, k->name, "quantize", columns);
        guarded_free(x);
    }
}

static void check_widen(const struct tern_kernels *k)
{
    static const uint32_t types[] = {TERN_F32,  TERN_F16,  TERN_BF16, TERN_Q8_0,
                                     TERN_Q4_0, TERN_Q4_1, TERN_Q5_0, TERN_Q5_1,
                                     TERN_Q4_K, TERN_Q5_K, TERN_Q6_K};
    for (int i = 0; i < 440; i++) {
        const uint32_t type = types[(size_t)i % (sizeof types / sizeof types[0])];
        const struct tern_type_info *info = tern_type_info(type);
        const uint32_t columns = info->block * (1 + random_below(1024 / info->block));
        const float factor = i % 3 == 0 ? 1.0f : 24.0f;
        uint64_t bytes = 0;
        assert_true(tern_row_bytes(type, columns, &bytes));
        uint8_t *row = guarded_alloc(bytes, 4096);
        fill_weights(type, row, columns, (enum check_kind)(i % KINDS));
        struct area a = make_area((columns + GUARD) * sizeof(float));
        const bool want = tern_widen_row(type, row, columns, factor, (float *)(void *)a.want);
        assert_int_equal(k->widen(type, row, columns, factor, (float *)(void *)a.got), want);
        compare_area(a, k->name, info->name, columns);
        guarded_free(row);
    }
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        for_each_tier(check_##name);                                                               \
    }
TEST(norm)
TEST(add)
TEST(glu)
TEST(argmax)
TEST(rope)
TEST(kv_store)
TEST(quantize)
TEST(widen)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),     cmocka_unit_test(test_add),
        cmocka_unit_test(test_glu),      cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_rope),     cmocka_unit_test(test_kv_store),
        cmocka_unit_test(test_quantize), cmocka_unit_test(test_widen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
