/*
 * The scalar tier: the definition in proto/numerics in the shape of the kernel table. Any processor
 * runs it, and every other tier is tested against it.
 */
#include "proto/numerics/product.h"
#include "proto/numerics/quantize.h"
#include "proto/numerics/value.h"
#include "workers/compute-cpu/kernels/tiers.h"

static float *output(const struct tern_matmul *m, uint32_t token)
{
    return (float *)(void *)((char *)(void *)m->out + token * m->out_stride);
}

static void multiply(uint32_t type, const struct tern_matmul *m, uint32_t begin, uint32_t end)
{
    for (uint32_t token = 0; token < m->tokens; token++) {
        const uint8_t *x = m->x + token * m->x_stride;
        float *out = output(m, token);
        bool finite = true;
        for (uint32_t row = begin; row < end; row++) {
            const uint8_t *weights = m->weights + row * m->row_bytes;
            float y = tern_product(type, weights, m->columns, m->act, x);
            if (m->bias != NULL)
                y = tern_value(y + m->bias[row]);
            finite = finite && tern_finite(y);
            out[row] = y;
        }
        if (!finite)
            tern_fault_set(&m->fault, token);
    }
}

#define SCALAR_PRODUCT(type)                                                                       \
    static void multiply_##type(const struct tern_matmul *m, uint32_t begin, uint32_t end,         \
                                uint8_t *scratch)                                                  \
    {                                                                                              \
        (void)scratch;                                                                             \
        multiply(TERN_##type, m, begin, end);                                                      \
    }
SCALAR_PRODUCT(F32)
SCALAR_PRODUCT(F16)
SCALAR_PRODUCT(BF16)
SCALAR_PRODUCT(Q8_0)
SCALAR_PRODUCT(Q4_0)
SCALAR_PRODUCT(Q4_1)
SCALAR_PRODUCT(Q5_0)
SCALAR_PRODUCT(Q5_1)
SCALAR_PRODUCT(Q4_K)
SCALAR_PRODUCT(Q5_K)
SCALAR_PRODUCT(Q6_K)

static uint32_t attend(const struct tern_attention *a, const struct tern_queries *queries,
                       uint8_t *scratch)
{
    (void)scratch;
    uint32_t failed = 0;
    for (uint32_t row = 0; row < queries->rows; row++) {
        struct tern_attention of_row = *a;
        of_row.position = a->position + row;
        if (!tern_attend(&of_row, queries->q + row * queries->q_stride, queries->heads,
                         queries->out + row * queries->out_stride))
            failed |= 1u << row;
    }
    return failed;
}

const struct tern_kernels tern_kernels_scalar = {
    .tier = TERN_SCALAR,
    .name = "scalar",
    .matmul = {[TERN_F32] = multiply_F32,
               [TERN_F16] = multiply_F16,
               [TERN_BF16] = multiply_BF16,
               [TERN_Q8_0] = multiply_Q8_0,
               [TERN_Q4_0] = multiply_Q4_0,
               [TERN_Q4_1] = multiply_Q4_1,
               [TERN_Q5_0] = multiply_Q5_0,
               [TERN_Q5_1] = multiply_Q5_1,
               [TERN_Q4_K] = multiply_Q4_K,
               [TERN_Q5_K] = multiply_Q5_K,
               [TERN_Q6_K] = multiply_Q6_K},
    .row_chunk = 16,
    .quantize = tern_quantize_row,
    .widen = tern_widen_row,
    .norm = tern_norm,
    .add = tern_add_rows,
    .glu = tern_glu,
    .argmax = tern_argmax,
    .rope = tern_rope,
    .kv_store = tern_kv_store,
    .attend = attend,
};
