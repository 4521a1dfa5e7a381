/*
 * Composing steps. Fairness: every runnable session gets a row before any gets two, and the first
 * place goes round. Pages go to the oldest first (in the order of the lane's list, in which clients
 * take turns): when none is left, the youngest session loses its pages and is computed again later,
 * so that the oldest always comes to its end.
 */
#include "coordinator/schedule/compose.h"
#include "coordinator/schedule/pace.h"
#include "coordinator/schedule/prefix.h"
#include "proto/plan.h"

uint32_t tern_session_outputs(const struct tern_session *session)
{
    if (session->every_row)
        return session->rows;
    return session->rows == tern_session_pending(session) && session->count < session->limit;
}

/* ---- pages ---- */

/* Takes back everything the session has in the cache; `keep`: others may find it, until its pages
 * are needed. */
static void evict(struct tern_composer *composer, struct tern_session *session, bool keep)
{
    if (session->sequence >= 0) {
        const uint32_t *table =
            tern_supervisor_page_table(composer->supervisor, (uint32_t)session->sequence);
        if (keep)
            tern_prefix_keep(session->lane, session, table);
        tern_pages_give_all(session->lane->pages, table, session->pages);
        composer->sequence[session->sequence] = false;
    }
    session->sequence = -1;
    session->pages = session->computed = session->rows = 0;
}

void tern_session_end(struct tern_composer *composer, struct tern_session *session,
                      const char *reason)
{
    struct tern_session **link = &session->lane->sessions;
    evict(composer, session, reason != NULL);
    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    session->lane = NULL;
    session->ended = true;
    session->reason = reason;
    session->next = composer->ended;
    composer->ended = session;
}

/* The number of a page table that nobody has, -1: all are taken. */
static int free_sequence(const struct tern_composer *composer)
{
    for (int i = 0; i < TERN_MAX_SEQUENCES; i++)
        if (!composer->sequence[i])
            return i;
    return -1;
}

bool tern_compose_evict_resting(struct tern_composer *composer, struct tern_lane *lane)
{
    for (struct tern_session *s = lane->sessions; s != NULL; s = s->next)
        if (s->sequence >= 0 && !tern_session_runnable(s)) {
            evict(composer, s, true);
            return true;
        }
    return false;
}

/* Takes the seat of the last session behind this one: it was let in when this one was not there
 * yet. False: none sits there. */
static bool make_way(struct tern_composer *composer, struct tern_session *session)
{
    struct tern_session *last = NULL;
    for (struct tern_session *s = session->next; s != NULL; s = s->next)
        if (s->sequence >= 0)
            last = s;
    if (last != NULL)
        evict(composer, last, true);
    return last != NULL;
}

/* A page table for the session, and in it what others have computed of its ids, if need be at
 * the cost of sessions behind it. False: all tables are taken, or (limited) the pages for all it
 * knows are not free beside `promised` ones. */
static bool let_in(struct tern_composer *composer, struct tern_session *session, bool limited,
                   uint64_t *promised)
{
    struct tern_lane *lane = session->lane;
    struct tern_prefix_match match;
    uint64_t need;
    /* First the page table: without one nothing is worth looking for or giving up. */
    while (free_sequence(composer) < 0)
        if (!make_way(composer, session))
            return false;
    for (;;) { /* again after each change: what was found may have gone with it */
        match = tern_prefix_find(lane, session);
        need = tern_pages_for(session->count + 1ull) - tern_pages_for(match.positions);
        if (!limited || *promised + need <= tern_pages_available(lane->pages))
            break;
        if (!tern_prefix_drop(lane, match.kept) && !make_way(composer, session))
            return false;
    }
    session->sequence = free_sequence(composer);
    composer->sequence[session->sequence] = true;
    tern_prefix_take(lane, composer->supervisor, &match, session);
    *promised += need;
    return true;
}

/* Lets waiting sessions in, oldest first, as long as the pages for all they know are free: one that
 * lost its pages does not come back to lose them again. False: somebody must wait. */
static bool admit_some(struct tern_composer *composer, struct tern_lane *lane)
{
    uint64_t promised = 0;
    bool others = false;
    for (struct tern_session *s = lane->sessions; s != NULL; s = s->next) {
        if (s->sequence >= 0) {
            const uint32_t need = tern_pages_for(s->count + 1ull);
            promised += need > s->pages ? need - s->pages : 0;
        } else if (!tern_session_runnable(s) || tern_prefix_comes(lane, s)) {
            continue;
        } else if (!let_in(composer, s, others, &promised)) {
            return false;
        }
        others = true;
    }
    return true;
}

