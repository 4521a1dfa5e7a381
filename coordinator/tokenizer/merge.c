/* Words are short: a scan beats a heap up to a few dozen symbols. Longer ones take a heap of
 * candidates over a doubly linked list, and candidates that went stale are dropped when met. */
#include "coordinator/tokenizer/merge.h"

#include <stdlib.h>
#include <string.h>

enum {
    SCAN_SYMBOLS = 32,
    NO_PRIORITY = UINT32_MAX,
    NO_SYMBOL = UINT32_MAX,
};

struct merge_link {
    uint32_t previous, next;
};

/* A symbol and the one after it. 16 bytes, so that the four children of a place in the heap are a
 * cache line: on long runs the heap is where the time goes. */
struct merge_candidate {
    uint32_t priority;
    uint32_t left;
    uint32_t length; /* of both together: grows once either changed */
    uint32_t id;
};

void merge_work_free(struct merge_work *work)
{
    free(work->symbol);
    free(work->link);
    free(work->heap);
    *work = (struct merge_work){0};
}

enum tern_status merge_reserve(struct merge_work *work, size_t count, struct tern_error *error)
{
    if (work->room >= count)
        return TERN_OK;
    const size_t room = count + count / 2 + 64;
    struct merge_symbol *symbol = realloc(work->symbol, room * sizeof *symbol);
    if (symbol == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory to merge a word of %zu symbols", count);
    work->symbol = symbol;
    work->room = room;
    return TERN_OK;
}

struct merging {
    struct merge_work *work;
    merge_find *find;
    const void *rules;
    const char *text;
};

static struct merge_result find_result(const struct merging *m, size_t left, size_t right)
{
    struct merge_result result;
    const struct merge_symbol *symbol = m->work->symbol;
    if (m->find(m->rules, m->text, &symbol[left], &symbol[right], &result))
        return result;
    return (struct merge_result){.priority = NO_PRIORITY};
}

/* pair[i] is what symbols i and i + 1 would become. */
static void merge_by_scan(const struct merging *m)
{
    struct merge_symbol *const symbol = m->work->symbol;
    struct merge_result pair[SCAN_SYMBOLS];
    size_t count = m->work->count;
    for (size_t i = 0; i + 1 < count; i++)
        pair[i] = find_result(m, i, i + 1);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (pair[i].priority < pair[best].priority)
                best = i;
        if (pair[best].priority == NO_PRIORITY)
            break;
        symbol[best].length += symbol[best + 1].length;
        symbol[best].id = pair[best].id;
        count--;
        memmove(symbol + best + 1, symbol + best + 2, (count - best - 1) * sizeof *symbol);
        if (best + 1 < count)
            memmove(pair + best, pair + best + 1, (count - best - 1) * sizeof *pair);
        if (best > 0)
            pair[best - 1] = find_result(m, best - 1, best);
        if (best + 1 < count)
            pair[best] = find_result(m, best, best + 1);
    }
    m->work->count = count;
}

static bool comes_before(const struct merge_candidate *a, const struct merge_candidate *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->left < b->left;
}

/* The first of the children of `at`, of which there is at least one. */
static size_t least_child(const struct merge_candidate *heap, size_t count, size_t at)
{
    size_t least = 4 * at + 1;
    const size_t end = least + 4 < count ? least + 4 : count;
    for (size_t child = least + 1; child < end; child++)
        if (comes_before(&heap[child], &heap[least]))
            least = child;
    return least;
}

static void sift_down(struct merge_candidate *heap, size_t count, size_t at)
{
    const struct merge_candidate moved = heap[at];
    while (4 * at + 1 < count) {
        const size_t child = least_child(heap, count, at);
        if (!comes_before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void push(struct merge_work *work, struct merge_candidate candidate)
{
    size_t at = work->candidates++;
    while (at > 0 && comes_before(&candidate, &work->heap[(at - 1) / 4])) {
        work->heap[at] = work->heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    work->heap[at] = candidate;
}

static struct merge_candidate pop(struct merge_work *work)
{
    const struct merge_candidate top = work->heap[0];
    work->heap[0] = work->heap[--work->candidates];
    if (work->candidates > 0)
        sift_down(work->heap, work->candidates, 0);
    return top;
}

static void consider(const struct merging *m, uint32_t left, uint32_t right)
{
    if (left == NO_SYMBOL || right == NO_SYMBOL)
        return;
    const struct merge_result result = find_result(m, left, right);
    if (result.priority == NO_PRIORITY)
        return;
    const struct merge_symbol *symbol = m->work->symbol;
    push(m->work, (struct merge_candidate){
                      .priority = result.priority,
                      .left = left,
                      .length = symbol[left].length + symbol[right].length,
                      .id = result.id,
                  });
}

/* n - 1 pairs at first; each of at most n - 1 merges takes one candidate and adds two at most. */
static enum tern_status reserve_heap(struct merge_work *work, struct tern_error *error)
{
    const size_t count = work->count;
    if (work->links < count) {
        struct merge_link *link = realloc(work->link, count * sizeof *link);
        if (link == NULL)
            return tern_fail(error, TERN_NO_MEMORY, "no memory to merge %zu symbols", count);
        work->link = link;
        work->links = count;
    }
    if (work->heap_room < 2 * count) {
        struct merge_candidate *heap = realloc(work->heap, 2 * count * sizeof *heap);
        if (heap == NULL)
            return tern_fail(error, TERN_NO_MEMORY, "no memory to merge %zu symbols", count);
        work->heap = heap;
        work->heap_room = 2 * count;
    }
    return TERN_OK;
}

static void merge_by_heap(const struct merging *m)
{
    struct merge_work *const work = m->work;
    struct merge_symbol *const symbol = work->symbol;
    struct merge_link *const link = work->link;
    const uint32_t count = (uint32_t)work->count;
    work->candidates = 0;
    for (uint32_t i = 0; i < count; i++)
        link[i] =
            (struct merge_link){i == 0 ? NO_SYMBOL : i - 1, i + 1 < count ? i + 1 : NO_SYMBOL};
    for (uint32_t i = 0; i + 1 < count; i++)
        consider(m, i, i + 1);
    while (work->candidates > 0) {
        const struct merge_candidate best = pop(work);
        const uint32_t next = link[best.left].next;
        struct merge_symbol *const left = &symbol[best.left];
        /* A symbol that was taken in has length 0. */
        if (left->length == 0 || next == NO_SYMBOL ||
            left->length + symbol[next].length != best.length)
            continue;
        left->length = best.length;
        left->id = best.id;
        symbol[next].length = 0;
        link[best.left].next = link[next].next;
        if (link[best.left].next != NO_SYMBOL)
            link[link[best.left].next].previous = best.left;
        consider(m, link[best.left].previous, best.left);
        consider(m, best.left, link[best.left].next);
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (symbol[i].length > 0)
            symbol[kept++] = symbol[i];
    work->count = kept;
}

enum tern_status merge_symbols(struct merge_work *work, merge_find *find, const void *rules,
                               const char *text, struct tern_error *error)
{
    const struct merging merging = {.work = work, .find = find, .rules = rules, .text = text};
    if (work->count <= SCAN_SYMBOLS) {
        merge_by_scan(&merging);
        return TERN_OK;
    }
    const enum tern_status status = reserve_heap(work, error);
    if (status == TERN_OK)
        merge_by_heap(&merging);
    return status;
}
