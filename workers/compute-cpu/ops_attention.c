/*
 * Attention and what feeds it: rotation, the KV cache, and the attention itself, whose unit of work
 * is some query heads of one row that share a key head.
 */
#include "program.h"

/* Query heads of one unit: enough to share the loads of keys and values, few enough for registers.
 */
enum { MAX_UNIT_HEADS = 8 };

struct head_job {
    const struct tern_call *call;
    struct tern_run *run;
    uint32_t group;      /* query heads of a key head */
    uint32_t unit_heads; /* of them in one unit */
    uint32_t units;      /* in all */
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

static void attend(const struct head_job *job, uint32_t row, uint32_t head, uint32_t heads)
{
    const struct tern_call *call = job->call;
    struct tern_run *run = job->run;
    if (atomic_load_explicit(&run->fault[row], memory_order_relaxed) != 0)
        return;
    const struct tern_attention a = cache_of(call, run, row, head / job->group);
    const size_t at = (size_t)head * call->head_size;
    const float *q = tern_row_at(&call->in[0], row);
    float *out = tern_row_at(&call->out[0], row);
    if (call->kernels->attend(&a, q + at, heads, out + at))
        return;
    const struct tern_fault_sink fault = {run->fault,
                                          tern_fault(TERN_FAULT_NOT_FINITE, call->index)};
    tern_fault_set(&fault, row);
}

/* Units are numbered key head by key head, so that threads at work share its keys in their caches;
 * inside a key head row by row. */
static void take_heads(void *context, uint32_t thread)
{
    (void)thread;
    const struct head_job *job = context;
    const uint32_t rows = job->run->rows;
    const uint32_t subsets = (job->group + job->unit_heads - 1) / job->unit_heads;
    for (;;) {
        const uint32_t unit = atomic_fetch_add_explicit(&job->run->next, 1, memory_order_relaxed);
        if (unit >= job->units)
            return;
        const uint32_t kv_head = unit / (rows * subsets);
        const uint32_t row = unit / subsets % rows;
        const uint32_t first = unit % subsets * job->unit_heads;
        const uint32_t left = job->group - first;
        attend(job, row, kv_head * job->group + first,
               left < job->unit_heads ? left : job->unit_heads);
    }
}

/* Whole groups share the most loads; smaller units only where threads would have nothing to do. */
static uint32_t heads_of_a_unit(const struct tern_call *call, const struct tern_run *run,
                                uint32_t group)
{
    uint32_t heads = group < MAX_UNIT_HEADS ? group : MAX_UNIT_HEADS;
    const uint32_t wanted = 2 * run->threads;
    while (heads > 1 && run->rows * call->kv_heads * ((group + heads - 1) / heads) < wanted)
        heads = (heads + 1) / 2;
    return heads;
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
    const uint32_t group = call->heads / call->kv_heads;
    const bool split = run->threads > 1 && attention_work(call, run) >= run->serial_work;
    struct head_job job = {.call = call, .run = run, .group = group};
    job.unit_heads = split ? heads_of_a_unit(call, run, group)
                           : (group < MAX_UNIT_HEADS ? group : MAX_UNIT_HEADS);
    job.units = run->rows * call->kv_heads * ((group + job.unit_heads - 1) / job.unit_heads);
    atomic_store_explicit(&run->next, 0, memory_order_relaxed);
    tern_pool_run(run->pool, split ? run->threads : 1, take_heads, &job);
}
