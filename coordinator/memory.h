/*
 * What memory is really free: the smaller of MemAvailable and what the cgroup (v1 or v2, at every
 * level up) still allows, its page cache counted as free; minus the reserve that stays free: the
 * larger of 1 GiB and 10% of RAM unless told otherwise, or 10% of the cgroup's limit where that is
 * what leaves least (the machine outside it has its reserve then anyway).
 */
#ifndef TERN_MEMORY_H
#define TERN_MEMORY_H

#include "proto/status.h"
#include <stdint.h>

struct tern_memory {
    uint64_t total;     /* bytes of RAM, or the cgroup's limit if that leaves less */
    uint64_t available; /* bytes that could be used without swapping */
    uint64_t reserve;   /* bytes to leave free */
};

/* `root` is "" in the service; tests pass a folder that holds proc/ and sys/. */
enum tern_status tern_memory_read(const char *root, struct tern_memory *memory,
                                  struct tern_error *error);

/* Bytes that may be used now without swapping and without touching the reserve
 * (TERN_RESERVE_MIB in the environment overrides it; TERN_USAGE if it is no number). *room is 0
 * after a failure. */
enum tern_status tern_memory_room(uint64_t *room, struct tern_error *error);

#endif
