#include "step.h"

#include "proto/tensor.h"

#include <string.h>

static enum tern_status refuse(const struct tern_run *run, const char *what, uint32_t value,
                               struct tern_error *error)
{
    return tern_fail(error, TERN_USAGE, "step %llu of plan %u: %s (%u)",
                     (unsigned long long)run->number, run->program->plan, what, value);
}

static enum tern_status check_row(const struct tern_run *run, uint32_t index,
                                  struct tern_error *error)
{
    const struct tern_row *row = &run->row[index];
    if (row->token >= run->program->token_limit)
        return refuse(run, "token outside the vocabulary", row->token, error);
    if (row->position >= run->program->header.context)
        return refuse(run, "position outside the context", row->position, error);
    if (row->sequence >= TERN_MAX_SEQUENCES)
        return refuse(run, "no such sequence", row->sequence, error);
    if (row->flags & ~(TERN_ROW_LOGITS | TERN_ROW_ARGMAX))
        return refuse(run, "unknown row flags", row->flags, error);
    return TERN_OK;
}

/* Pages of positions 0 .. last of a sequence. */
static enum tern_status check_pages(const struct tern_run *run, uint32_t sequence, uint32_t last,
                                    struct tern_error *error)
{
    const uint32_t *pages = run->page_table[sequence];
    if (run->program->header.kv.layers == 0)
        return TERN_OK;
    for (uint32_t i = 0; i <= last / TERN_PAGE_POSITIONS; i++)
        if (pages[i] >= run->program->pages)
            return refuse(run, "page outside the cache", pages[i], error);
    return TERN_OK;
}

/* Each sequence's rows are neighbours with rising positions; its last row needs the most pages. */
static enum tern_status check_sequences(const struct tern_run *run, struct tern_error *error)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < run->rows; i++) {
        const struct tern_row *row = &run->row[i];
        const bool goes_on = i > 0 && row[-1].sequence == row->sequence;
        if (goes_on && row->position <= row[-1].position)
            return refuse(run, "positions do not rise at row", i, error);
        if (!goes_on && (seen >> row->sequence & 1))
            return refuse(run, "rows of a sequence are apart", row->sequence, error);
        seen |= 1ull << row->sequence;
        const bool last = i + 1 == run->rows || row[1].sequence != row->sequence;
        const uint32_t ahead = last ? (uint32_t)(run->last_granted - run->number) : 0;
        const enum tern_status status =
            last ? check_pages(run, row->sequence, row->position + ahead, error) : TERN_OK;
        if (status != TERN_OK)
            return status;
    }
    return TERN_OK;
}

static enum tern_status check_grant(const struct tern_run *run, uint32_t grant,
                                    struct tern_error *error)
{
    const struct tern_row *last = &run->row[run->rows - 1];
    if (grant == 0)
        return TERN_OK;
    if (grant > TERN_GRANT_RING || run->end_tokens > TERN_MAX_END_TOKENS)
        return refuse(run, "grants more steps or end tokens than there may be", grant, error);
    if (run->outputs != 1 || !(last->flags & TERN_ROW_LOGITS) || !(last->flags & TERN_ROW_ARGMAX) ||
        run->row[0].sequence != last->sequence)
        return refuse(run, "grants steps that no single greedy row could begin", grant, error);
    if (grant >= run->program->header.context - last->position)
        return refuse(run, "grants steps past the context", grant, error);
    return TERN_OK;
}

/* Everything but the counts, which have been checked: the board's own are not read again. */
static void copy(const struct tern_step *step, struct tern_run *run)
{
    run->epoch = step->epoch;
    run->end_tokens = step->end_tokens;
    memcpy(run->end_token, step->end_token, sizeof run->end_token);
    memcpy(run->row, step->row, run->rows * sizeof run->row[0]);
    memset(run->fault, 0, run->rows * sizeof run->fault[0]);
    memset(run->output_fault, 0, run->outputs * sizeof run->output_fault[0]);
}

static enum tern_status find_outputs(struct tern_run *run, struct tern_error *error)
{
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < run->rows; i++)
        if (run->row[i].flags & TERN_ROW_LOGITS)
            run->output_row[outputs++] = i;
    if (outputs != run->outputs)
        return refuse(run, "rows with logits do not make up its outputs", outputs, error);
    return TERN_OK;
}

enum tern_status tern_step_take(const struct tern_step *step, struct tern_run *run,
                                struct tern_error *error)
{
    const struct tern_plan *plan = &run->program->header;
    const uint32_t grant = step->grant;
    run->number = step->number;
    run->rows = step->rows;
    run->outputs = step->outputs;
    if (run->rows == 0 || run->rows > plan->max_rows)
        return refuse(run, "number of rows", run->rows, error);
    if (run->outputs > plan->max_outputs)
        return refuse(run, "number of outputs", run->outputs, error);
    copy(step, run);
    run->last_granted = run->number + grant;
    for (uint32_t i = 0; i < run->rows; i++) {
        const enum tern_status status = check_row(run, i, error);
        if (status != TERN_OK)
            return status;
    }
    enum tern_status status = find_outputs(run, error);
    if (status == TERN_OK)
        status = check_grant(run, grant, error);
    return status == TERN_OK ? check_sequences(run, error) : status;
}

uint32_t tern_step_output_fault(const struct tern_run *run, uint32_t output)
{
    const uint32_t row = run->output_row[output];
    const uint32_t fault = atomic_load_explicit(&run->fault[row], memory_order_relaxed);
    return fault != 0 ? fault
                      : atomic_load_explicit(&run->output_fault[output], memory_order_relaxed);
}
