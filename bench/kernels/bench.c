/*
 * How fast each tier's products are, next to a plain read of memory in the same run: decode (one
 * token) in GB/s of weights and as a fraction of the read, prompts in GMAC/s, and a few tokens
 * together in times of the one token's time. One thread.
 *
 *   bench-kernels [TIER] [TYPE] [a8|a16]
 */
#include "proto/numerics/quantize.h"
#include "proto/numerics/value.h"
#include "workers/compute-cpu/kernels/kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COLUMNS = 1536, PROMPT = 128, MEASURES = 9 };
static const size_t weight_bytes = (size_t)100 << 20;

/* The thread's own time, so that a busy machine disturbs less. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef uint64_t words __attribute__((vector_size(16)));

/* Reads every word and does next to nothing with it: what memory can deliver to one thread. */
static double read_speed(const uint8_t *p, size_t bytes)
{
    words sum[4] = {0};
    const double begin = seconds();
    for (size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(p + i + 8192);
        const words *line = (const words *)(const void *)(p + i);
        for (size_t j = 0; j < 4; j++)
            sum[j] ^= line[j];
    }
    const double took = seconds() - begin;
    volatile uint64_t sink = (sum[0] ^ sum[1] ^ sum[2] ^ sum[3])[0];
    (void)sink;
    return (double)bytes / took * 1e-9;
}

struct bench {
    struct tern_matmul m;
    uint32_t type, rows;
    float *out;
};

static void fill_weights(uint32_t type, uint8_t *p, size_t bytes)
{
    const struct tern_type_info *info = tern_type_info(type);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        p[i] = (uint8_t)(state >> 56);
    }
    /* Floats of ordinary size; and finite scales: every half's exponent loses its top bit. */
    const size_t element = type == TERN_F32 ? 4 : 2;
    for (size_t i = element; i <= bytes && (type == TERN_F32 || type == TERN_BF16); i += element)
        p[i - 1] = (p[i - 1] & 0x80) | 0x3e;
    const size_t at = type == TERN_Q6_K ? 209 : 1;
    for (size_t i = 0; i + info->bytes <= bytes; i += info->bytes) {
        p[i + at] &= 0xbf;
        if (info->bytes > 3 && type != TERN_Q6_K)
            p[i + 3] &= 0xbf;
    }
}

static struct bench make_bench(uint32_t type, enum tern_precision precision, uint8_t *weights)
{
    struct bench b = {.type = type};
    const struct tern_act act = tern_type_act(type, precision);
    uint64_t row_bytes = 0;
    if (!tern_row_bytes(type, COLUMNS, &row_bytes))
        exit(1);
    b.rows = (uint32_t)(weight_bytes / row_bytes) / 64 * 64;
    fill_weights(type, weights, weight_bytes);
    const size_t x_stride =
        act.block == 0 ? COLUMNS * sizeof(float) : tern_act_layout(act, COLUMNS).stride;
    uint8_t *x = aligned_alloc(64, PROMPT * x_stride);
    float row[COLUMNS];
    for (uint32_t t = 0; t < PROMPT; t++) {
        for (uint32_t k = 0; k < COLUMNS; k++)
            row[k] = (float)((k * 37 + t * 11) % 101) - 50.0f;
        if (act.block == 0)
            memcpy(x + t * x_stride, row, sizeof row);
        else
            tern_quantize_row(row, COLUMNS, act, x + t * x_stride);
    }
    b.out = aligned_alloc(64, (size_t)PROMPT * b.rows * sizeof(float));
    b.m = (struct tern_matmul){.weights = weights,
                               .row_bytes = row_bytes,
                               .columns = COLUMNS,
                               .act = act,
                               .x = x,
                               .x_stride = x_stride,
                               .out = b.out,
                               .out_stride = b.rows * sizeof(float)};
    return b;
}

static double best_time(const struct bench *b, tern_matmul_fn multiply, uint32_t tokens,
                        uint32_t rows, uint8_t *scratch)
{
    static _Atomic uint32_t fault[PROMPT];
    struct tern_matmul m = b->m;
    m.tokens = tokens;
    m.fault.word = fault;
    double best = 1e9;
    for (int i = 0; i < MEASURES; i++) {
        const double begin = seconds();
        for (uint32_t row = 0; row < rows; row += 64)
            multiply(&m, row, row + 64, scratch);
        const double took = seconds() - begin;
        best = took < best ? took : best;
    }
    return best;
}

static void measure(const struct tern_kernels *k, uint32_t type, enum tern_precision precision,
                    uint8_t *weights, uint8_t *scratch)
{
    const struct bench b = make_bench(type, precision, weights);
    const uint32_t share = k->tier == TERN_SCALAR ? 8 : 1;
    const uint32_t rows = b.rows / share / 64 * 64;
    double read = 0;
    for (int i = 0; i < MEASURES; i++) {
        const double r = read_speed(weights, weight_bytes);
        read = r > read ? r : read;
    }
    const double decode = best_time(&b, k->matmul[type], 1, rows, scratch);
    const double gbs = (double)(rows * b.m.row_bytes) / decode * 1e-9;
    const uint32_t few = k->tier == TERN_SCALAR ? 64 : 1024;
    const double prompt = best_time(&b, k->matmul[type], PROMPT, few, scratch);
    printf("%-10s %-5s %-4s read %5.1f GB/s  decode %5.1f GB/s (%.2f)  prompt %6.1f GMAC/s\n",
           k->name, tern_type_info(type)->name,
           b.m.act.block == 0       ? "f32"
           : precision == TERN_FAST ? "a8"
                                    : "a16",
           read, gbs, gbs / read, (double)few * COLUMNS * PROMPT / prompt * 1e-9);
    for (uint32_t tokens = 2; tokens <= 16; tokens += tokens < 8 ? 1 : 4)
        printf("%s%u tokens x%.2f", tokens == 2 ? "           " : "  ", tokens,
               best_time(&b, k->matmul[type], tokens, rows / 4 / 64 * 64, scratch) / decode * 4);
    printf("\n");
    fflush(stdout);
    free(b.out);
    free((void *)(uintptr_t)b.m.x);
}

