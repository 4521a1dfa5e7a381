/* See prefix.h. The list has few entries, so that all ids are simply compared. */
#include "coordinator/schedule/prefix.h"
#include "proto/board.h"

#include <stdlib.h>
#include <string.h>

struct tern_prefix {
    struct tern_prefix *next; /* used more recently */
    uint32_t *ids;
    uint32_t count, pages; /* positions that are computed, pages that hold them */
    uint32_t page[];
};

/* ---- the list ---- */

/* Ids that both begin with. By blocks: a hundred long texts with one beginning are compared between
 * two steps. */
static uint32_t common(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count)
{
    enum { BLOCK = 64 };
    const uint32_t most = a_count < b_count ? a_count : b_count;
    uint32_t i = 0;
    while (most - i >= BLOCK && memcmp(a + i, b + i, BLOCK * sizeof *a) == 0)
        i += BLOCK;
    while (i < most && a[i] == b[i])
        i++;
    return i;
}

static void unlink_prefix(struct tern_lane *lane, struct tern_prefix *prefix)
{
    struct tern_prefix **link = &lane->kept;
    while (*link != prefix)
        link = &(*link)->next;
    *link = prefix->next;
    lane->kept_count--;
}

static void append(struct tern_lane *lane, struct tern_prefix *prefix)
{
    struct tern_prefix **link = &lane->kept;
    while (*link != NULL)
        link = &(*link)->next;
    prefix->next = NULL;
    *link = prefix;
    lane->kept_count++;
}

static void use(struct tern_lane *lane, struct tern_prefix *prefix)
{
    unlink_prefix(lane, prefix);
    append(lane, prefix);
}

static void drop(struct tern_lane *lane, struct tern_prefix *prefix)
{
    unlink_prefix(lane, prefix);
    tern_pages_give_all(lane->pages, prefix->page, prefix->pages);
    free(prefix->ids);
    free(prefix);
}

bool tern_prefix_drop(struct tern_lane *lane, const struct tern_prefix *except)
{
    struct tern_prefix *oldest = lane->kept;
    if (oldest != NULL && oldest == except)
        oldest = oldest->next;
    if (oldest == NULL)
        return false;
    drop(lane, oldest);
    return true;
}

void tern_prefix_drop_all(struct tern_lane *lane)
{
    while (tern_prefix_drop(lane, NULL))
        ;
}

/* Counts holders page by page: when all that a page has were seen here, nobody else holds it. */
uint32_t tern_prefix_pages(const struct tern_lane *lane)
{
    uint32_t *held = calloc(tern_pages_count(lane->pages), sizeof *held), pages = 0;
    if (held == NULL)
        return 0;
    for (const struct tern_prefix *i = lane->kept; i != NULL; i = i->next)
        for (uint32_t place = 0; place < i->pages; place++) {
            const uint32_t page = i->page[place];
            pages += ++held[page] == tern_pages_holders(lane->pages, page);
        }
    free(held);
    return pages;
}

/* ---- keeping ---- */

/* A kept prefix that holds all of these ids. */
static struct tern_prefix *holder_of(const struct tern_lane *lane, const uint32_t *ids,
                                     uint32_t count)
{
    struct tern_prefix *i = lane->kept;
    while (i != NULL && common(i->ids, i->count, ids, count) < count)
        i = i->next;
    return i;
}

/* Kept prefixes that say no more than these ids. */
static void drop_parts_of(struct tern_lane *lane, const uint32_t *ids, uint32_t count)
{
    for (struct tern_prefix *i = lane->kept, *next; i != NULL; i = next) {
        next = i->next;
        if (common(i->ids, i->count, ids, count) == i->count)
            drop(lane, i);
    }
}

/* NULL: out of memory. */
static struct tern_prefix *new_prefix(const uint32_t *ids, uint32_t count, const uint32_t *table)
{
    const uint32_t pages = tern_pages_for(count);
    struct tern_prefix *prefix = malloc(sizeof *prefix + pages * sizeof prefix->page[0]);
    uint32_t *copy = malloc(count * sizeof *copy);
    if (prefix == NULL || copy == NULL) {
        free(prefix);
        free(copy);
        return NULL;
    }
    memcpy(copy, ids, count * sizeof *copy);
    *prefix = (struct tern_prefix){.ids = copy, .count = count, .pages = pages};
    memcpy(prefix->page, table, pages * sizeof prefix->page[0]);
    return prefix;
}

