/* Matrix products of every tier, type and precision against the scalar tier, bit for bit. */
#include "tests/kernels/check.h"

static const uint32_t types[] = {TERN_F32,  TERN_F16,  TERN_BF16, TERN_Q8_0, TERN_Q4_0, TERN_Q4_1,
                                 TERN_Q5_0, TERN_Q5_1, TERN_Q4_K, TERN_Q5_K, TERN_Q6_K};
enum { TYPES = sizeof types / sizeof types[0], SLACK = 4096, GUARD = 16 };

struct shape {
    uint32_t type, rows, tokens, columns, begin, end;
    enum tern_precision precision;
    enum check_kind weights, x;
    bool bias;
};

/* A product's operands, and the area its output lies in. */
struct problem {
    struct tern_matmul m;
    uint8_t *weights, *x, *out, *scratch;
    float *bias;
    _Atomic uint32_t *fault;
    size_t out_bytes;
};

static struct problem make_problem(const struct shape *s)
{
    struct problem p = {0};
    uint64_t row_bytes = 0;
    assert_true(tern_row_bytes(s->type, s->columns, &row_bytes));
    const struct tern_act act = tern_type_act(s->type, s->precision);
    const size_t x_stride = act.block == 0 ? (s->columns * sizeof(float) + 63) / 64 * 64
                                           : tern_act_layout(act, s->columns).stride;
    const size_t out_stride = (s->rows + GUARD) * sizeof(float);
    p.out_bytes = s->tokens * out_stride + GUARD * sizeof(float);
    p.weights = guarded_alloc(s->rows * row_bytes, SLACK);
    p.x = guarded_alloc(s->tokens * x_stride, 0);
    p.out = guarded_alloc(p.out_bytes, 0);
    p.bias = guarded_alloc(s->rows * sizeof(float), 0);
    p.scratch = guarded_alloc(TERN_KERNEL_SCRATCH, 0);
    p.fault = calloc(s->tokens, sizeof *p.fault);
    for (uint32_t r = 0; r < s->rows; r++)
        fill_weights(s->type, p.weights + r * row_bytes, s->columns, s->weights);
    for (uint32_t t = 0; t < s->tokens; t++)
        fill_act(act, s->columns, p.x + t * x_stride, s->x);
    fill_floats(p.bias, s->rows, KIND_RANDOM);
    p.m = (struct tern_matmul){
        .weights = p.weights,
        .row_bytes = row_bytes,
        .columns = s->columns,
        .act = act,
        .tokens = s->tokens,
        .x = p.x,
        .x_stride = x_stride,
        .out = (float *)(void *)p.out + GUARD,
        .out_stride = out_stride,
        .bias = s->bias ? p.bias : NULL,
        .fault = {p.fault, 77},
    };
    return p;
}

static void free_problem(struct problem *p)
{
    guarded_free(p->weights);
    guarded_free(p->x);
    guarded_free(p->out);
    guarded_free(p->bias);
    guarded_free(p->scratch);
    free((void *)p->fault);
}

static void run(const struct tern_kernels *k, const struct shape *s, struct problem *p)
{
    fill_pattern(p->out, p->out_bytes);
    for (uint32_t t = 0; t < s->tokens; t++)
        p->fault[t] = 0;
    k->matmul[s->type](&p->m, s->begin, s->end, p->scratch);
}

static void check_shape(const struct tern_kernels *k, const struct shape *s)
{
    struct problem p = make_problem(s);
    run(tern_kernels(TERN_SCALAR), s, &p);
    uint8_t *want = malloc(p.out_bytes);
    uint32_t *want_fault = malloc(s->tokens * sizeof *want_fault);
    memcpy(want, p.out, p.out_bytes);
    for (uint32_t t = 0; t < s->tokens; t++)
        want_fault[t] = p.fault[t];
    run(k, s, &p);
    for (size_t i = 0; i < p.out_bytes; i += 4) {
        const uint32_t got = word_at(p.out + i);
        if (got == word_at(want + i))
            continue;
        const long at = (long)(i / 4) - GUARD;
        const long width = (long)(s->rows + GUARD);
        fail_msg("%s %s a%d %s x %s: rows %u (%u..%u) tokens %u columns %u bias %d: token %ld row "
                 "%ld is %08x (%a), not %08x (%a)",
                 k->name, tern_type_info(s->type)->name, s->precision, kind_names[s->weights],
                 kind_names[s->x], s->rows, s->begin, s->end, s->tokens, s->columns, s->bias,
                 at / width, at % width, got, (double)tern_float(got), word_at(want + i),
                 (double)tern_float(word_at(want + i)));
    }
    for (uint32_t t = 0; t < s->tokens; t++)
        assert_int_equal(p.fault[t], want_fault[t]);
    free(want);
    free(want_fault);
    free_problem(&p);
}