static void admit(struct tern_composer *composer, struct tern_lane *lane)
{
    while (!admit_some(composer, lane) && tern_compose_evict_resting(composer, lane))
        ;
}

/* A page, of a kept prefix if no other is free. */
static bool take_page(struct tern_lane *lane, uint32_t *page)
{
    while (!tern_pages_take(lane->pages, page))
        if (!tern_prefix_drop(lane, NULL))
            return false;
    return true;
}

/* Pages for the first `positions` positions; false when the pool is empty. */
static bool cover(struct tern_composer *composer, struct tern_session *session, uint32_t positions)
{
    uint32_t *table = tern_supervisor_page_table(composer->supervisor, (uint32_t)session->sequence);
    const uint32_t need = tern_pages_for(positions);
    while (session->pages < need) {
        if (!take_page(session->lane, &table[session->pages]))
            return false;
        session->pages++;
    }
    return true;
}

/* The youngest session that holds pages; `self` if that is no younger than it. */
static struct tern_session *youngest(struct tern_session *self)
{
    struct tern_session *found = self;
    for (struct tern_session *s = self->next; s != NULL; s = s->next)
        if (s->pages > 0)
            found = s;
    return found;
}

static bool alone_with_pages(const struct tern_lane *lane, const struct tern_session *self)
{
    for (const struct tern_session *s = lane->sessions; s != NULL; s = s->next)
        if (s != self && s->pages > 0)
            return false;
    return true;
}

/* Pages for the session's rows, taken from resting and then from younger sessions if need be.
 * False: it lost its rows, evicted or ended. */
static bool cover_rows(struct tern_composer *composer, struct tern_session *session)
{
    struct tern_lane *lane = session->lane;
    while (!cover(composer, session, session->computed + session->rows)) {
        if (tern_compose_evict_resting(composer, lane))
            continue;
        struct tern_session *victim = youngest(session);
        if (victim == session && alone_with_pages(lane, session)) {
            tern_session_end(composer, session, "length"); /* the cache holds no more of it */
            return false;
        }
        evict(composer, victim, false);
        if (victim == session)
            return false;
    }
    return true;
}

/* ---- rows ---- */

/* Rows and outputs of a step that are not given out yet. */
struct room {
    uint32_t rows, outputs;
};

static uint32_t wanted(const struct tern_session *session)
{
    const uint32_t pending = tern_session_pending(session);
    return session->every_row && session->credit < pending ? session->credit : pending;
}

/* One row to each session in turn; returns how many got one. */
static uint32_t give_first_rows(struct tern_session **list, uint32_t count, struct room *room)
{
    uint32_t served = 0;
    while (served < count && room->rows > 0 && room->outputs > 0) {
        list[served++]->rows = 1;
        room->rows--;
        room->outputs--;
    }
    return served;
}

/* Shares the remaining rows evenly between those that want more. */
static void share_rows(struct tern_session **list, uint32_t count, struct room *room)
{
    uint32_t hungry = 0;
    for (uint32_t i = 0; i < count; i++)
        hungry += list[i]->rows < wanted(list[i]);
    for (uint32_t i = 0; i < count && room->rows > 0; i++) {
        struct tern_session *s = list[i];
        const uint32_t want = wanted(s) - s->rows;
        if (want == 0)
            continue;
        uint32_t more = (room->rows + hungry - 1) / hungry;
        more = more < want ? more : want;
        if (s->every_row && more > room->outputs)
            more = room->outputs;
        s->rows += more;
        room->rows -= more;
        room->outputs -= s->every_row ? more : 0;
        hungry--;
    }
}

/* Runnable sessions with a sequence, beginning at the lane's turn. */
static uint32_t list_runnable(struct tern_lane *lane, struct tern_session **list)
{
    struct tern_session *by_age[TERN_MAX_SEQUENCES];
    uint32_t count = 0;
    for (struct tern_session *s = lane->sessions; s != NULL; s = s->next)
        if (s->sequence >= 0 && tern_session_runnable(s) && count < TERN_MAX_SEQUENCES)
            by_age[count++] = s;
    for (uint32_t i = 0; i < count; i++)
        list[i] = by_age[(lane->turn + i) % count];
    return count;
}