void tern_prefix_keep(struct tern_lane *lane, struct tern_session *session, const uint32_t *table)
{
    const uint32_t count = session->computed;
    struct tern_prefix *known = holder_of(lane, session->ids, count);
    struct tern_prefix *prefix =
        count > 0 && known == NULL ? new_prefix(session->ids, count, table) : NULL;
    uint32_t kept = 0;
    if (known != NULL && count > 0)
        use(lane, known);
    if (prefix != NULL) {
        drop_parts_of(lane, session->ids, count);
        if (lane->kept_count == TERN_KEPT_PREFIXES)
            tern_prefix_drop(lane, NULL);
        append(lane, prefix);
        kept = prefix->pages;
    }
    tern_pages_give_all(lane->pages, table + kept, session->pages - kept);
    session->pages = 0;
}

/* ---- taking ---- */

static uint32_t whole_pages(uint32_t positions)
{
    return positions - positions % TERN_PAGE_POSITIONS;
}

/* May the prefix become the session's own, to be written from position `from` on? Not when others
 * read that page, nor when much would be lost that another session may come back for. */
static bool can_take_over(const struct tern_lane *lane, const struct tern_prefix *prefix,
                          uint32_t from)
{
    return prefix->count - from < TERN_PAGE_POSITIONS &&
           tern_pages_holders(lane->pages, prefix->page[from / TERN_PAGE_POSITIONS]) == 1;
}

struct tern_prefix_match tern_prefix_find(struct tern_lane *lane,
                                          const struct tern_session *session)
{
    struct tern_prefix_match best = {0};
    const uint32_t most = session->count - 1;
    if (session->every_row)
        return best;
    for (const struct tern_session *i = lane->sessions; i != NULL; i = i->next) {
        const uint32_t positions = whole_pages(common(i->ids, i->computed, session->ids, most));
        if (i != session && positions > best.positions)
            best = (struct tern_prefix_match){.positions = positions, .holder = i};
    }
    for (struct tern_prefix *i = lane->kept; i != NULL; i = i->next) {
        uint32_t positions = common(i->ids, i->count, session->ids, most);
        if (positions % TERN_PAGE_POSITIONS != 0 && !can_take_over(lane, i, positions))
            positions = whole_pages(positions);
        if (positions > best.positions)
            best = (struct tern_prefix_match){.positions = positions, .kept = i};
    }
    return best;
}

/* One that needs every row takes nothing from others, and so may be behind what they left: it is
 * not waited for, nor does it wait. */
bool tern_prefix_comes(const struct tern_lane *lane, const struct tern_session *session)
{
    if (session->every_row)
        return false;
    for (const struct tern_session *i = lane->sessions; i != NULL; i = i->next) {
        const uint32_t next = whole_pages(i->computed) + TERN_PAGE_POSITIONS;
        if (i != session && i->sequence >= 0 && !i->every_row && tern_session_runnable(i) &&
            next <= i->count && next < session->count &&
            common(i->ids, next, session->ids, next) == next)
            return true;
    }
    return false;
}

void tern_prefix_take(struct tern_lane *lane, struct tern_supervisor *supervisor,
                      const struct tern_prefix_match *match, struct tern_session *session)
{
    uint32_t *table = tern_supervisor_page_table(supervisor, (uint32_t)session->sequence);
    struct tern_prefix *kept = match->kept;
    if (match->positions == 0)
        return;
    const uint32_t *source =
        kept != NULL ? kept->page
                     : tern_supervisor_page_table(supervisor, (uint32_t)match->holder->sequence);
    session->computed = match->positions;
    session->pages = tern_pages_for(match->positions);
    for (uint32_t i = 0; i < session->pages; i++) {
        tern_pages_share(lane->pages, source[i]);
        table[i] = source[i];
    }
    if (session->times.began_ns == 0)
        session->reused = match->positions;
    if (kept != NULL && match->positions % TERN_PAGE_POSITIONS != 0)
        drop(lane, kept); /* its last page is about to be written */
    else if (kept != NULL)
        use(lane, kept);
}
