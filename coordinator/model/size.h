/*
 * How large a model may be made: the context that was asked for, or the largest that fits, and how
 * many contexts of KV pages are worth having. Planned in full before anything is allocated; what
 * does not fit is refused with the MiB that are missing.
 */
#ifndef TERN_MODEL_SIZE_H
#define TERN_MODEL_SIZE_H

#include "coordinator/graph/compile.h"

struct tern_size_choice {
    uint32_t context; /* positions of one session */
    uint32_t trained; /* what the file says, at most TERN_MAX_CONTEXT */
    uint32_t pages;   /* of the KV pool: at least one context */
    uint64_t bytes;   /* of everything the model needs */
    uint64_t weights; /* of these */
};

/* Bytes that a model needs. */
struct tern_sizes {
    uint64_t weights, kv, activations, tables;
    uint64_t total; /* of these and of what the processes take for it */
};

/* For one context of so many positions. TERN_NO_MEMORY where no sum of the bytes exists; also what
 * tern_compile_sizes returns. */
enum tern_status tern_sizes_read(const struct tern_catalog *catalog,
                                 const struct tern_options *options, uint32_t context,
                                 struct tern_sizes *sizes, struct tern_error *error);

/* `room`: bytes that this model may use. TERN_NO_MEMORY naming what is missing; also what
 * tern_compile_sizes returns. */
enum tern_status tern_choose_size(const struct tern_catalog *catalog,
                                  const struct tern_options *options, uint64_t room,
                                  struct tern_size_choice *choice, struct tern_error *error);

/* Raises choice->pages to as many as four contexts while no more than half of `room` is used. */
enum tern_status tern_choose_pages(const struct tern_catalog *catalog,
                                   const struct tern_options *options, uint64_t room,
                                   struct tern_size_choice *choice, struct tern_error *error);

#endif
