/*
 * What one parse or one rendering may use, and how it ends early. All its memory comes from one
 * arena, so that an error needs no cleaning up on the way: work_fail leaves by longjmp to the one
 * place that set `escape`, which frees the arena. Code between must own nothing outside the arena.
 */
#ifndef TERN_TEMPLATE_WORK_H
#define TERN_TEMPLATE_WORK_H

#include "proto/status.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct work {
    jmp_buf escape;
    enum tern_status status; /* why it was left */
    struct tern_error *error;
    const char *name;          /* of the template, for errors */
    uint32_t line, column;     /* where it is, counted from 1; column in bytes */
    struct arena_block *block; /* the newest; the others hang from it */
    size_t used, room;         /* of the newest block */
    size_t bytes_left;
    uint64_t steps_left;
    size_t output_limit; /* bytes of any one text */
    uintptr_t stack;     /* about where the stack stood at the beginning */
    long long seconds;   /* what strftime_now tells */
};

/* `input` is the size in bytes of what it works on; budgets grow with it. */
void work_begin(struct work *w, const char *name, size_t input, struct tern_error *error);
void work_free(struct work *w);

/* Never returns. The message is put after the template's name, line and column. */
_Noreturn void work_fail(struct work *w, enum tern_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Zeroed, aligned to 16 bytes. */
void *work_take(struct work *w, size_t bytes);
void *work_take_array(struct work *w, size_t count, size_t size);
/* Room for one more element of an array that holds `count`; *room is its size now. */
void *work_grow(struct work *w, void *array, size_t count, size_t *room, size_t size);

/* To be called for whatever takes time, with a cost of about one per 50 ns. */
void work_spend(struct work *w, uint64_t steps);
/* The cost of looking at so many bytes. */
void work_spend_bytes(struct work *w, size_t bytes);
/* To be called by whatever recurses: fails when the stack is used up. */
void work_nest(struct work *w);

#endif
