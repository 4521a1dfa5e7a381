/* Attention of every tier against the scalar definition, bit for bit: head sizes, windows, blocks,
 * groups of heads, spans of rows, pages in any order. */
#include "tests/kernels/check.h"

enum { GUARD = 16, POSITIONS = 700 };

struct attend_shape {
    enum tern_kv_type type;
    uint32_t head_size, kv_heads, heads, rows, position, window; /* position: of the last row */
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

static void fill_row_patterns(float *out, uint32_t rows, size_t stride)
{
    for (uint32_t row = 0; row < rows; row++)
        fill_pattern(out + row * stride, stride * sizeof *out);
}

/* Every row as the definition has it alone; nothing between rows is touched. */
static void compare(const struct tern_kernels *k, const struct attend_shape *s,
                    const struct tern_attention *a, const struct tern_queries *queries,
                    uint32_t failed)
{
    const size_t n = (size_t)s->heads * s->head_size;
    float *want = guarded_alloc((n + GUARD) * sizeof *want, 0);
    uint8_t *scratch = guarded_alloc(TERN_KERNEL_SCRATCH, 0);
    memset(scratch, 0xff, TERN_KERNEL_SCRATCH); /* no numbers */
    assert_int_equal(k->attend(a, queries, scratch), failed);
    guarded_free(scratch);
    for (uint32_t row = 0; row < s->rows; row++) {
        const float *got = queries->out + row * queries->out_stride;
        struct tern_attention of_row = *a;
        of_row.position = a->position + row;
        fill_pattern(want, (n + GUARD) * sizeof *want);
        if ((failed >> row & 1) != 0)
            continue;
        assert_true(tern_attend(&of_row, queries->q + row * queries->q_stride, s->heads, want));
        for (size_t i = 0; i < n + GUARD; i++)
            if (word_at(got + i) != word_at(want + i))
                fail_msg("%s attend %s head size %u, %u heads, row %u of %u, position %u, window "
                         "%u, %s: element %zu is %a, not %a",
                         k->name, s->type == TERN_KV_F16 ? "f16" : "f32", s->head_size, s->heads,
                         row, s->rows, of_row.position, s->window, kind_names[s->kind], i,
                         (double)got[i], (double)want[i]);
    }
    guarded_free(want);
}

static void check_attend(const struct tern_kernels *k, const struct attend_shape *s)
{
    struct cache c = make_cache(s);
    const struct tern_attention a = {.cache = c.data,
                                     .pages = c.pages,
                                     .kv = &c.kv,
                                     .kv_layer = 1,
                                     .kv_head = s->kv_heads - 1,
                                     .position = s->position + 1 - s->rows,
                                     .window = s->window,
                                     .scale = 0.125f};
    store_vectors(&a, s);
    const size_t n = (size_t)s->heads * s->head_size, q_stride = n + 5, out_stride = n + GUARD;
    float *q = guarded_alloc((s->rows * q_stride - 5) * sizeof *q, 0);
    float *out = guarded_alloc(s->rows * out_stride * sizeof *out, 0);
    const struct tern_queries queries = {.q = q,
                                         .out = out,
                                         .q_stride = q_stride,
                                         .out_stride = out_stride,
                                         .rows = s->rows,
                                         .heads = s->heads};
    fill_floats(q, s->rows * q_stride - 5, s->kind);
    fill_row_patterns(out, s->rows, out_stride);
    compare(k, s, &a, &queries, 0);
    const uint32_t bad = random_below(s->rows);
    q[bad * q_stride + random_below((uint32_t)n)] = tern_float(0x7f800000u);
    fill_row_patterns(out, s->rows, out_stride);
    compare(k, s, &a, &queries, 1u << bad);
    guarded_free(q);
    guarded_free(out);
    guarded_free(c.data);
}

static uint32_t random_rows(uint32_t heads)
{
    const uint32_t most = TERN_MAX_QUERIES / heads;
    return 1 + random_below(most < TERN_MAX_SPAN ? most : TERN_MAX_SPAN);
}

static void check_shapes(const struct tern_kernels *k)
{
    static const uint32_t sizes[] = {16, 24, 40, 64, 80, 96, 128, 200, 256, 18};
    static const enum check_kind kinds[] = {KIND_RANDOM, KIND_TINY, KIND_SPARSE, KIND_SMALLEST};
    for (uint32_t i = 0; i < 240; i++) {
        const uint32_t heads = 1 + random_below(9);
        const uint32_t rows = i % 3 == 0 ? 1 : random_rows(heads);
        const struct attend_shape s = {
            .type = i % 2 == 0 ? TERN_KV_F16 : TERN_KV_F32,
            .head_size = sizes[i % (sizeof sizes / sizeof sizes[0])],
            .kv_heads = 1 + random_below(3),
            .heads = heads,
            .rows = rows,
            .position = rows - 1 + random_below(i % 4 == 0 ? 40 : POSITIONS - rows),
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
