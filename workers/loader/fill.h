/*
 * Brings a model's tensors from the file into the weights segment, at the speed of the disk: a few
 * threads, each with a buffer that stays in its cache, read large pieces in the file's order, check
 * them there and write them to the segment. Writing through the descriptor costs half of what
 * faulting a mapping in costs (measured: 2.9 against 1.4 GB/s with one thread from the page cache).
 */
#ifndef TERN_LOADER_FILL_H
#define TERN_LOADER_FILL_H

#include "proto/catalog.h"

/* The threads, asleep until tern_fill_run. They are started before the sandbox closes. */
struct tern_fill;

/* Starts `threads` >= 1 threads. */
enum tern_status tern_fill_start(unsigned threads, struct tern_fill **out,
                                 struct tern_error *error);
/* Ends and joins the threads. */
void tern_fill_stop(struct tern_fill *fill);

struct tern_fill_job {
    int file;                           /* the model file */
    const struct tern_catalog *catalog; /* of that file */
    int weights;                        /* writable descriptor of the weights segment */
    uint64_t weights_size;              /* its data bytes */
    bool drop_cache;                    /* leave nothing of the file in the page cache */
    /* Called about every 50 ms from the calling thread if bytes came, and at the end; false: nobody
     * listens, give up. */
    bool (*progress)(void *context, uint64_t done, uint64_t all);
    void *context;
};

/* Blocks until all tensors are in place at tern_catalog_layout's offsets, or one failed:
 * TERN_BAD_MODEL (the file ended early, or a float is not finite: tensor and block are named; of
 * several the first in the file), TERN_NO_MEMORY, TERN_FAILED. At most one run per start. */
enum tern_status tern_fill_run(struct tern_fill *fill, const struct tern_fill_job *job,
                               struct tern_error *error);

#endif
