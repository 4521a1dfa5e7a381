/*
 * Matrix products: rows of weights in chunks, each chunk for all rows of the step. Up to three
 * matrices that read the same activations are one dispatch. Every thread begins with a share of
 * its own, neighbouring chunks, so that what it reads next is what the kernels fetch ahead (decode
 * is bound by memory); who has finished takes from the others' shares.
 */
#include "program.h"

struct product_job {
    const struct tern_call *call;
    struct tern_run *run;
    uint32_t tokens, threads;
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

/* First chunk of a thread's share; thread `threads` gives the end of the last. */
static uint32_t share_begin(const struct tern_call *call, uint32_t thread, uint32_t threads)
{
    return (uint32_t)((uint64_t)call->chunks * thread / threads);
}

/* The next chunk of this thread's share, or of another's; false when all are taken. */
static bool take_chunk(const struct product_job *job, uint32_t thread, uint32_t *chunk)
{
    for (uint32_t i = 0; i < job->threads; i++) {
        const uint32_t owner = (thread + i) % job->threads;
        const uint32_t begin = share_begin(job->call, owner, job->threads);
        const uint32_t chunks = share_begin(job->call, owner + 1, job->threads) - begin;
        _Atomic uint32_t *taken = &job->run->share[owner].taken;
        if (atomic_load_explicit(taken, memory_order_relaxed) >= chunks)
            continue;
        const uint32_t mine = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
        *chunk = begin + mine;
        if (mine < chunks)
            return true;
    }
    return false;
}

static const struct tern_part *part_of(const struct tern_call *call, uint32_t chunk)
{
    const struct tern_part *part = &call->part[call->parts - 1];
    while (chunk < part->first_chunk)
        part--;
    return part;
}

static const uint8_t *weights_at(const struct tern_call *call, uint32_t chunk)
{
    const struct tern_part *part = part_of(call, chunk);
    const uint64_t row = (uint64_t)(chunk - part->first_chunk) * call->chunk_rows;
    return part->weights + row * part->row_bytes;
}

/* What this thread is likely to read after a chunk: the chunk behind it, or at the end of its share
 * its first rows of the next product. */
static const uint8_t *read_after(const struct product_job *job, uint32_t thread, uint32_t chunk)
{
    const struct tern_call *next = job->call->following;
    if (chunk + 1 != share_begin(job->call, thread + 1, job->threads))
        return chunk + 1 < job->call->chunks ? weights_at(job->call, chunk + 1) : NULL;
    return next != NULL ? weights_at(next, share_begin(next, thread, job->threads)) : NULL;
}

static void take_chunks(void *context, uint32_t thread)
{
    const struct product_job *job = context;
    const struct tern_call *call = job->call;
    uint8_t *scratch = tern_kernel_scratch(job->run->program, thread);
    for (uint32_t chunk; take_chunk(job, thread, &chunk);) {
        const struct tern_part *part = part_of(call, chunk);
        const uint32_t begin = (chunk - part->first_chunk) * call->chunk_rows;
        struct tern_matmul m =
            product_from(job, part, 0, (float *)(void *)part->out.base, part->out.stride);
        m.next = read_after(job, thread, chunk);
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
    for (uint32_t chunk; take_chunk(job, thread, &chunk);) {
        const uint32_t begin = chunk * call->chunk_rows;
        const uint32_t rows = least(call->chunk_rows, call->part[0].rows - begin);
        struct tern_matmul gates = product_from(job, &call->part[0], begin, gate, stride);
        struct tern_matmul ups = product_from(job, &call->part[1], begin, up, stride);
        gates.next = ups.weights;
        ups.next = read_after(job, thread, chunk);
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
    job.threads = split ? run->threads : 1;
    for (uint32_t i = 0; i < job.threads; i++)
        atomic_store_explicit(&run->share[i].taken, 0, memory_order_relaxed);
    tern_pool_run(run->pool, job.threads, take, &job);
}

void tern_run_product(const struct tern_call *call, struct tern_run *run)
{
    deal_out(call, run, take_chunks);
}

void tern_run_glu(const struct tern_call *call, struct tern_run *run)
{
    deal_out(call, run, take_glu_chunks);
}
