/*
 * Which processors the worker's threads are pinned to, and how many it can really use at once.
 * One processor per physical core: a second hardware thread adds little to code that is bound by
 * memory or by vector units.
 */
#ifndef TERN_CPU_TOPOLOGY_H
#define TERN_CPU_TOPOLOGY_H

#include "proto/board.h"
#include <stdint.h>

struct tern_cores {
    uint32_t count;                 /* physical cores this process may run on, >= 1 */
    uint32_t usable;                /* what the cgroup's quota leaves of them, whole, >= 1 */
    uint32_t runnable;              /* threads that can run at once: processors or quota, >= 1 */
    uint32_t cpu[TERN_MAX_THREADS]; /* the processor (operating system's number) of each core */
};

/* `xml`: path of hwloc's topology, or NULL to discover. Where hwloc knows nothing (a container
 * without /sys) every processor of the affinity mask counts as a core. Never fails. */
void tern_cores_find(const char *xml, struct tern_cores *cores);

#endif
