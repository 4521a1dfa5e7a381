/*
 * Run-ahead: a granted greedy session goes on from its own token, without waking the coordinator
 * in between. What it found so far is final; what it may still begin is the coordinator's to limit.
 */
#include "step.h"

static bool is_end(const struct tern_run *run, uint32_t token)
{
    for (uint32_t i = 0; i < run->end_tokens; i++)
        if (run->end_token[i] == token)
            return true;
    return false;
}

/* Says that step `number` begins, then looks whether it still may: see begun in proto/board.h. */
static bool begin(uint64_t number, const struct tern_coordinator_board *coordinator,
                  struct tern_worker_board *board)
{
    atomic_store(&board->begun, number);
    if (number <= atomic_load(&coordinator->run_limit))
        return true;
    atomic_store(&board->begun, number - 1);
    return false;
}

bool tern_run_ahead(struct tern_run *run, const struct tern_coordinator_board *coordinator,
                    struct tern_worker_board *board)
{
    if (run->number >= run->last_granted || tern_step_output_fault(run, 0) != 0)
        return false;
    const uint32_t token = run->argmax[0];
    if (is_end(run, token) || token >= run->program->token_limit)
        return false;
    if (atomic_load_explicit(&coordinator->epoch, memory_order_acquire) != run->epoch ||
        !begin(run->number + 1, coordinator, board))
        return false;

    const struct tern_row last = run->row[run->rows - 1];
    run->number++;
    run->rows = 1;
    run->row[0] = (struct tern_row){
        .token = token,
        .position = last.position + 1,
        .sequence = last.sequence,
        .flags = last.flags,
    };
    run->output_row[0] = 0;
    atomic_store_explicit(&run->fault[0], 0, memory_order_relaxed);
    atomic_store_explicit(&run->output_fault[0], 0, memory_order_relaxed);
    return true;
}
