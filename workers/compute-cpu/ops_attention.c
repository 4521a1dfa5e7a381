/*
 * Attention and what feeds it: rotation, the KV cache, and the attention itself, whose unit of work
 * is some query heads that share a key head, of a span of rows.
 */
#include "program.h"

/* Query heads of one unit: enough to share the loads of keys and values. */
enum { MAX_HEADS = 8 };

struct attend_job {
    const struct tern_call *call;
    struct tern_run *run;
    uint32_t group; /* query heads of a key head */
    uint32_t heads; /* of them in one unit */
    uint32_t units; /* in all */
};

static struct tern_attention cache_of(const struct tern_call *call, const struct tern_run *run,
                                      uint32_t row, uint32_t kv_head)
{
    struct tern_attention a = call->attention;
    a.pages = run->page_table[run->row[row].sequence];
    a.position = run->row[row].position;
    a.kv_head = kv_head;
    return a;
}

/* ---- rows ---- */

static bool rotate(const struct tern_call *call, const struct tern_run *run, uint32_t row,
                   const float *x, uint32_t heads, float *out)
{
    const float *pairs = tern_row_at(&call->rope, run->row[row].position);
    bool ok = true;
    for (uint32_t head = 0; head < heads; head++) {
        const size_t at = (size_t)head * call->head_size;
        ok &= call->kernels->rope(x + at, pairs, call->head_size, call->rope_size, call->rope_pairs,
                                  out + at);
    }
    return ok;
}

enum tern_fault_kind tern_row_rope(const struct tern_call *call, struct tern_run *run, uint32_t row,
                                   void *scratch)
{
    (void)scratch;
    return rotate(call, run, row, tern_row_at(&call->in[0], row), call->groups,
                  tern_row_at(&call->out[0], row))
               ? TERN_FAULT_NONE
               : TERN_FAULT_NOT_FINITE;
}

/* The worker is the cache's writer; kernels see it as constant. */
static void *writable(const uint8_t *place)
{
    return (void *)(uintptr_t)place;
}

static enum tern_fault_kind store(const struct tern_call *call, const struct tern_run *run,
                                  uint32_t row, const float *keys, const float *values)
{
    const struct tern_kernels *kernels = call->kernels;
    const enum tern_kv_type type = (enum tern_kv_type)call->attention.kv->type;
    int fault = TERN_FAULT_NONE;
    for (uint32_t head = 0; head < call->kv_heads && fault == TERN_FAULT_NONE; head++) {
        const size_t at = (size_t)head * call->head_size;
        const struct tern_attention a = cache_of(call, run, row, head);
        fault = kernels->kv_store(type, keys + at, call->head_size,
                                  writable(tern_kv_key(&a, a.position)));
        if (fault == TERN_FAULT_NONE)
            fault = kernels->kv_store(type, values + at, call->head_size,
                                      writable(tern_kv_value(&a, a.position)));
    }
    return (enum tern_fault_kind)fault;
}

enum tern_fault_kind tern_row_kv_write(const struct tern_call *call, struct tern_run *run,
                                       uint32_t row, void *scratch)
{
    (void)scratch;
    return store(call, run, row, tern_row_at(&call->in[0], row), tern_row_at(&call->in[1], row));
}

/* out = RoPE(norm(x)) for `heads` heads; without a gain there is no norm. */
static bool norm_and_rotate(const struct tern_call *call, const struct tern_run *run, uint32_t row,
                            const float *x, const float *gain, uint32_t heads, float *out)
{
    if (gain == NULL)
        return rotate(call, run, row, x, heads, out);
    for (uint32_t head = 0; head < heads; head++) {
        const size_t at = (size_t)head * call->head_size;
        if (!call->kernels->norm(x + at, gain, call->head_size, call->epsilon, out + at))
            return false;
    }
    return rotate(call, run, row, out, heads, out);
}

enum tern_fault_kind tern_row_qkv_rope_write(const struct tern_call *call, struct tern_run *run,
                                             uint32_t row, void *scratch)
{
    float *keys = scratch;
    if (!norm_and_rotate(call, run, row, tern_row_at(&call->in[0], row), call->gain[0], call->heads,
                         tern_row_at(&call->out[0], row)) ||
        !norm_and_rotate(call, run, row, tern_row_at(&call->in[1], row), call->gain[1],
                         call->kv_heads, keys))
        return TERN_FAULT_NOT_FINITE;
    return store(call, run, row, keys, tern_row_at(&call->in[2], row));
}

