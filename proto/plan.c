#include "proto/plan.h"

#include "proto/board.h"
#include <string.h>

enum { MAX_LABEL_BYTES = 1 << 20 };

bool tern_plan_bytes(uint32_t instructions, uint64_t label_bytes, uint64_t *bytes)
{
    if (instructions == 0 || instructions > TERN_MAX_INSTRUCTIONS || label_bytes > MAX_LABEL_BYTES)
        return false;
    *bytes =
        sizeof(struct tern_plan) + instructions * sizeof(struct tern_instruction) + label_bytes;
    return true;
}

static const char *labels(const struct tern_plan *plan)
{
    return (const char *)(tern_plan_instructions(plan) + plan->instructions);
}

const char *tern_plan_label(const struct tern_plan *plan, uint32_t index)
{
    const char *label = labels(plan);
    if (index >= plan->label_count)
        return "?";
    for (; index > 0; index--)
        label += strlen(label) + 1;
    return label;
}

static bool labels_are_terminated(const struct tern_plan *plan)
{
    const char *text = labels(plan);
    uint64_t count = 0;
    for (uint64_t i = 0; i < plan->label_bytes; i++)
        count += text[i] == '\0';
    return count == plan->label_count &&
           (plan->label_bytes == 0 || text[plan->label_bytes - 1] == '\0');
}

enum tern_status tern_plan_check(const struct tern_segment *segment, struct tern_error *error)
{
    const struct tern_plan *plan = (const struct tern_plan *)(const void *)segment->data;
    uint64_t bytes;
    if (segment->size < sizeof *plan || plan->version != TERN_PLAN_VERSION)
        return tern_fail(error, TERN_FAILED, "the plan is not one of this version");
    if (!tern_plan_bytes(plan->instructions, plan->label_bytes, &bytes) || bytes > segment->size)
        return tern_fail(error, TERN_FAILED, "the plan's counts and its size disagree");
    if (!labels_are_terminated(plan))
        return tern_fail(error, TERN_FAILED, "the plan's labels are malformed");
    if (plan->stages == 0 || plan->stages > TERN_MAX_STAGES)
        return tern_fail(error, TERN_FAILED, "the plan has %u stages; 1 to %d are allowed",
                         plan->stages, TERN_MAX_STAGES);
    return TERN_OK;
}

const char *tern_op_name(uint32_t op)
{
    static const char *const names[TERN_OPS] = {
        [TERN_OP_NONE] = "none",
        [TERN_OP_EMBED] = "embed",
        [TERN_OP_NORM] = "norm",
        [TERN_OP_QUANTIZE] = "quantize",
        [TERN_OP_MATMUL] = "matmul",
        [TERN_OP_BIAS] = "bias",
        [TERN_OP_ROPE] = "rope",
        [TERN_OP_KV_WRITE] = "kv-write",
        [TERN_OP_ATTENTION] = "attention",
        [TERN_OP_GLU] = "glu",
        [TERN_OP_ADD] = "add",
        [TERN_OP_GATHER] = "gather",
        [TERN_OP_ARGMAX] = "argmax",
        [TERN_OP_ADD_NORM] = "add+norm",
        [TERN_OP_NORM_QUANTIZE] = "norm+quantize",
        [TERN_OP_MATMUL_GLU] = "matmul+glu",
        [TERN_OP_QKV_ROPE_WRITE] = "rope+kv-write",
    };
    return op < TERN_OPS ? names[op] : "unknown";
}
