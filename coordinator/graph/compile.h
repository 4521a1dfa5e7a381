/*
 * From a model file's catalog to a plan: hyperparameters are read and checked, the family orders
 * blocks into a graph (SSA), passes infer shapes, fuse, place on workers and plan memory by
 * liveness, and the result is written as a flat plan (proto/plan.h).
 */
#ifndef TERN_COMPILE_H
#define TERN_COMPILE_H

#include "proto/board.h"
#include "proto/catalog.h"
#include "proto/plan.h"

/* What the user asked for; part of what identifies a loaded model. 0 = default everywhere. */
struct tern_options {
    uint32_t threads;
    int tier;       /* enum tern_tier, or -1: the best */
    uint32_t batch; /* rows of a step, 1 .. TERN_MAX_ROWS; 0 = 512 */
    enum tern_precision precision;
    enum tern_kv_type kv;
    uint64_t context; /* 0: the trained length or what memory allows */
    bool unfused;
};

/* Hyperparameters, checked: within limits and consistent with each other. */
struct tern_hyper {
    const struct tern_family *family;
    uint32_t layers, width, heads, kv_heads, head_size, ffn, vocabulary;
    uint32_t trained_context;
    uint32_t window;               /* 0: none */
    uint32_t rope_size;            /* rotated dimensions */
    double rope_base, rope_linear; /* linear factor, 1 = none */
    double rope_base_window;       /* of sliding-window layers */
    float epsilon;
    float attention_scale;
};

/* A RoPE table in the tables segment: row p holds position p, filled by the coordinator before a
 * step uses it. */
struct tern_rope_table {
    double base, linear;
    uint32_t size;           /* rotated dimensions */
    int64_t factors_tensor;  /* catalog index of rope_freqs.weight, or -1 */
    uint64_t offset, stride; /* in the tables segment's data */
};
enum { TERN_MAX_ROPE_TABLES = 2 };

/* What the compiler did, for `tern plan`. */
struct tern_compile_report {
    uint32_t operations_before, operations_after;
    uint32_t buffers_before, buffers_after;
    uint64_t bytes_before, bytes_after; /* of activations */
};

struct tern_compiled {
    struct tern_hyper hyper;
    void *plan; /* malloc'ed; begins with struct tern_plan */
    uint64_t plan_bytes;
    uint64_t *weight_offsets; /* per tensor of the catalog, in the weights segment; malloc'ed */
    uint64_t weight_bytes;    /* data size of the weights segment */
    uint64_t tables_bytes;
    struct tern_rope_table table[TERN_MAX_ROPE_TABLES];
    uint32_t tables;
    struct tern_compile_report report;
};

/* TERN_BAD_MODEL, TERN_UNSUPPORTED (naming the architecture or the tensor and its type),
 * TERN_USAGE. Reads only the catalog. */
enum tern_status tern_hyper_read(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                                 struct tern_error *error);

/* Compiles for `context` positions (> 0) and options->batch rows. Free with tern_compiled_free. */
enum tern_status tern_compile(const struct tern_catalog *catalog,
                              const struct tern_options *options, uint32_t context,
                              struct tern_compiled *out, struct tern_error *error);
void tern_compiled_free(struct tern_compiled *compiled);

/* Bytes that a compiled model needs besides its weights, without compiling the plan: for choosing
 * the context. Pages are pages for `context` positions of one sequence. */
enum tern_status tern_compile_sizes(const struct tern_catalog *catalog,
                                    const struct tern_options *options, uint32_t context,
                                    uint64_t *weights, uint64_t *kv, uint64_t *activations,
                                    uint64_t *tables, struct tern_error *error);

/* `tern plan`: format "json", "table", "dot" or "svg"; malloc'ed text, or NULL. */
char *tern_plan_print(const struct tern_compiled *compiled, const struct tern_catalog *catalog,
                      const char *format, struct tern_error *error);

/* "llama, qwen2, qwen3, gemma3": for messages. */
const char *tern_family_names(void);

#endif
