/*
 * The graph's storage: growing arrays of values and operations, and the index of who uses what that
 * passes work with.
 */
#include "coordinator/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `need` elements in an array that grows by doubling. */
static void *grow(void *array, uint32_t *capacity, uint32_t need, size_t size)
{
    if (need <= *capacity)
        return array;
    uint32_t larger = *capacity < 64 ? 64 : *capacity;
    while (larger < need)
        larger *= 2;
    void *grown = realloc(array, larger * size);
    if (grown != NULL)
        *capacity = larger;
    return grown;
}

void tern_graph_init(struct tern_graph *graph)
{
    *graph = (struct tern_graph){.value_count = 1};
}

void tern_graph_free(struct tern_graph *graph)
{
    free(graph->values);
    free(graph->operations);
    *graph = (struct tern_graph){0};
}

tern_ref tern_graph_value(struct tern_graph *graph)
{
    if (graph->value_count >= 3 * TERN_MAX_INSTRUCTIONS)
        return 0;
    struct tern_graph_value *values =
        grow(graph->values, &graph->value_capacity, graph->value_count + 1, sizeof *graph->values);
    if (values == NULL)
        return 0;
    graph->values = values;
    values[0] = values[graph->value_count] = (struct tern_graph_value){0};
    return graph->value_count++;
}

bool tern_graph_append(struct tern_graph *graph, const struct tern_operation *operation)
{
    if (graph->operation_count >= TERN_MAX_INSTRUCTIONS)
        return false;
    struct tern_operation *operations = grow(graph->operations, &graph->operation_capacity,
                                             graph->operation_count + 1, sizeof *graph->operations);
    if (operations == NULL)
        return false;
    graph->operations = operations;
    operations[graph->operation_count++] = *operation;
    return true;
}

void tern_graph_compact(struct tern_graph *graph)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        if (graph->operations[i].code.op == TERN_OP_NONE)
            continue;
        if (kept != i)
            graph->operations[kept] = graph->operations[i];
        kept++;
    }
    graph->operation_count = kept;
}

struct tern_operation *tern_graph_take(struct tern_graph *graph, uint32_t *count)
{
    struct tern_operation *operations = graph->operations;
    *count = graph->operation_count;
    graph->operations = NULL;
    graph->operation_count = graph->operation_capacity = 0;
    return operations;
}

bool tern_uses_find(const struct tern_graph *graph, struct tern_uses *uses)
{
    const uint32_t n = graph->value_count;
    uint32_t *all = malloc(4 * (size_t)n * sizeof *all);
    if (all == NULL)
        return false;
    *uses = (struct tern_uses){
        .writer = all, .count = all + n, .first = all + 2 * (size_t)n, .last = all + 3 * (size_t)n};
    memset(all, 0xff, 4 * (size_t)n * sizeof *all);
    memset(uses->count, 0, n * sizeof *all);
    for (uint32_t i = 0; i < graph->operation_count; i++) {
        const struct tern_operation *op = &graph->operations[i];
        for (int k = 0; k < 3; k++) {
            if (op->out[k] != 0)
                uses->writer[op->out[k]] = i;
            if (op->in[k] == 0)
                continue;
            if (uses->count[op->in[k]]++ == 0)
                uses->first[op->in[k]] = i;
            uses->last[op->in[k]] = i;
        }
    }
    if (graph->logits != 0)
        uses->count[graph->logits]++;
    return true;
}

void tern_uses_free(struct tern_uses *uses)
{
    free(uses->writer);
    *uses = (struct tern_uses){0};
}

void tern_label_join(char into[TERN_LABEL_SIZE], const char *a, const char *b)
{
    const char *space = strrchr(b, ' ');
    const size_t group = space == NULL ? 0 : (size_t)(space - b) + 1;
    const char *rest = group > 0 && strncmp(a, b, group) == 0 ? b + group : b;
    char joined[TERN_LABEL_SIZE];
    if (snprintf(joined, sizeof joined, "%s+%s", a, rest) >= (int)sizeof joined)
        joined[sizeof joined - 1] = '\0';
    memcpy(into, joined, sizeof joined);
}
