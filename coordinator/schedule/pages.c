/* The pool of KV pages: a stack of free page numbers. */
#include "coordinator/schedule/pages.h"
#include "proto/board.h"

#include <stdlib.h>

struct tern_pages {
    uint32_t count, free;
    uint32_t stack[]; /* the `free` first entries are free; the last of them goes next */
};

struct tern_pages *tern_pages_new(uint32_t count)
{
    struct tern_pages *pages = malloc(sizeof *pages + (size_t)count * sizeof pages->stack[0]);
    if (pages == NULL)
        return NULL;
    pages->count = pages->free = count;
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
    return true;
}

void tern_pages_give(struct tern_pages *pages, uint32_t page)
{
    if (pages->free < pages->count && page < pages->count)
        pages->stack[pages->free++] = page;
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
