/*
 * Memory planning by liveness: a value's place is reused after its last reader. Within a stage that
 * is the reading operation; a value that another stage reads lives to the end of that stage, so
 * that the stage can be run again from its beginning. Larger values get their places first, each at
 * the lowest offset that is free during its whole life.
 */
#include "coordinator/graph/passes.h"

#include "proto/numerics/quantize.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

struct life {
    tern_ref value;
    uint32_t begin, end; /* operations, both inside */
    uint64_t offset, bytes;
};

static bool value_bytes(const struct tern_graph_value *value, uint32_t rows, uint32_t *stride,
                        uint64_t *bytes)
{
    uint64_t row = (uint64_t)value->columns * sizeof(float);
    if (value->act.block != 0)
        row = tern_act_layout(value->act, value->columns).stride;
    if (!tern_align(row, ALIGNMENT, &row) || row > UINT32_MAX)
        return false;
    *stride = (uint32_t)row;
    return tern_mul(row, rows, bytes);
}

/* The last operation during which the value must stay: see the top of this file. */
static uint32_t end_of_life(const struct tern_graph *graph, const struct tern_uses *uses,
                            tern_ref value)
{
    const uint32_t writer = uses->writer[value];
    const uint32_t reader = uses->last[value] == UINT32_MAX ? writer : uses->last[value];
    const uint16_t stage = graph->operations[reader].code.stage;
    if (stage == graph->operations[writer].code.stage)
        return reader;
    return graph->stage[stage].end - 1;
}

/* Lives of all values that are written; *count of them. NULL: out of memory or sizes overflow. */
static struct life *find_lives(const struct tern_graph *graph, const struct tern_uses *uses,
                               struct tern_memory_plan *plan, uint32_t *count)
{
    struct life *lives = calloc(graph->value_count, sizeof *lives);
    if (lives == NULL)
        return NULL;
    *count = 0;
    for (tern_ref v = 1; v < graph->value_count; v++) {
        if (uses->writer[v] == UINT32_MAX)
            continue;
        const struct tern_graph_value *value = &graph->values[v];
        struct life life = {
            .value = v, .begin = uses->writer[v], .end = end_of_life(graph, uses, v)};
        const uint32_t rows = value->rows == TERN_OUTPUT_ROWS ? plan->max_outputs : plan->max_rows;
        if (!value_bytes(value, rows, &plan->stride[v], &life.bytes)) {
            free(lives);
            return NULL;
        }
        lives[(*count)++] = life;
    }
    return lives;
}

/* Larger first; then in the order of writing, so that plans are the same every time. */
static int larger_first(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* The lowest offset where `life` fits between placed[0 .. count), which is sorted by offset. */
static uint64_t find_gap(const struct life *placed, uint32_t count, const struct life *life)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (placed[i].begin > life->end || placed[i].end < life->begin)
            continue;
        if (placed[i].offset >= offset + life->bytes)
            break;
        if (placed[i].offset + placed[i].bytes > offset)
            offset = placed[i].offset + placed[i].bytes;
    }
    return offset;
}

/* Inserts into an array sorted by offset. */
static void insert(struct life *placed, uint32_t count, const struct life *life)
{
    uint32_t at = count;
    while (at > 0 && placed[at - 1].offset > life->offset)
        at--;
    memmove(&placed[at + 1], &placed[at], (count - at) * sizeof *placed);
    placed[at] = *life;
}

static uint32_t count_places(const struct life *placed, uint32_t count)
{
    uint32_t places = 0;
    for (uint32_t i = 0; i < count; i++)
        places += i == 0 || placed[i].offset != placed[i - 1].offset;
    return places;
}

/* Gives every life its offset; `placed` has room for all. */
static bool place(struct life *lives, uint32_t count, bool reuse, tern_ref logits,
                  struct life *placed, struct tern_memory_plan *plan)
{
    qsort(lives, count, sizeof *lives, larger_first);
    for (uint32_t i = 0; i < count; i++) {
        struct life life = lives[i];
        if (!reuse || life.value == logits) {
            life.begin = 0; /* for ever: nothing else may lie there */
            life.end = UINT32_MAX;
        }
        life.offset = find_gap(placed, i, &life);
        uint64_t end;
        if (!tern_add(life.offset, life.bytes, &end) || end > UINT64_MAX / 4)
            return false;
        insert(placed, i, &life);
        plan->offset[life.value] = life.offset;
        plan->bytes = end > plan->bytes ? end : plan->bytes;
    }
    plan->buffers = count_places(placed, count);
    return true;
}

enum tern_status tern_plan_memory(const struct tern_graph *graph, uint32_t max_rows,
                                  uint32_t max_outputs, bool reuse, struct tern_memory_plan *plan,
                                  struct tern_error *error)
{
    *plan = (struct tern_memory_plan){.max_rows = max_rows, .max_outputs = max_outputs};
    plan->offset = calloc(graph->value_count, sizeof *plan->offset);
    plan->stride = calloc(graph->value_count, sizeof *plan->stride);
    struct life *placed = calloc(graph->value_count, sizeof *placed);
    struct life *lives = NULL;
    struct tern_uses uses = {0};
    uint32_t count = 0;
    bool fine = plan->offset != NULL && plan->stride != NULL && placed != NULL &&
                tern_uses_find(graph, &uses);
    if (fine)
        lives = find_lives(graph, &uses, plan, &count);
    fine = lives != NULL && place(lives, count, reuse, graph->logits, placed, plan);
    tern_uses_free(&uses);
    free(lives);
    free(placed);
    if (fine)
        return TERN_OK;
    tern_memory_plan_free(plan);
    return tern_fail(error, TERN_NO_MEMORY, "no memory to plan the model's buffers");
}

void tern_memory_plan_free(struct tern_memory_plan *plan)
{
    free(plan->offset);
    free(plan->stride);
    *plan = (struct tern_memory_plan){0};
}
