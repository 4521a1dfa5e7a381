/*
 * Matrix products: rows of weights in chunks, dealt out to whoever is free, each chunk for all rows
 * of the step. Up to three matrices that read the same activations are one dispatch.
 */
#include "program.h"

struct product_job {
    const struct tern_call *call;
    struct tern_run *run;
    uint32_t tokens;
    struct tern_fault_sink fault;
};

static struct product_job job_of(const struct tern_call *call, struct tern_run *run)
{
    return (struct product_job){
        .call = call,
        .run = run,
        .tokens = call->outputs ? run->outputs : run->rows,
        .fault = {.word = call->outputs ? run->output_fault : run->fault,
                  .code = tern_fault(TERN_FAULT_NOT_FINITE, call->index)},
    };
}

/* Rows from `first` on of a part, so that row 0 of the product is row `first` of the matrix. */
static struct tern_matmul product_from(const struct product_job *job, const struct tern_part *part,
                                       uint32_t first, float *out, uint64_t out_stride)
{
    const struct tern_call *call = job->call;
    return (struct tern_matmul){
        .weights = part->weights + first * part->row_bytes,
        .row_bytes = part->row_bytes,
        .columns = call->columns,
        .act = call->act,
        .tokens = job->tokens,
        .x = call->in[0].base,
        .x_stride = call->in[0].stride,
        .out = out,
        .out_stride = out_stride,
        .bias = part->bias != NULL ? part->bias + first : NULL,
        .fault = job->fault,
    };
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void take_chunks(void *context, uint32_t thread)
{
    const struct product_job *job = context;
    const struct tern_call *call = job->call;
    uint8_t *scratch = tern_kernel_scratch(job->run->program, thread);
    for (;;) {
        const uint32_t chunk = atomic_fetch_add_explicit(&job->run->next, 1, memory_order_relaxed);
        if (chunk >= call->chunks)
            return;
        const struct tern_part *part = &call->part[call->parts - 1];
        while (chunk < part->first_chunk)
            part--;
        const uint32_t begin = (chunk - part->first_chunk) * call->chunk_rows;
        const struct tern_matmul m =
            product_from(job, part, 0, (float *)(void *)part->out.base, part->out.stride);
        part->matmul(&m, begin, least(begin + call->chunk_rows, part->rows), scratch);
    }
}

/* The same rows of gate and up into this thread's scratch ([2][tokens][chunk_rows]), then the
 * activated product into its place. */
static void take_glu_chunks(void *context, uint32_t thread)
{
    const struct product_job *job = context;
    const struct tern_call *call = job->call;
    uint8_t *scratch = tern_kernel_scratch(job->run->program, thread);
    float *gate = tern_row_scratch(job->run->program, thread);
    float *up = gate + (size_t)job->tokens * call->chunk_rows;
    const uint64_t stride = call->chunk_rows * sizeof(float);
    for (;;) {
        const uint32_t chunk = atomic_fetch_add_explicit(&job->run->next, 1, memory_order_relaxed);
        if (chunk >= call->chunks)
            return;
        const uint32_t begin = chunk * call->chunk_rows;
        const uint32_t rows = least(call->chunk_rows, call->part[0].rows - begin);
        const struct tern_matmul gates = product_from(job, &call->part[0], begin, gate, stride);
        const struct tern_matmul ups = product_from(job, &call->part[1], begin, up, stride);
        call->part[0].matmul(&gates, 0, rows, scratch);
        call->part[1].matmul(&ups, 0, rows, scratch);
        for (uint32_t token = 0; token < job->tokens; token++) {
            if (atomic_load_explicit(&job->fault.word[token], memory_order_relaxed) != 0)
                continue;
            const size_t at = (size_t)token * call->chunk_rows;
            float *out = (float *)tern_row_at(&call->out[0], token) + begin;
            if (!call->kernels->glu(call->activation, gate + at, up + at, rows, out))
                tern_fault_set(&job->fault, token);
        }
    }
}

static void deal_out(const struct tern_call *call, struct tern_run *run, tern_pool_work take)
{
    struct product_job job = job_of(call, run);
    if (job.tokens == 0)
        return;
    const bool split = call->chunks > 1 && job.tokens * call->work >= run->serial_work;
    atomic_store_explicit(&run->next, 0, memory_order_relaxed);
    tern_pool_run(run->pool, split ? run->threads : 1, take, &job);
}

void tern_run_product(const struct tern_call *call, struct tern_run *run)
{
    deal_out(call, run, take_chunks);
}

void tern_run_glu(const struct tern_call *call, struct tern_run *run)
{
    deal_out(call, run, take_glu_chunks);
}