/* Rows of a step that lasts as long as it should, when the first `served` of the list have one row
 * each. Counts all further rows as those of the longest prompt: the estimate errs to the safe side.
 */
static uint32_t rows_in_time(const struct tern_composer *composer, const struct tern_lane *lane,
                             struct tern_session **list, uint32_t served)
{
    uint32_t farthest = 0;
    for (uint32_t i = 0; i < served; i++)
        if (!tern_session_awaits_token(list[i]) && list[i]->computed > farthest)
            farthest = list[i]->computed;
    return tern_pace_rows(&lane->pace, farthest, composer->sharing, lane->plan->max_rows);
}

static void give_rows(const struct tern_composer *composer, struct tern_lane *lane)
{
    struct tern_session *list[TERN_MAX_SEQUENCES];
    struct room room = {.rows = lane->plan->max_rows, .outputs = lane->plan->max_outputs};
    const uint32_t count = list_runnable(lane, list);
    const uint32_t served = give_first_rows(list, count, &room);
    const uint32_t in_time = rows_in_time(composer, lane, list, served);
    const uint32_t more = in_time > served ? in_time - served : 0;
    room.rows = more < room.rows ? more : room.rows;
    share_rows(list, served, &room);
    lane->turn = count == 0 ? 0 : (lane->turn + (served < count ? served : 1)) % count;
}

/* Rows that have their pages; *lost: some session had to give up its own. */
static uint32_t cover_all(struct tern_composer *composer, struct tern_lane *lane, bool *lost)
{
    uint32_t rows = 0;
    *lost = false;
    for (struct tern_session *s = lane->sessions, *next; s != NULL; s = next) {
        next = s->next;
        if (s->rows > 0 && !cover_rows(composer, s))
            *lost = true;
    }
    for (struct tern_session *s = lane->sessions; s != NULL; s = s->next)
        rows += s->rows;
    return rows;
}

/* Whoever lost its rows left pages or a page table to others, so it is tried again for them. That
 * ends: a session is let in again only when there are pages for all it needs. */
uint32_t tern_compose(struct tern_composer *composer, struct tern_lane *lane)
{
    uint32_t rows;
    bool lost;
    do {
        admit(composer, lane);
        give_rows(composer, lane);
        rows = cover_all(composer, lane, &lost);
    } while (rows == 0 && lost);
    return rows;
}

uint32_t tern_compose_alone(struct tern_composer *composer, struct tern_session *session,
                            uint32_t rows)
{
    struct tern_lane *lane = session->lane;
    uint64_t promised = 0;
    bool lost;
    if (session->sequence < 0 && !let_in(composer, session, false, &promised))
        return 0;
    session->rows = rows < wanted(session) ? rows : wanted(session);
    return cover_all(composer, lane, &lost);
}

uint32_t tern_compose_ahead(struct tern_composer *composer, struct tern_session *session,
                            uint32_t positions)
{
    const uint32_t end = session->computed + session->rows;
    cover(composer, session, end + positions);
    const uint64_t room = (uint64_t)session->pages * TERN_PAGE_POSITIONS - end;
    return positions < room ? positions : (uint32_t)room;
}

static uint16_t flags_of(const struct tern_session *session, uint32_t row)
{
    if (session->every_row)
        return TERN_ROW_LOGITS;
    if (row + 1 < session->rows || tern_session_outputs(session) == 0)
        return 0;
    return tern_session_argmax(session) ? TERN_ROW_LOGITS | TERN_ROW_ARGMAX : TERN_ROW_LOGITS;
}

void tern_compose_step(const struct tern_lane *lane, struct tern_step *step)
{
    *step = (struct tern_step){.plan = lane->number};
    for (const struct tern_session *s = lane->sessions; s != NULL; s = s->next) {
        for (uint32_t i = 0; i < s->rows; i++)
            step->row[step->rows++] = (struct tern_row){
                .token = s->ids[s->computed + i],
                .position = s->computed + i,
                .sequence = (uint16_t)s->sequence,
                .flags = flags_of(s, i),
            };
        step->outputs += s->rows > 0 ? tern_session_outputs(s) : 0;
    }
}
