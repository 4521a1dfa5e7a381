/* RoPE tables: frequencies once, rows as they are needed. */
#include "coordinator/model/rope_tables.h"
#include "proto/numerics/layer.h"
#include "proto/numerics/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum tern_status no_memory(struct tern_error *error)
{
    return tern_fail(error, TERN_NO_MEMORY, "out of memory for the RoPE frequencies");
}

/* The file's own factors, one for each pair of dimensions. */
static enum tern_status read_factors(const struct tern_compiled *compiled,
                                     const struct tern_catalog *catalog,
                                     const struct tern_segment *weights, uint32_t index,
                                     uint32_t count, float *factors, struct tern_error *error)
{
    struct tern_tensor tensor;
    if (index >= tern_catalog_tensors(catalog))
        return tern_fail(error, TERN_FAILED, "the plan names tensor %u, which does not exist",
                         index);
    tern_catalog_tensor(catalog, index, &tensor);
    const uint64_t offset = compiled->weight_offsets[index];
    if (tensor.type != TERN_F32 || tensor.bytes != (uint64_t)count * sizeof *factors ||
        !tern_segment_holds(weights, offset, tensor.bytes))
        return tern_fail(error, TERN_BAD_MODEL, "tensor %.*s is not %u values of F32",
                         (int)tensor.name.length, tensor.name.bytes, count);
    memcpy(factors, weights->data + offset, tensor.bytes);
    for (uint32_t i = 0; i < count; i++)
        if (!tern_finite(factors[i]) || !(factors[i] > 0))
            return tern_fail(error, TERN_BAD_MODEL,
                             "tensor %.*s: factor %u is %g, not above 0; " TERN_REMEDY_CONVERT,
                             (int)tensor.name.length, tensor.name.bytes, i, (double)factors[i]);
    return TERN_OK;
}

static enum tern_status open_table(struct tern_rope_tables *rope,
                                   const struct tern_rope_table *table,
                                   const struct tern_compiled *compiled,
                                   const struct tern_catalog *catalog,
                                   const struct tern_segment *weights, struct tern_error *error)
{
    const uint32_t count = table->size / 2;
    double *frequency = malloc((count + 1) * sizeof *frequency);
    float *factors = malloc((count + 1) * sizeof *factors);
    enum tern_status status = TERN_OK;
    if (frequency == NULL || factors == NULL)
        status = no_memory(error);
    else if (table->factors_tensor >= 0)
        status = read_factors(compiled, catalog, weights, (uint32_t)table->factors_tensor, count,
                              factors, error);
    if (status == TERN_OK) {
        tern_rope_frequencies(table->base, table->size, table->factors_tensor >= 0 ? factors : NULL,
                              table->linear, frequency);
        rope->table[rope->tables].frequency = frequency;
        rope->table[rope->tables].count = count;
        rope->table[rope->tables].offset = table->offset;
        rope->table[rope->tables].stride = table->stride;
        rope->tables++;
    } else {
        free(frequency);
    }
    free(factors);
    return status;
}

enum tern_status tern_rope_tables_open(struct tern_rope_tables *rope,
                                       const struct tern_segment *segment,
                                       const struct tern_compiled *compiled,
                                       const struct tern_catalog *catalog,
                                       const struct tern_segment *weights, uint32_t context,
                                       struct tern_error *error)
{
    *rope = (struct tern_rope_tables){.segment = *segment, .context = context};
    for (uint32_t i = 0; i < compiled->tables; i++) {
        const struct tern_rope_table *table = &compiled->table[i];
        uint64_t bytes;
        if (table->stride < table->size / 2 * 2 * sizeof(float) ||
            !tern_mul(table->stride, context, &bytes) ||
            !tern_segment_holds(segment, table->offset, bytes))
            return tern_fail(error, TERN_FAILED, "RoPE table %u does not fit its segment", i);
        const enum tern_status status = open_table(rope, table, compiled, catalog, weights, error);
        if (status != TERN_OK)
            return status;
    }
    return TERN_OK;
}

void tern_rope_tables_close(struct tern_rope_tables *rope)
{
    for (uint32_t i = 0; i < rope->tables; i++)
        free(rope->table[i].frequency);
    tern_segment_unmap(&rope->segment);
    *rope = (struct tern_rope_tables){0};
}

void tern_rope_tables_reach(struct tern_rope_tables *rope, uint32_t positions)
{
    const uint32_t end = positions < rope->context ? positions : rope->context;
    for (; rope->filled < end; rope->filled++)
        for (uint32_t t = 0; t < rope->tables; t++) {
            uint8_t *row =
                rope->segment.data + rope->table[t].offset + rope->filled * rope->table[t].stride;
            tern_rope_row(rope->table[t].frequency, rope->table[t].count, rope->filled,
                          (float *)(void *)row);
        }
}