/* ---- attention ---- */

static void attend(const struct attend_job *job, const struct tern_span *span, uint32_t head,
                   uint32_t heads, uint8_t *scratch)
{
    const struct tern_call *call = job->call;
    struct tern_run *run = job->run;
    const struct tern_attention a = cache_of(call, run, span->row, head / job->group);
    const size_t at = (size_t)head * call->head_size;
    const struct tern_queries queries = {
        .q = (const float *)tern_row_at(&call->in[0], span->row) + at,
        .out = (float *)tern_row_at(&call->out[0], span->row) + at,
        .q_stride = call->in[0].stride / sizeof(float),
        .out_stride = call->out[0].stride / sizeof(float),
        .rows = span->rows,
        .heads = heads,
    };
    const uint32_t failed = call->kernels->attend(&a, &queries, scratch);
    const struct tern_fault_sink fault = {run->fault,
                                          tern_fault(TERN_FAULT_NOT_FINITE, call->index)};
    for (uint32_t row = 0; row < span->rows; row++)
        if ((failed >> row & 1) != 0)
            tern_fault_set(&fault, span->row + row);
}

/* Units are numbered key head by key head, so that threads at work share its keys in their caches;
 * inside a key head span by span. */
static void take_units(void *context, uint32_t thread)
{
    const struct attend_job *job = context;
    uint8_t *scratch = tern_kernel_scratch(job->run->program, thread);
    const uint32_t subsets = (job->group + job->heads - 1) / job->heads;
    for (;;) {
        const uint32_t unit = atomic_fetch_add_explicit(&job->run->next, 1, memory_order_relaxed);
        if (unit >= job->units)
            return;
        const uint32_t kv_head = unit / (job->run->spans * subsets);
        const uint32_t span = unit / subsets % job->run->spans;
        const uint32_t first = unit % subsets * job->heads;
        const uint32_t left = job->group - first;
        attend(job, &job->run->span[span], kv_head * job->group + first,
               left < job->heads ? left : job->heads, scratch);
    }
}

/* Rows of one sequence at neighbouring positions, at most `most` in a span. */
static void find_spans(struct tern_run *run, uint32_t most)
{
    run->spans = 0;
    for (uint32_t row = 0; row < run->rows; row++) {
        struct tern_span *span = run->spans > 0 ? &run->span[run->spans - 1] : NULL;
        if (span != NULL && span->rows < most &&
            run->row[row].sequence == run->row[row - 1].sequence &&
            run->row[row].position == run->row[row - 1].position + 1)
            span->rows++;
        else
            run->span[run->spans++] = (struct tern_span){.row = row, .rows = 1};
    }
}

/* Whole groups share the most loads, and spans share blocks in the cache; both get smaller only
 * where threads would have nothing to do. */
static void divide(struct attend_job *job, uint32_t threads)
{
    const uint32_t wanted = 2 * threads;
    job->heads = job->group < MAX_HEADS ? job->group : MAX_HEADS;
    uint32_t rows = TERN_MAX_QUERIES / job->heads;
    rows = rows < TERN_MAX_SPAN ? rows : TERN_MAX_SPAN;
    for (;;) {
        find_spans(job->run, rows);
        job->units =
            job->run->spans * job->call->kv_heads * ((job->group + job->heads - 1) / job->heads);
        if (job->units >= wanted || threads == 1)
            return;
        if (rows > 1)
            rows = (rows + 1) / 2;
        else if (job->heads > 1)
            job->heads = (job->heads + 1) / 2;
        else
            return;
    }
}

static uint64_t attention_work(const struct tern_call *call, const struct tern_run *run)
{
    uint64_t positions = 0;
    const uint32_t window = call->attention.window;
    for (uint32_t row = 0; row < run->rows; row++) {
        const uint32_t seen = run->row[row].position + 1;
        positions += window != 0 && window < seen ? window : seen;
    }
    return positions * call->work;
}

void tern_run_attention(const struct tern_call *call, struct tern_run *run)
{
    const bool split = run->threads > 1 && attention_work(call, run) >= run->serial_work;
    struct attend_job job = {.call = call, .run = run, .group = call->heads / call->kv_heads};
    divide(&job, split ? run->threads : 1);
    atomic_store_explicit(&run->next, 0, memory_order_relaxed);
    tern_pool_run(run->pool, split ? run->threads : 1, take_units, &job);
}
