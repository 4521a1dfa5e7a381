/*
 * How the coordinator starts a compute worker, and what its exit code means.
 *
 * Environment:   TERN_CONTROL      the ZeroMQ address (ipc://...) that its DEALER connects to
 *                TERN_INCARNATION  decimal, 1 .. 65535
 *                TERN_SECRET       32 hexadecimal digits, the HELLO's secret (removed once read)
 *                TERN_TOPOLOGY     path of hwloc's topology as XML; absent: discovered
 * Descriptor 3:  the worker's end of the channel. Three parcels come before anything else, in any
 *                order: SEGMENT_WRITE of kind BOARD (the worker's own board), SEGMENT of kind BOARD
 *                (the coordinator's), EVENT (the eventfd that wakes the coordinator).
 *
 * With the three in hand the worker sends HELLO {incarnation, secret, pid}; from then on it answers
 * BIND {plan, tier, threads, seg_*} with BOUND {plan} or FAULT {plan, status, text}, RELEASE {plan}
 * with RELEASED {plan}, and ends at QUIT or at the end of the channel. Segments of a BIND come as
 * parcels: kv and activations SEGMENT_WRITE, the others SEGMENT; a BIND uses them up.
 *
 * Steps issued before the worker mapped the coordinator's board are not its own; those of another
 * epoch than the board's are skipped.
 */
#ifndef TERN_PROTO_WORKER_H
#define TERN_PROTO_WORKER_H

enum { TERN_MAX_PLANS = 64 }; /* bound at one time; a worker refuses more */

/* Values that neither a shell nor a sanitizer uses. */
enum tern_worker_exit {
    TERN_WORKER_ENDED = 0,      /* QUIT, or the channel's end: the coordinator is gone */
    TERN_WORKER_RETRY = 80,     /* something outside failed; a new start may work */
    TERN_WORKER_FATAL = 81,     /* a new start will fail the same way */
    TERN_WORKER_NO_MEMORY = 82, /* out of memory, descriptors or threads */
    TERN_WORKER_BAD_INPUT = 83, /* a step or message that the coordinator must not send */
};

#endif