static uint32_t random_columns(uint32_t type, uint32_t limit)
{
    const struct tern_type_info *info = tern_type_info(type);
    const uint32_t blocks = limit / info->block;
    return info->block * (1 + random_below(blocks == 0 ? 1 : blocks));
}

static struct shape random_shape(uint32_t type, enum tern_precision precision)
{
    const uint32_t rows = 1 + random_below(70);
    const uint32_t begin = random_below(4) == 0 ? random_below(rows) : 0;
    const uint32_t end = random_below(4) == 0 ? begin + 1 + random_below(rows - begin) : rows;
    return (struct shape){.type = type,
                          .precision = precision,
                          .rows = rows,
                          .begin = begin,
                          .end = end,
                          .tokens = 1 + random_below(random_below(2) == 0 ? 4 : 20),
                          .columns = random_columns(type, 600),
                          .weights = (enum check_kind)random_below(KINDS),
                          .x = (enum check_kind)random_below(KINDS),
                          .bias = random_below(3) == 0};
}

/* Every pair of kinds, in a shape that takes the way for few tokens and one that takes panels. */
static void check_kinds(const struct tern_kernels *k, uint32_t type, enum tern_precision precision)
{
    for (unsigned pair = 0; pair < KINDS * KINDS; pair++) {
        struct shape s = {.type = type,
                          .precision = precision,
                          .rows = 33,
                          .end = 33,
                          .tokens = 1,
                          .columns = 768,
                          .weights = (enum check_kind)(pair % KINDS),
                          .x = (enum check_kind)(pair / KINDS)};
        check_shape(k, &s);
        s.tokens = 7;
        check_shape(k, &s);
    }
}

static void check_products(const struct tern_kernels *k)
{
    for (unsigned i = 0; i < TYPES; i++) {
        for (int precision = TERN_FAST; precision <= TERN_HIGH; precision += TERN_FAST) {
            check_kinds(k, types[i], (enum tern_precision)precision);
            for (int n = 0; n < 60; n++) {
                const struct shape s = random_shape(types[i], (enum tern_precision)precision);
                check_shape(k, &s);
            }
        }
    }
}

static void test_products(void **state)
{
    (void)state;
    for_each_tier(check_products);
}

/* The demo model's widths, and rows longer than a panel's stretch of columns. */
static void check_long_rows(const struct tern_kernels *k)
{
    static const uint32_t columns[] = {576, 1536, 2304};
    for (unsigned i = 0; i < TYPES; i++) {
        for (unsigned c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            for (uint32_t tokens = 1; tokens < 80; tokens += 69) {
                struct shape s = {.type = types[i],
                                  .precision = c == 1 ? TERN_HIGH : TERN_FAST,
                                  .rows = 70,
                                  .end = 70,
                                  .tokens = tokens,
                                  .columns = columns[c],
                                  .bias = c == 2};
                if (s.columns % tern_type_info(s.type)->block != 0)
                    s.columns = 512;
                check_shape(k, &s);
            }
        }
    }
}

static void test_long_rows(void **state)
{
    (void)state;
    for_each_tier(check_long_rows);
}

/* A scale of infinity or NaN in one row must set the fault of every token, and nothing else. */
static void check_faults(const struct tern_kernels *k)
{
    for (unsigned i = 0; i < TYPES; i++) {
        for (uint32_t tokens = 1; tokens < 10; tokens += 8) {
            const struct shape s = {.type = types[i],
                                    .rows = 40,
                                    .end = 40,
                                    .tokens = tokens,
                                    .columns = 256,
                                    .precision = TERN_FAST};
            struct problem p = make_problem(&s);
            const size_t at = s.type == TERN_Q6_K ? 208 : s.type == TERN_F32 ? 2 : 0;
            const uint16_t infinite = s.type == TERN_F32 || s.type == TERN_BF16 ? 0x7f80 : 0x7c00;
            memcpy(p.weights + 37 * p.m.row_bytes + at, &infinite, sizeof infinite);
            p.fault[0] = 5;
            k->matmul[s.type](&p.m, 0, 36, p.scratch);
            for (uint32_t t = 1; t < tokens; t++)
                assert_int_equal(p.fault[t], 0);
            k->matmul[s.type](&p.m, 36, 40, p.scratch);
            assert_int_equal(p.fault[0], 5);
            for (uint32_t t = 1; t < tokens; t++)
                assert_int_equal(p.fault[t], 77);
            free_problem(&p);
        }
    }
}

static void test_faults(void **state)
{
    (void)state;
    check_faults(tern_kernels(TERN_SCALAR));
    for_each_tier(check_faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
