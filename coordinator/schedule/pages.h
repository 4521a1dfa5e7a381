/*
 * The pool of KV pages of one loaded model. A page holds TERN_PAGE_POSITIONS positions of every
 * layer. Pages that were used before are handed out first, so that memory that was never touched
 * stays uncommitted.
 *
 * The pool does not know about steps: whoever gives a page back has made sure that no step in
 * flight can touch it (the scheduler ends sessions only between their steps).
 */
#ifndef TERN_PAGES_H
#define TERN_PAGES_H

#include <stdbool.h>
#include <stdint.h>

struct tern_pages;

struct tern_pages *tern_pages_new(uint32_t count); /* NULL: out of memory */
void tern_pages_free(struct tern_pages *pages);

/* A free page's number in *page, with one holder; false when none is left. */
bool tern_pages_take(struct tern_pages *pages, uint32_t *page);
/* One holder more of a page that has some. Nobody writes a page of several holders. */
void tern_pages_share(struct tern_pages *pages, uint32_t page);
/* One holder less: the last one's page is free. */
void tern_pages_give(struct tern_pages *pages, uint32_t page);
/* The same for those of a sequence, in the order of their positions: the last ones may never have
 * been touched, so that the first ones are handed out before them. */
void tern_pages_give_all(struct tern_pages *pages, const uint32_t *list, uint32_t count);
/* 0: the page is free. */
uint32_t tern_pages_holders(const struct tern_pages *pages, uint32_t page);

uint32_t tern_pages_available(const struct tern_pages *pages);
uint32_t tern_pages_count(const struct tern_pages *pages);

/* Pages that hold `positions` positions. */
uint32_t tern_pages_for(uint64_t positions);

#endif
