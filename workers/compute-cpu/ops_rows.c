/*
 * Operations that work row by row: each row is one unit of work, whole on one thread, so that how
 * rows are dealt out cannot change a bit. Rows that failed before are left alone: their values may
 * not be finite, and exp, division and quantizing are defined for finite values only.
 */
#include "program.h"

#include <string.h>

struct row_job {
    const struct tern_call *call;
    struct tern_run *run;
    uint32_t rows, chunk;
};

static void run_row(const struct tern_call *call, struct tern_run *run, uint32_t row, void *scratch)
{
    struct tern_fault_sink sink = {.word = call->outputs ? run->output_fault : run->fault};
    if (atomic_load_explicit(&sink.word[row], memory_order_relaxed) != 0)
        return;
    const enum tern_fault_kind kind = call->row(call, run, row, scratch);
    if (kind == TERN_FAULT_NONE)
        return;
    sink.code = tern_fault(kind, call->index);
    tern_fault_set(&sink, row);
}

static void take_rows(void *context, uint32_t thread)
{
    const struct row_job *job = context;
    void *scratch = tern_row_scratch(job->run->program, thread);
    for (;;) {
        const uint32_t begin =
            atomic_fetch_add_explicit(&job->run->next, job->chunk, memory_order_relaxed);
        if (begin >= job->rows)
            return;
        const uint32_t end = job->rows - begin < job->chunk ? job->rows : begin + job->chunk;
        for (uint32_t row = begin; row < end; row++)
            run_row(job->call, job->run, row, scratch);
    }
}

void tern_run_rows(const struct tern_call *call, struct tern_run *run)
{
    const uint32_t rows = call->outputs ? run->outputs : run->rows;
    struct row_job job = {call, run, rows, rows / (run->threads * 4) + 1};
    const bool split = rows > 1 && rows * call->work >= run->serial_work;
    atomic_store_explicit(&run->next, 0, memory_order_relaxed);
    tern_pool_run(run->pool, split ? run->threads : 1, take_rows, &job);
}

static enum tern_fault_kind fault_unless(bool ok)
{
    return ok ? TERN_FAULT_NONE : TERN_FAULT_NOT_FINITE;
}

enum tern_fault_kind tern_row_embed(const struct tern_call *call, struct tern_run *run,
                                    uint32_t row, void *scratch)
{
    (void)scratch;
    const uint8_t *weights = call->table + run->row[row].token * call->table_row_bytes;
    return fault_unless(call->kernels->widen(call->table_type, weights, call->columns, call->factor,
                                             tern_row_at(&call->out[0], row)));
}

enum tern_fault_kind tern_row_norm(const struct tern_call *call, struct tern_run *run, uint32_t row,
                                   void *scratch)
{
    (void)run;
    (void)scratch;
    const float *x = tern_row_at(&call->in[0], row);
    float *out = tern_row_at(&call->out[0], row);
    bool ok = true;
    for (uint32_t group = 0; group < call->groups; group++) {
        const size_t at = (size_t)group * call->columns;
        ok &= call->kernels->norm(x + at, call->gain[0], call->columns, call->epsilon, out + at);
    }
    return fault_unless(ok);
}

enum tern_fault_kind tern_row_quantize(const struct tern_call *call, struct tern_run *run,
                                       uint32_t row, void *scratch)
{
    (void)run;
    (void)scratch;
    call->kernels->quantize(tern_row_at(&call->in[0], row), call->columns, call->act,
                            tern_row_at(&call->out[0], row));
    return TERN_FAULT_NONE;
}

enum tern_fault_kind tern_row_add(const struct tern_call *call, struct tern_run *run, uint32_t row,
                                  void *scratch)
{
    (void)run;
    (void)scratch;
    return fault_unless(call->kernels->add(tern_row_at(&call->in[0], row),
                                           tern_row_at(&call->in[1], row), call->columns,
                                           tern_row_at(&call->out[0], row)));
}

enum tern_fault_kind tern_row_bias(const struct tern_call *call, struct tern_run *run, uint32_t row,
                                   void *scratch)
{
    (void)run;
    (void)scratch;
    return fault_unless(call->kernels->add(tern_row_at(&call->in[0], row), call->gain[0],
                                           call->columns, tern_row_at(&call->out[0], row)));
}

enum tern_fault_kind tern_row_glu(const struct tern_call *call, struct tern_run *run, uint32_t row,
                                  void *scratch)
{
    (void)run;
    (void)scratch;
    return fault_unless(call->kernels->glu(call->activation, tern_row_at(&call->in[0], row),
                                           tern_row_at(&call->in[1], row), call->columns,
                                           tern_row_at(&call->out[0], row)));
}

/* A failed row's output fails with it, under the row's own code. */
enum tern_fault_kind tern_row_gather(const struct tern_call *call, struct tern_run *run,
                                     uint32_t row, void *scratch)
{
    (void)scratch;
    const uint32_t from = run->output_row[row];
    const uint32_t fault = atomic_load_explicit(&run->fault[from], memory_order_relaxed);
    if (fault != 0)
        atomic_store_explicit(&run->output_fault[row], fault, memory_order_relaxed);
    else
        memcpy(tern_row_at(&call->out[0], row), tern_row_at(&call->in[0], from),
               call->columns * sizeof(float));
    return TERN_FAULT_NONE;
}

enum tern_fault_kind tern_row_argmax(const struct tern_call *call, struct tern_run *run,
                                     uint32_t row, void *scratch)
{
    (void)scratch;
    if (run->row[run->output_row[row]].flags & TERN_ROW_ARGMAX)
        run->argmax[row] = call->kernels->argmax(tern_row_at(&call->in[0], row), call->columns);
    return TERN_FAULT_NONE;
}

enum tern_fault_kind tern_row_add_norm(const struct tern_call *call, struct tern_run *run,
                                       uint32_t row, void *scratch)
{
    float *sum = tern_row_at(&call->out[0], row);
    const enum tern_fault_kind kind = tern_row_add(call, run, row, scratch);
    if (kind != TERN_FAULT_NONE)
        return kind;
    return fault_unless(call->kernels->norm(sum, call->gain[0], call->columns, call->epsilon,
                                            tern_row_at(&call->out[1], row)));
}

enum tern_fault_kind tern_row_add_norm_quantize(const struct tern_call *call, struct tern_run *run,
                                                uint32_t row, void *scratch)
{
    float *normed = scratch;
    const float *sum = tern_row_at(&call->out[0], row);
    const enum tern_fault_kind kind = tern_row_add(call, run, row, scratch);
    if (kind != TERN_FAULT_NONE)
        return kind;
    if (!call->kernels->norm(sum, call->gain[0], call->columns, call->epsilon, normed))
        return TERN_FAULT_NOT_FINITE;
    call->kernels->quantize(normed, call->columns, call->act, tern_row_at(&call->out[1], row));
    return TERN_FAULT_NONE;
}

enum tern_fault_kind tern_row_norm_quantize(const struct tern_call *call, struct tern_run *run,
                                            uint32_t row, void *scratch)
{
    (void)run;
    float *normed = scratch;
    if (!call->kernels->norm(tern_row_at(&call->in[0], row), call->gain[0], call->columns,
                             call->epsilon, normed))
        return TERN_FAULT_NOT_FINITE;
    call->kernels->quantize(normed, call->columns, call->act, tern_row_at(&call->out[0], row));
    return TERN_FAULT_NONE;
}
