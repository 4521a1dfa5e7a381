/*
 * Prefixes: what ended sessions left in the cache (ids and the pages that hold their positions), so
 * that a session whose ids begin alike computes only what is new. By NUMERICS a position's keys and
 * values depend on the ids up to it alone, so that taking them changes no bit.
 *
 * Whole pages are shared and never written again: who shares one writes only positions after it. A
 * partial last page changes hands only when nobody else holds it. Called between steps only, as all
 * that moves pages.
 */
#ifndef TERN_PREFIX_H
#define TERN_PREFIX_H

#include "coordinator/schedule/schedule.h"

enum { TERN_KEPT_PREFIXES = 64 }; /* of a lane, at most */

/* The longest prefix that a session can take, and who holds it. */
struct tern_prefix_match {
    uint32_t positions;                /* 0: there is none */
    struct tern_prefix *kept;          /* or NULL: */
    const struct tern_session *holder; /* a running session */
};

/* Leaves at least the newest id to be computed; none for a session that needs every row. */
struct tern_prefix_match tern_prefix_find(struct tern_lane *lane,
                                          const struct tern_session *session);

/* Is another session, one that can go on, about to compute a page that this one needs? Then it is
 * worth waiting for. */
bool tern_prefix_comes(const struct tern_lane *lane, const struct tern_session *session);

/* Gives the match, found just now, to a session that has a page table and nothing in it. */
void tern_prefix_take(struct tern_lane *lane, struct tern_supervisor *supervisor,
                      const struct tern_prefix_match *match, struct tern_session *session);

/* Takes over the session's pages: kept as the most recently used prefix, or given back where a kept
 * one holds all of it already (or memory for the list is short). */
void tern_prefix_keep(struct tern_lane *lane, struct tern_session *session, const uint32_t *table);

/* Gives the least recently used prefix up; `except` stays (NULL: none). False: there is no other.
 */
bool tern_prefix_drop(struct tern_lane *lane, const struct tern_prefix *except);
void tern_prefix_drop_all(struct tern_lane *lane);

/* Pages that only kept prefixes hold: what running sessions could have by dropping them all. 0
 * where there is no memory to count them. */
uint32_t tern_prefix_pages(const struct tern_lane *lane);

#endif
