/*
 * A plan: the flat list of instructions that a model was compiled to, as compute workers run it.
 * The coordinator writes it into a segment of its own, seals it and sends it. A worker checks every
 * operand against its segments once, when it binds the plan (turns instructions into calls); the
 * step loop checks nothing.
 *
 * Rows: an instruction works on all rows of the step, or (TERN_ON_OUTPUTS) on its output rows only.
 * Buffers are arrays of plan->max_rows (or max_outputs) rows at `stride` bytes, in the activations
 * segment. Every row of a buffer starts 64-byte aligned.
 */
#ifndef TERN_PROTO_PLAN_H
#define TERN_PROTO_PLAN_H

#include "proto/segment.h"
#include "proto/tensor.h"

enum { TERN_PLAN_VERSION = 1, TERN_MAX_INSTRUCTIONS = 16384, TERN_OP_WEIGHTS = 3 };

enum tern_op {
    TERN_OP_NONE = 0,
    /* The graph's own operations; each writes one value. in/out are activations. */
    TERN_OP_EMBED,     /* out[0] = row `token` of weight[0], times `factor` */
    TERN_OP_NORM,      /* out[0] = RMSNorm(in[0]) * weight[0]; `groups` vectors a row (heads) */
    TERN_OP_QUANTIZE,  /* out[0] = in[0] in the form `act` (quantize.h) */
    TERN_OP_MATMUL,    /* out[i] = weight[i] x in[0], i < weights; then + bias[i] if it has one */
    TERN_OP_BIAS,      /* out[0] = in[0] + weight[0] (F32, one row) */
    TERN_OP_ROPE,      /* out[0] = in[0] rotated; `groups` heads of head_size, `rope` */
    TERN_OP_KV_WRITE,  /* keys in[0], values in[1] to the cache at `kv_layer` */
    TERN_OP_ATTENTION, /* out[0] = attention(queries in[0]) over the cache at `kv_layer` */
    TERN_OP_GLU,       /* out[0] = activation(in[0]) * in[1] */
    TERN_OP_ADD,       /* out[0] = in[0] + in[1] */
    TERN_OP_GATHER,    /* out[0] (output rows) = the output rows of in[0] (all rows) */
    TERN_OP_ARGMAX,    /* first largest of in[0] for output rows that ask for it -> board */
    /* Fused: the same values by the same operations, fewer passes over memory. */
    TERN_OP_ADD_NORM, /* out[0] = in[0] + in[1]; out[1] = NORM(out[0]), as `act` if act.block */
    TERN_OP_NORM_QUANTIZE, /* out[0] = QUANTIZE(NORM(in[0])) */
    TERN_OP_MATMUL_GLU,    /* out[0] = GLU(weight[0] x in[0], weight[1] x in[0]); quantized after by
                              an instruction of its own */
    TERN_OP_QKV_ROPE_WRITE, /* q in[0], k in[1], v in[2]: [NORM q with weight[0], k with weight[1]
                           if present], ROPE both, out[0] = rotated q, KV_WRITE k and v */
    TERN_OPS
};

/* Where an operand lies. Absent: segment = TERN_SEGMENT_NONE. */
struct tern_operand {
    uint32_t segment; /* TERN_SEGMENT_ACTIVATIONS or TERN_SEGMENT_TABLES */
    uint32_t stride;  /* bytes from row to row */
    uint64_t offset;  /* of row 0 in the segment's data */
};

struct tern_weight {
    uint32_t type;    /* enum tern_type; absent: rows = 0 */
    uint32_t rows;    /* outputs; 1 for gains and biases */
    uint32_t columns; /* inputs */
    uint32_t tensor;  /* index in the catalog, for messages */
    uint64_t offset;  /* in the weights segment's data */
};

enum tern_activation { TERN_SILU = 1, TERN_GELU = 2 };
enum tern_rope_pairs { TERN_ROPE_INTERLEAVED = 1, TERN_ROPE_HALVES = 2 };
enum tern_kv_type { TERN_KV_F16 = 1, TERN_KV_F32 = 2 };
enum tern_instruction_flags { TERN_ON_OUTPUTS = 1 };

struct tern_instruction {
    uint16_t op;      /* enum tern_op */
    uint16_t stage;   /* which stage it belongs to */
    uint16_t layer;   /* 0xffff: none (embedding, head) */
    uint16_t flags;   /* enum tern_instruction_flags */
    uint32_t label;   /* index of its name in the plan's labels, e.g. "ffn gate+up" */
    uint32_t weights; /* how many of weight[] count, for MATMUL */
    struct tern_operand in[3], out[3];
    struct tern_weight weight[TERN_OP_WEIGHTS], bias[TERN_OP_WEIGHTS];
    struct tern_act act; /* form of in[0] (MATMUL*) or of the quantized output */
    uint32_t columns;    /* values of a row of in[0] (of a group, where groups > 1) */
    uint32_t groups;     /* vectors in a row: heads for NORM and ROPE; else 1 */
    uint32_t heads, kv_heads, head_size;
    uint32_t rope_pairs, rope_size; /* enum tern_rope_pairs; rotated dimensions */
    struct tern_operand rope;       /* table: row = position, rope_size/2 x {cos, sin} float */
    uint32_t kv_layer;              /* index of this layer in a page */
    uint32_t window;                /* sliding window in positions, 0 = all */
    uint32_t activation;            /* enum tern_activation */
    float epsilon, scale, factor;   /* norm; attention; embedding (1 = none) */
};

/* The cache: a page holds TERN_PAGE_POSITIONS positions of every layer; layer l starts at
 * layer_offset(l) = l * page_layer_bytes: first keys [kv_head][position][head_size], then values in
 * the same order, elements of kv_type. Page p starts at p * page_bytes in the KV segment's data.
 * All layers of the families here have the same kv_heads and head_size. */
struct tern_kv_layout {
    uint32_t type; /* enum tern_kv_type */
    uint32_t layers, kv_heads, head_size;
    uint64_t page_layer_bytes; /* 2 * kv_heads * TERN_PAGE_POSITIONS * head_size * element */
    uint64_t page_bytes;       /* layers * page_layer_bytes, rounded up to 4096 */
};

/* First in the plan segment's data; then instructions, then labels (NUL-terminated, one after the
 * other, label_bytes in all). */
struct tern_plan {
    uint32_t version;
    uint32_t instructions, stages;
    uint32_t max_rows, max_outputs;
    uint32_t vocabulary; /* logits of an output row */
    uint32_t context;    /* positions */
    uint32_t label_count;
    uint64_t label_bytes;
    uint64_t activation_bytes;  /* data size of the activations segment */
    struct tern_operand logits; /* float32 [output row][vocabulary] */
    struct tern_kv_layout kv;
};

static inline const struct tern_instruction *tern_plan_instructions(const struct tern_plan *plan)
{
    return (const struct tern_instruction *)(const void *)(plan + 1);
}

/* Bytes of a plan with these counts; false on overflow or above the limits. */
bool tern_plan_bytes(uint32_t instructions, uint64_t label_bytes, uint64_t *bytes);

/* The i-th label or "?" if there is none; `plan` must have passed tern_plan_check. */
const char *tern_plan_label(const struct tern_plan *plan, uint32_t index);

/* Checks what a reader relies on before it looks at instructions: version, counts against the
 * segment's size, labels terminated. Operands are checked when a worker binds them. */
enum tern_status tern_plan_check(const struct tern_segment *segment, struct tern_error *error);

/* "matmul", "attention", ... */
const char *tern_op_name(uint32_t op);

#endif
