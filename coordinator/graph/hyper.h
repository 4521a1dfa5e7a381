/*
 * Reading hyperparameters: helpers for families (hyper.c reads what all families share). Keys are
 * given without the architecture: "rope.freq_base" means "llama.rope.freq_base". Every failure
 * names the key and the value found.
 */
#ifndef TERN_HYPER_H
#define TERN_HYPER_H

#include "coordinator/graph/compile.h"

const char *tern_hyper_architecture(const struct tern_hyper *hyper);

/* Refuses a file with a key that may change the answer and that nobody here reads. */
enum tern_status tern_hyper_refuse_unknown(const struct tern_catalog *catalog,
                                           const struct tern_hyper *hyper,
                                           struct tern_error *error);

/* A positive finite number within 2^+-40. Absent: *value stays as it is. */
enum tern_status tern_hyper_float(const struct tern_catalog *catalog,
                                  const struct tern_hyper *hyper, const char *key, double *value,
                                  struct tern_error *error);

/* hyper->window from attention.sliding_window (absent: 0). */
enum tern_status tern_hyper_window(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                                   struct tern_error *error);
/* For families whose layers see everything: a window shorter than the trained context is refused.
 */
enum tern_status tern_hyper_no_window(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                                      struct tern_error *error);
/* Refuses a file whose attention.sliding_window_pattern says other than one full layer in `every`.
 */
enum tern_status tern_hyper_window_every(const struct tern_catalog *catalog,
                                         const struct tern_hyper *hyper, uint32_t every,
                                         struct tern_error *error);

#endif
