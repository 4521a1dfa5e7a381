/*
 * Memory that was just given back and is not free yet: what is loaded next neither counts on it nor
 * takes it for used, but waits, for a bounded time.
 */
#ifndef TERN_MODEL_SETTLE_H
#define TERN_MODEL_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero at first. */
struct tern_settling {
    uint64_t since_ns; /* when something was given back last */
    uint64_t due; /* room that there must be when all of it is free; 0: nothing is waited for */
};

/* So many bytes are about to be given back. */
void tern_settle_expect(struct tern_settling *settling, uint64_t bytes);

/* Is there reason to wait? `mapped`: a worker still maps some of it. */
bool tern_settle_waits(struct tern_settling *settling, bool mapped);

#endif
