/*
 * Words are short: a scan beats all else up to a few dozen symbols. Longer ones keep their
 * candidates in buckets, one per priority, each a list from left to right over a doubly linked list
 * of symbols; candidates that went stale are dropped when met. A heap of candidates would do with
 * less, but on runs of megabytes its places are far apart, and buckets walk through memory.
 */
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

/* A symbol and the one after it. */
struct merge_candidate {
    uint32_t left;
    uint32_t length; /* of both together: grows once either changed */
    uint32_t id;
    uint32_t next; /* of its bucket, or of the unused ones; 0: none */
};

/* Candidates of one priority. */
struct merge_bucket {
    uint32_t first, last; /* last: only before it comes into service */
    bool waits;           /* in line for service */
    bool mixed;           /* not in order from left to right */
    bool in_service;      /* it was the best of all, and has been kept in order since */
};

void merge_work_free(struct merge_work *work)
{
    free(work->symbol);
    free(work->link);
    free(work->candidate);
    free(work->bucket);
    free(work->waiting);
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

/* ---- candidates ---- */

static uint32_t take_candidate(struct merge_work *work)
{
    const uint32_t index = work->unused;
    if (index == 0)
        return ++work->next_unused;
    work->unused = work->candidate[index].next;
    return index;
}

static void give_back(struct merge_work *work, uint32_t index)
{
    work->candidate[index].next = work->unused;
    work->unused = index;
}

/* Has either symbol changed since? One that was taken in has length 0. */
static bool is_stale(const struct merge_work *work, const struct merge_candidate *candidate)
{
    const struct merge_symbol *left = &work->symbol[candidate->left];
    const uint32_t next = work->link[candidate->left].next;
    return left->length == 0 || next == NO_SYMBOL ||
           left->length + work->symbol[next].length != candidate->length;
}

/* ---- which bucket is next ---- */

static void wait_in_line(struct merge_work *work, uint32_t priority)
{
    size_t at = work->waits++;
    for (; at > 0 && priority < work->waiting[(at - 1) / 2]; at = (at - 1) / 2)
        work->waiting[at] = work->waiting[(at - 1) / 2];
    work->waiting[at] = priority;
}

static void leave_line(struct merge_work *work)
{
    const uint32_t moved = work->waiting[--work->waits];
    size_t at = 0;
    for (size_t child = 1; child < work->waits; child = 2 * at + 1) {
        child += child + 1 < work->waits && work->waiting[child + 1] < work->waiting[child];
        if (moved <= work->waiting[child])
            break;
        work->waiting[at] = work->waiting[child];
        at = child;
    }
    work->waiting[at] = moved;
}

/* ---- buckets ---- */

/* Both lists rise. */
static uint32_t join_lists(struct merge_candidate *candidate, uint32_t a, uint32_t b)
{
    uint32_t first = 0, *end = &first;
    while (a != 0 && b != 0) {
        uint32_t *const least = candidate[b].left < candidate[a].left ? &b : &a;
        *end = *least;
        end = &candidate[*least].next;
        *least = *end;
    }
    *end = a != 0 ? a : b;
    return first;
}

/* part[i] holds 2^i candidates or none. */
static uint32_t sort_list(struct merge_candidate *candidate, uint32_t list)
{
    uint32_t part[32] = {0};
    while (list != 0) {
        uint32_t rising = list;
        list = candidate[list].next;
        candidate[rising].next = 0;
        size_t i = 0;
        for (; part[i] != 0; i++) {
            rising = join_lists(candidate, part[i], rising);
            part[i] = 0;
        }
        part[i] = rising;
    }
    uint32_t all = 0;
    for (size_t i = 0; i < 32; i++)
        all = join_lists(candidate, part[i], all);
    return all;
}

static void append(struct merge_work *work, struct merge_bucket *bucket, uint32_t index)
{
    struct merge_candidate *const candidate = work->candidate;
    candidate[index].next = 0;
    if (bucket->first == 0) {
        bucket->first = bucket->last = index;
        return;
    }
    bucket->mixed |= candidate[bucket->last].left > candidate[index].left;
    candidate[bucket->last].next = index;
    bucket->last = index;
}

/* A bucket in service has got to here from the left, so only stale candidates, which go, and one
 * other may lie before the new one. */
static void insert(struct merge_work *work, struct merge_bucket *bucket, uint32_t index)
{
    struct merge_candidate *const candidate = work->candidate;
    uint32_t *at = &bucket->first;
    while (*at != 0 && candidate[*at].left < candidate[index].left) {
        const uint32_t there = *at;
        if (!is_stale(work, &candidate[there])) {
            at = &candidate[there].next;
            continue;
        }
        *at = candidate[there].next;
        give_back(work, there);
    }
    candidate[index].next = *at;
    *at = index;
}

static void consider(const struct merging *m, uint32_t left, uint32_t right)
{
    if (left == NO_SYMBOL || right == NO_SYMBOL)
        return;
    struct merge_work *const work = m->work;
    const struct merge_result result = find_result(m, left, right);
    if (result.priority == NO_PRIORITY)
        return;
    const uint32_t index = take_candidate(work);
    work->candidate[index].left = left;
    work->candidate[index].length = work->symbol[left].length + work->symbol[right].length;
    work->candidate[index].id = result.id;
    struct merge_bucket *const bucket = &work->bucket[result.priority];
    if (!bucket->waits) {
        bucket->waits = true;
        wait_in_line(work, result.priority);
    }
    if (bucket->in_service)
        insert(work, bucket, index);
    else
        append(work, bucket, index);
}

/* The best and leftmost candidate; false if there is none. */
static bool take_best(struct merge_work *work, struct merge_candidate *best)
{
    for (; work->waits > 0; leave_line(work)) {
        struct merge_bucket *const bucket = &work->bucket[work->waiting[0]];
        if (bucket->mixed)
            bucket->first = sort_list(work->candidate, bucket->first);
        bucket->mixed = false;
        bucket->in_service = true;
        const uint32_t index = bucket->first;
        if (index != 0) {
            *best = work->candidate[index];
            bucket->first = best->next;
            give_back(work, index);
            return true;
        }
        *bucket = (struct merge_bucket){0};
    }
    return false;
}

/* n - 1 pairs at first; each of at most n - 1 merges takes one candidate and adds two at most. */
static enum tern_status reserve_buckets(struct merge_work *work, struct tern_error *error)
{
    const size_t count = work->count;
    if (work->bucket == NULL)
        work->bucket = calloc(work->priorities, sizeof *work->bucket);
    if (work->links < count) {
        free(work->link);
        free(work->candidate);
        free(work->waiting);
        work->link = malloc(count * sizeof *work->link);
        work->candidate = malloc((2 * count + 1) * sizeof *work->candidate);
        work->waiting = malloc(2 * count * sizeof *work->waiting);
        work->links = count;
    }
    if (work->bucket != NULL && work->link != NULL && work->candidate != NULL &&
        work->waiting != NULL)
        return TERN_OK;
    work->links = 0;
    return tern_fail(error, TERN_NO_MEMORY, "no memory to merge %zu symbols", count);
}

static void merge_by_buckets(const struct merging *m)
{
    struct merge_work *const work = m->work;
    struct merge_symbol *const symbol = work->symbol;
    struct merge_link *const link = work->link;
    const uint32_t count = (uint32_t)work->count;
    struct merge_candidate best;
    work->unused = work->next_unused = 0;
    for (uint32_t i = 0; i < count; i++)
        link[i] =
            (struct merge_link){i == 0 ? NO_SYMBOL : i - 1, i + 1 < count ? i + 1 : NO_SYMBOL};
    for (uint32_t i = 0; i + 1 < count; i++)
        consider(m, i, i + 1);
    while (take_best(work, &best)) {
        if (is_stale(work, &best))
            continue;
        const uint32_t next = link[best.left].next;
        symbol[best.left].length = best.length;
        symbol[best.left].id = best.id;
        symbol[next].length = 0;
        link[best.left].next = link[next].next;
        if (link[best.left].next != NO_SYMBOL)
            link[link[best.left].next].previous = best.left;
        consider(m, best.left, link[best.left].next);
        consider(m, link[best.left].previous, best.left);
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
    const enum tern_status status = reserve_buckets(work, error);
    if (status == TERN_OK)
        merge_by_buckets(&merging);
    return status;
}
