/* Budgets and memory. */
#include "coordinator/chat/template/work.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *older;
    max_align_t bytes[];
};

enum {
    BLOCK = 64 << 10,
    MOST_BYTES = 64 << 20,     /* of memory for a small chat */
    MOST_BYTES_PER_INPUT = 24, /* more for each byte of a large one */
    MOST_STEPS = 2000000,      /* 0.1 to 0.2 s */
    MOST_OUTPUT = 4 << 20,     /* bytes of any one text; */
    MOST_OUTPUT_PER_INPUT = 8, /* tools and long chats may be written more than once */
    MOST_STACK = 112 << 10,    /* bytes: less than half of a thread with a small stack */
    BYTES_PER_STEP = 64,
};

void work_begin(struct work *w, const char *name, size_t input, struct tern_error *error)
{
    w->status = TERN_OK;
    w->error = error;
    w->name = name;
    w->line = w->column = 1;
    w->block = NULL;
    w->used = w->room = 0;
    w->bytes_left = MOST_BYTES + (size_t)MOST_BYTES_PER_INPUT * input;
    w->steps_left = MOST_STEPS + 2 * (uint64_t)input;
    w->output_limit = MOST_OUTPUT + (size_t)MOST_OUTPUT_PER_INPUT * input;
    w->stack = (uintptr_t)__builtin_frame_address(0);
    w->seconds = 0;
}

void work_free(struct work *w)
{
    while (w->block != NULL) {
        struct arena_block *older = w->block->older;
        free(w->block);
        w->block = older;
    }
}

void work_fail(struct work *w, enum tern_status status, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    w->status = tern_fail(w->error, status, "%s, line %u, column %u: %s", w->name, w->line,
                          w->column, text);
    longjmp(w->escape, 1);
}

void *work_take(struct work *w, size_t bytes)
{
    if (bytes > w->bytes_left)
        work_fail(w, TERN_BAD_MODEL, "the template needs too much memory; use --raw");
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > w->room - w->used) {
        const size_t room = bytes > BLOCK ? bytes : BLOCK;
        struct arena_block *block = calloc(1, sizeof *block + room);
        if (block == NULL)
            work_fail(w, TERN_NO_MEMORY, "no memory for the chat template");
        block->older = w->block;
        w->block = block;
        w->room = room;
        w->used = 0;
    }
    w->bytes_left -= bytes < w->bytes_left ? bytes : w->bytes_left;
    void *taken = (char *)w->block->bytes + w->used;
    w->used += bytes;
    return taken;
}

void *work_take_array(struct work *w, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return work_take(w, bytes);
}

void *work_grow(struct work *w, void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    const size_t wanted = 2 * count + 4;
    void *grown = work_take_array(w, wanted, size);
    if (count > 0)
        memcpy(grown, array, count * size);
    *room = wanted;
    return grown;
}

void work_spend(struct work *w, uint64_t steps)
{
    if (steps > w->steps_left)
        work_fail(w, TERN_BAD_MODEL, "the template takes too many steps; use --raw");
    w->steps_left -= steps;
}

void work_spend_bytes(struct work *w, size_t bytes)
{
    work_spend(w, 1 + bytes / BYTES_PER_STEP);
}

void work_nest(struct work *w)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if ((here < w->stack ? w->stack - here : here - w->stack) > MOST_STACK)
        work_fail(w, TERN_BAD_MODEL, "the template is nested too deeply; use --raw");
    work_spend(w, 1);
}
