/* How many threads can really run. */
#ifndef TERN_CORES_H
#define TERN_CORES_H

#include <stdint.h>

/* Cores that threads can really use: affinity, cgroup quota (whole cores, at least 1) and physical
 * cores, whichever is least. `root` is "" in programs; tests pass a folder that holds proc/ and
 * sys/. */
uint32_t tern_usable_cores(const char *root);

#endif