/* ---- The demo model's matrices (SmolLM2 135M), one token, one thread ---- */

struct matrix {
    uint32_t type, rows, columns;
};
static const struct matrix layer[] = {
    {TERN_Q4_1, 576, 576},  {TERN_Q4_1, 192, 576},  {TERN_Q4_1, 192, 576},  {TERN_Q4_1, 576, 576},
    {TERN_Q4_1, 1536, 576}, {TERN_Q4_1, 1536, 576}, {TERN_Q4_1, 576, 1536},
};
static const struct matrix head = {TERN_Q8_0, 49152, 576};
enum { LAYERS = 30 };

static size_t multiply_matrix(const struct tern_kernels *k, const struct matrix *matrix,
                              const struct tern_matmul *like, const float *row,
                              const uint8_t *weights, uint8_t *scratch)
{
    struct tern_matmul m = *like;
    if (!tern_row_bytes(matrix->type, matrix->columns, &m.row_bytes))
        exit(1);
    m.weights = weights;
    m.columns = matrix->columns;
    m.act = tern_type_act(matrix->type, TERN_FAST);
    k->quantize(row, m.columns, m.act, (uint8_t *)(uintptr_t)m.x);
    for (uint32_t begin = 0; begin < matrix->rows; begin += k->row_chunk)
        k->matmul[matrix->type](&m, begin, begin + k->row_chunk, scratch);
    return matrix->rows * m.row_bytes;
}

static void measure_demo(const struct tern_kernels *k, uint8_t *weights, uint8_t *scratch)
{
    static _Atomic uint32_t fault[1];
    const struct tern_act act = tern_type_act(TERN_Q4_1, TERN_FAST);
    uint8_t *x = aligned_alloc(64, tern_act_layout(act, 1536).stride);
    float row[1536];
    float *out = aligned_alloc(64, head.rows * sizeof(float));
    for (int i = 0; i < 1536; i++)
        row[i] = (float)(i % 61) - 30.0f;
    memset(weights, 17, weight_bytes);
    const struct tern_matmul like = {.tokens = 1, .x = x, .out = out, .fault = {fault, 1}};
    double best = 1e9;
    size_t bytes = 0;
    for (int i = 0; i < MEASURES; i++) {
        bytes = 0;
        const double begin = seconds();
        for (int l = 0; l < LAYERS; l++)
            for (size_t j = 0; j < sizeof layer / sizeof layer[0]; j++)
                bytes += multiply_matrix(k, &layer[j], &like, row, weights + bytes, scratch);
        bytes += multiply_matrix(k, &head, &like, row, weights + bytes, scratch);
        const double took = seconds() - begin;
        best = took < best ? took : best;
    }
    printf("%-10s demo model's products: %.2f ms a token, %.1f GB/s\n", k->name, best * 1e3,
           (double)bytes / best * 1e-9);
    free(x);
    free(out);
}

static const uint32_t types[] = {TERN_Q8_0, TERN_Q4_0, TERN_Q4_1, TERN_Q5_0, TERN_Q5_1, TERN_Q4_K,
                                 TERN_Q5_K, TERN_Q6_K, TERN_F16,  TERN_BF16, TERN_F32};

int main(int argc, char **argv)
{
    const char *only_type = argc > 2 ? argv[2] : NULL;
    const char *only_act = argc > 3 ? argv[3] : NULL;
    uint8_t *weights = aligned_alloc(4096, weight_bytes + 16384);
    uint8_t *scratch = aligned_alloc(64, TERN_KERNEL_SCRATCH);
    memset(weights, 0, weight_bytes + 16384);
    for (unsigned tier = 0; tier < TERN_TIERS; tier++) {
        const struct tern_kernels *k = tern_kernels((enum tern_tier)tier);
        if (k == NULL || (argc > 1 && strcmp(argv[1], k->name) != 0))
            continue;
        measure_demo(k, weights, scratch);
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            if (only_type != NULL && strcmp(only_type, tern_type_info(types[i])->name) != 0)
                continue;
            for (int p = TERN_FAST; p <= TERN_HIGH; p += TERN_FAST) {
                if (only_act != NULL && strcmp(only_act, p == TERN_FAST ? "a8" : "a16") != 0)
                    continue;
                if (p == TERN_HIGH && tern_type_info(types[i])->act_block == 0)
                    continue;
                measure(k, types[i], (enum tern_precision)p, weights, scratch);
            }
        }
    }
    free(weights);
    free(scratch);
    return 0;
}
