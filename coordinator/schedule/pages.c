/* The pool of KV pages: a stack of free page numbers, and how many hold each of the others. */
#include "coordinator/schedule/pages.h"
#include "proto/board.h"

#include <stdlib.h>

struct tern_pages {
    uint32_t count, free;
    uint32_t *holders; /* of each page, 0: free; behind the stack */
    uint32_t stack[];  /* the `free` first entries are free; the last of them goes next */
};

struct tern_pages *tern_pages_new(uint32_t count)
{
    struct tern_pages *pages = calloc(1, sizeof *pages + 2 * (size_t)count * sizeof(uint32_t));
    if (pages == NULL)
        return NULL;
    pages->count = pages->free = count;
    pages->holders = pages->stack + count;
    for (uint32_t i = 0; i < count; i++)
        pages->stack[i] = count - 1 - i;
    return pages;
}

void tern_pages_free(struct tern_pages *pages)
{
    free(pages);
}

bool tern_pages_take(struct tern_pages *pages, uint32_t *page)
{
    if (pages->free == 0)
        return false;
    *page = pages->stack[--pages->free];
    pages->holders[*page] = 1;
    return true;
}

void tern_pages_share(struct tern_pages *pages, uint32_t page)
{
    if (page < pages->count && pages->holders[page] > 0)
        pages->holders[page]++;
}

void tern_pages_give(struct tern_pages *pages, uint32_t page)
{
    if (page < pages->count && pages->holders[page] > 0 && --pages->holders[page] == 0)
        pages->stack[pages->free++] = page;
}

void tern_pages_give_all(struct tern_pages *pages, const uint32_t *list, uint32_t count)
{
    while (count > 0)
        tern_pages_give(pages, list[--count]);
}

uint32_t tern_pages_holders(const struct tern_pages *pages, uint32_t page)
{
    return page < pages->count ? pages->holders[page] : 0;
}

uint32_t tern_pages_available(const struct tern_pages *pages)
{
    return pages->free;
}

uint32_t tern_pages_count(const struct tern_pages *pages)
{
    return pages->count;
}

uint32_t tern_pages_for(uint64_t positions)
{
    return (uint32_t)((positions + TERN_PAGE_POSITIONS - 1) / TERN_PAGE_POSITIONS);
}
