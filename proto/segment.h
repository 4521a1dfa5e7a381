/*
 * Shared memory segments: memfds made by the coordinator, sized once and sealed against shrinking
 * and growing at once, mapped writable by one process and read-only by all others. The first page
 * holds a header (magic, version, id); data starts at TERN_SEGMENT_DATA; a page of zeros follows
 * the data, so that kernels may read past a row.
 */
#ifndef TERN_PROTO_SEGMENT_H
#define TERN_PROTO_SEGMENT_H

#include "proto/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TERN_SEGMENT_DATA = 4096, /* offset of the data in the segment */
    TERN_SEGMENT_TAIL = 4096, /* zeros after the data */
};

enum tern_segment_kind {
    TERN_SEGMENT_NONE = 0,
    TERN_SEGMENT_CATALOG,     /* loader writes, coordinator reads: what the model file says */
    TERN_SEGMENT_WEIGHTS,     /* loader writes, then nobody */
    TERN_SEGMENT_KV,          /* compute worker writes: pages of keys and values */
    TERN_SEGMENT_ACTIVATIONS, /* compute worker writes: buffers of a plan, logits */
    TERN_SEGMENT_BOARD,       /* one per process */
    TERN_SEGMENT_PLAN,        /* coordinator writes, sealed before it is sent */
    TERN_SEGMENT_TABLES,      /* coordinator writes: RoPE tables, filled as positions are used */
};

/* A mapping of a segment, or all zero. Owned by whoever called tern_segment_map. */
struct tern_segment {
    uint8_t *data; /* first byte of the data; do not write if mapped read-only */
    uint64_t size; /* bytes of data */
    uint64_t id;
    enum tern_segment_kind kind;
    bool writable;
    void *map; /* the whole mapping, for unmapping */
};

/* Makes a memfd with `size` bytes of data and writes its header; SHRINK and GROW are sealed. *fd
 * is O_RDWR and CLOEXEC. Memory is committed only as it is touched. TERN_NO_MEMORY or TERN_FAILED.
 */
enum tern_status tern_segment_create(enum tern_segment_kind kind, uint64_t id, uint64_t size,
                                     int *fd, struct tern_error *error);

/* A read-only descriptor of the same segment (reopened through /proc/self/fd), CLOEXEC, or -1. */
int tern_segment_reader(int fd);

/* Maps a segment and checks header, kind, id and size against the file's own size. `populate`
 * faults all pages in (weights). On failure *segment is all zero. */
enum tern_status tern_segment_map(int fd, enum tern_segment_kind kind, uint64_t id, bool writable,
                                  bool populate, struct tern_segment *segment,
                                  struct tern_error *error);

void tern_segment_unmap(struct tern_segment *segment);

/* Seals against any further write (and further seals). Fails (EBUSY) while a writable map exists.
 */
enum tern_status tern_segment_seal(int fd, struct tern_error *error);

/* True if [offset, offset + size) lies inside the data. For numbers from other processes. */
static inline bool tern_segment_holds(const struct tern_segment *segment, uint64_t offset,
                                      uint64_t size)
{
    return offset <= segment->size && size <= segment->size - offset;
}

#endif
