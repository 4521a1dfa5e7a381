/*
 * Where a model file's bytes come from while it is parsed: a descriptor, read through a window, or
 * memory (tests and fuzzing). Positions only move forward.
 */
#ifndef TERN_LOADER_SOURCE_H
#define TERN_LOADER_SOURCE_H

#include "proto/status.h"
#include <stddef.h>
#include <stdint.h>

struct tern_source {
    int fd;            /* -1: memory */
    uint64_t size;     /* bytes of the whole file */
    uint64_t position; /* of the next byte to take */
    uint8_t *window;   /* bytes of the file from window_start on; owned unless memory */
    uint64_t window_start;
    size_t window_bytes;
};

/* A source of `size` bytes in memory, which stay the caller's and are not changed. */
void tern_source_memory(struct tern_source *source, const void *bytes, size_t size);

/* A source of the first `size` bytes of fd, which stays the caller's. Release with
 * tern_source_close. */
enum tern_status tern_source_file(struct tern_source *source, int fd, uint64_t size,
                                  struct tern_error *error);
void tern_source_close(struct tern_source *source);

static inline uint64_t tern_source_left(const struct tern_source *source)
{
    return source->size - source->position;
}

/* Copies the next `bytes` bytes to `to`; the caller has made sure that that many are left.
 * TERN_BAD_MODEL if the file has become shorter meanwhile, TERN_FAILED if it cannot be read. */
enum tern_status tern_source_read(struct tern_source *source, void *to, size_t bytes,
                                  struct tern_error *error);

#endif
