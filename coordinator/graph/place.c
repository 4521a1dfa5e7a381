/*
 * Placement: which worker runs each operation, and the stages that follow from it (maximal runs of
 * operations on one worker). The CPU worker can run everything.
 */
#include "coordinator/graph/passes.h"

static enum tern_worker_kind worker_of(const struct tern_operation *operation)
{
    (void)operation;
    return TERN_WORKER_CPU;
}

enum tern_status tern_place(struct tern_graph *graph, struct tern_error *error)
{
    graph->stages = 0;
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        struct tern_operation *op = &graph->operations[i];
        const enum tern_worker_kind worker = worker_of(op);
        if (graph->stages == 0 || graph->stage[graph->stages - 1].worker != worker) {
            if (graph->stages == TERN_MAX_STAGES)
                return tern_fail(error, TERN_FAILED, "the plan needs more than %d stages",
                                 TERN_MAX_STAGES);
            graph->stage[graph->stages++] =
                (struct tern_stage){.worker = worker, .begin = i, .end = i};
        }
        graph->stage[graph->stages - 1].end = i + 1;
        op->code.stage = (uint16_t)(graph->stages - 1);
    }
    return TERN_OK;
}
