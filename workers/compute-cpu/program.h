/*
 * What a plan becomes when it is bound: a program, a list of calls with pointers in place of
 * offsets and kernels in place of numbers. The step loop (exec.c) runs a program on a struct
 * tern_run; nothing in it allocates, checks or switches.
 */
#ifndef TERN_CPU_PROGRAM_H
#define TERN_CPU_PROGRAM_H

#include "pool.h"
#include "proto/board.h"
#include "workers/compute-cpu/kernels/kernels.h"

struct tern_call;
struct tern_run;

/* Rows `stride` bytes apart. */
struct tern_buffer {
    uint8_t *base;
    uint64_t stride;
};
static inline void *tern_row_at(const struct tern_buffer *buffer, uint32_t row)
{
    return buffer->base + row * buffer->stride;
}

/* Runs the whole call; on the step thread. */
typedef void (*tern_call_fn)(const struct tern_call *call, struct tern_run *run);
/* One row of a call; on any thread. `scratch`: this thread's, program->row_scratch bytes. Returns
 * the kind of the fault, or 0. */
typedef enum tern_fault_kind (*tern_row_fn)(const struct tern_call *call, struct tern_run *run,
                                            uint32_t row, void *scratch);

/* One matrix of a product. */
struct tern_part {
    tern_matmul_fn matmul;
    const uint8_t *weights;
    uint64_t row_bytes;
    const float *bias;
    uint32_t rows;
    uint32_t first_chunk; /* chunks of all parts are numbered through */
    struct tern_buffer out;
};

struct tern_call {
    tern_call_fn run;
    tern_row_fn row; /* for calls that work row by row */
    const struct tern_kernels *kernels;
    uint32_t index; /* of the instruction in the plan */
    bool outputs;   /* works on the step's output rows, not on all */
    bool ends_stage;
    uint16_t stage;
    uint64_t work; /* for one row, in units of about a multiply-add; attention: one position */
    struct tern_buffer in[3], out[3];
    /* products */
    uint32_t parts, chunks, chunk_rows;
    struct tern_part part[TERN_OP_WEIGHTS];
    struct tern_act act;
    const struct tern_call *following; /* the next product, whose weights are fetched ahead */
    /* the rest, as in struct tern_instruction */
    const float *gain[2];
    const uint8_t *table; /* embedding */
    uint64_t table_row_bytes;
    uint32_t table_type;
    uint32_t columns, groups;
    uint32_t heads, kv_heads, head_size;
    uint32_t rope_size;
    enum tern_rope_pairs rope_pairs;
    struct tern_buffer rope;
    enum tern_activation activation;
    float epsilon, factor;
    struct tern_attention attention; /* without pages, kv_head, position */
};

struct tern_program {
    uint32_t plan; /* the number steps name it by */
    uint32_t threads;
    const struct tern_kernels *kernels;
    struct tern_plan header;
    struct tern_call *call; /* header.instructions */
    uint32_t token_limit;   /* tokens of a step are below it */
    uint32_t pages;         /* of the KV segment */
    /* Per thread: TERN_KERNEL_SCRATCH for matrix products, then row_scratch for the calls here. */
    uint8_t *scratch;
    uint64_t scratch_stride, row_scratch;
    struct tern_segment activations; /* borrowed */
    const uint8_t *cache;            /* the KV segment's data */
};

/* Calls that cost less than this run on one thread: a dispatch costs about a microsecond. */
enum { TERN_SERIAL_WORK = 32768 };

/* How many chunks of a thread's share are taken. */
struct tern_share {
    alignas(64) _Atomic uint32_t taken;
};

/* Rows of one sequence at neighbouring positions, from `row` on. */
struct tern_span {
    uint32_t row, rows;
};

/* A step at work: a private, checked copy of what was asked, and what came out. */
struct tern_run {
    struct tern_pool *pool;
    const struct tern_program *program;
    const uint32_t (*page_table)[TERN_MAX_PAGES];
    uint32_t threads;
    uint64_t serial_work;
    uint64_t number;
    uint32_t epoch;
    uint64_t last_granted; /* run-ahead may go on up to this step */
    uint32_t end_tokens, end_token[TERN_MAX_END_TOKENS];
    uint32_t rows, outputs;
    struct tern_row row[TERN_MAX_ROWS];
    struct tern_span span[TERN_MAX_ROWS]; /* of the attention at work */
    uint32_t spans;
    uint32_t output_row[TERN_MAX_ROWS];           /* row of each output */
    uint32_t argmax[TERN_MAX_ROWS];               /* by output */
    _Atomic uint32_t fault[TERN_MAX_ROWS];        /* by row, see tern_fault */
    _Atomic uint32_t output_fault[TERN_MAX_ROWS]; /* by output */
    alignas(64) _Atomic uint32_t next;         /* next unit of the dispatch that nobody took yet */
    struct tern_share share[TERN_MAX_THREADS]; /* of a product's chunks, in place of `next` */
};

static inline uint8_t *tern_kernel_scratch(const struct tern_program *program, uint32_t thread)
{
    return program->scratch + thread * program->scratch_stride;
}
static inline void *tern_row_scratch(const struct tern_program *program, uint32_t thread)
{
    return tern_kernel_scratch(program, thread) + TERN_KERNEL_SCRATCH;
}

/* ---- what a call's `run` may be ---- */

void tern_run_rows(const struct tern_call *call, struct tern_run *run);      /* ops_rows.c */
void tern_run_product(const struct tern_call *call, struct tern_run *run);   /* ops_product.c */
void tern_run_glu(const struct tern_call *call, struct tern_run *run);       /* ops_product.c */
void tern_run_attention(const struct tern_call *call, struct tern_run *run); /* ops_attention.c */

/* ---- what a call's `row` may be ---- */

#define TERN_ROW_OPS(X)                                                                            \
    X(embed)                                                                                       \
    X(norm)                                                                                        \
    X(quantize)                                                                                    \
    X(add)                                                                                         \
    X(bias)                                                                                        \
    X(rope)                                                                                        \
    X(kv_write)                                                                                    \
    X(glu)                                                                                         \
    X(gather)                                                                                      \
    X(argmax)                                                                                      \
    X(add_norm)                                                                                    \
    X(add_norm_quantize)                                                                           \
    X(norm_quantize)                                                                               \
    X(qkv_rope_write)
#define X(name)                                                                                    \
    enum tern_fault_kind tern_row_##name(const struct tern_call *call, struct tern_run *run,       \
                                         uint32_t row, void *scratch);
TERN_ROW_OPS(X)
#undef X

#endif
