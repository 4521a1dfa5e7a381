/*
 * Lowering: operations become instructions, values become places, names become labels. The last
 * pass; nothing is decided here.
 */
#include "coordinator/graph/passes.h"

#include <stdlib.h>
#include <string.h>

struct labels {
    char *bytes; /* NUL-terminated names, one after the other */
    size_t used, capacity;
    uint32_t count;
};

/* Index of the label, added if it is new; UINT32_MAX: out of memory. */
static uint32_t label_index(struct labels *labels, const char *label)
{
    uint32_t index = 0;
    for (size_t at = 0; at < labels->used; at += strlen(labels->bytes + at) + 1, index++)
        if (strcmp(labels->bytes + at, label) == 0)
            return index;
    const size_t size = strlen(label) + 1;
    if (labels->used + size > labels->capacity) {
        const size_t capacity = 2 * labels->capacity + 1024;
        char *bytes = realloc(labels->bytes, capacity);
        if (bytes == NULL)
            return UINT32_MAX;
        labels->bytes = bytes;
        labels->capacity = capacity;
    }
    memcpy(labels->bytes + labels->used, label, size);
    labels->used += size;
    return labels->count++;
}

static struct tern_operand place_of(const struct tern_memory_plan *memory, tern_ref value)
{
    if (value == 0)
        return (struct tern_operand){.segment = TERN_SEGMENT_NONE};
    return (struct tern_operand){.segment = TERN_SEGMENT_ACTIVATIONS,
                                 .stride = memory->stride[value],
                                 .offset = memory->offset[value]};
}

static struct tern_operand place_of_table(const struct tern_compiled *compiled, uint32_t table)
{
    if (table == TERN_NO_TABLE)
        return (struct tern_operand){.segment = TERN_SEGMENT_NONE};
    return (struct tern_operand){.segment = TERN_SEGMENT_TABLES,
                                 .stride = (uint32_t)compiled->table[table].stride,
                                 .offset = compiled->table[table].offset};
}

static void locate(struct tern_weight *weight, const struct tern_compiled *compiled)
{
    if (weight->rows != 0)
        weight->offset = compiled->weight_offsets[weight->tensor];
}

static struct tern_instruction lower(const struct tern_graph *graph,
                                     const struct tern_operation *op,
                                     const struct tern_memory_plan *memory,
                                     const struct tern_compiled *compiled)
{
    struct tern_instruction code = op->code;
    const tern_ref rows_of = op->out[0] != 0 ? op->out[0] : op->in[0];
    if (graph->values[rows_of].rows == TERN_OUTPUT_ROWS)
        code.flags |= TERN_ON_OUTPUTS;
    for (int k = 0; k < 3; k++) {
        code.in[k] = place_of(memory, op->in[k]);
        code.out[k] = place_of(memory, op->out[k]);
        locate(&code.weight[k], compiled);
        locate(&code.bias[k], compiled);
    }
    code.rope = place_of_table(compiled, op->rope_table);
    return code;
}

enum tern_status tern_lower(const struct tern_graph *graph, const struct tern_memory_plan *memory,
                            const struct tern_kv_layout *kv, uint32_t context,
                            struct tern_compiled *compiled, struct tern_error *error)
{
    const uint32_t count = graph->operation_count;
    struct labels labels = {0};
    struct tern_instruction *code = calloc(count, sizeof *code);
    bool fine = code != NULL;
    for (uint32_t i = 0; fine && i < count; i++) {
        code[i] = lower(graph, &graph->operations[i], memory, compiled);
        code[i].label = label_index(&labels, graph->operations[i].label);
        fine = code[i].label != UINT32_MAX;
    }
    uint64_t bytes = 0;
    fine = fine && tern_plan_bytes(count, labels.used, &bytes);
    struct tern_plan *plan = fine ? calloc(1, bytes) : NULL;
    if (plan != NULL) {
        *plan = (struct tern_plan){
            .version = TERN_PLAN_VERSION,
            .instructions = count,
            .stages = graph->stages,
            .max_rows = memory->max_rows,
            .max_outputs = memory->max_outputs,
            .vocabulary = compiled->hyper.vocabulary,
            .context = context,
            .label_count = labels.count,
            .label_bytes = labels.used,
            .activation_bytes = memory->bytes,
            .logits = place_of(memory, graph->logits),
            .kv = *kv,
        };
        memcpy(plan + 1, code, count * sizeof *code);
        memcpy((char *)(plan + 1) + count * sizeof *code, labels.bytes, labels.used);
        compiled->plan = plan;
        compiled->plan_bytes = bytes;
    }
    free(labels.bytes);
    free(code);
    return plan != NULL ? TERN_OK : tern_fail(error, TERN_NO_MEMORY, "no memory for the plan");
}
