/*
 * Building a graph, operation by operation: what the shared blocks are made of. A builder remembers
 * its first failure; every call after it does nothing and returns 0, so that blocks and families
 * read like diagrams. A failed operation names its tensor in the error.
 */
#ifndef TERN_BUILDER_H
#define TERN_BUILDER_H

#include "coordinator/graph/graph.h"

struct tern_builder {
    const struct tern_catalog *catalog;
    const struct tern_hyper *hyper;
    struct tern_graph *graph;
    bool *used;     /* per tensor of the catalog */
    bool quiet;     /* log nothing */
    uint16_t layer; /* of the operations being added, or TERN_NO_LAYER */
    enum tern_status status;
    struct tern_error *error;
};

/* Operations from here on belong to `layer` (TERN_NO_LAYER: embedding, head). */
void tern_build_layer(struct tern_builder *b, uint32_t layer);

/* ---- weights: tensors of the catalog, checked (tensors.c) ---- */

/* Inside a layer `name` means "blk.LAYER.name". A matrix of `rows` outputs and `columns` inputs of
 * any type with kernels. */
struct tern_weight tern_build_matrix(struct tern_builder *b, const char *name, uint32_t rows,
                                     uint32_t columns);
/* A gain or bias: one F32 row. */
struct tern_weight tern_build_vector(struct tern_builder *b, const char *name, uint32_t columns);
/* True if the file has the tensor. */
bool tern_build_has(const struct tern_builder *b, const char *name);

/* Catalog index of rope_freqs.weight, rope_size/2 factors, or -1 if the file has none. */
int64_t tern_build_rope_factors(struct tern_builder *b);

/* Fails unless every tensor of the file was used or cannot change an answer (those are logged). */
enum tern_status tern_build_check_unused(struct tern_builder *b);

/* ---- operations (proto/plan.h says what each computes) ---- */

tern_ref tern_build_embed(struct tern_builder *b, struct tern_weight table, float factor);
/* `groups` vectors of gain.columns values a row. */
tern_ref tern_build_norm(struct tern_builder *b, tern_ref x, struct tern_weight gain,
                         uint32_t groups, const char *label);
tern_ref tern_build_matmul(struct tern_builder *b, tern_ref x, struct tern_weight weight,
                           const char *label);
tern_ref tern_build_bias(struct tern_builder *b, tern_ref x, struct tern_weight bias,
                         const char *label);
tern_ref tern_build_rope(struct tern_builder *b, tern_ref x, uint32_t heads, uint32_t table,
                         const char *label);
void tern_build_kv_write(struct tern_builder *b, tern_ref keys, tern_ref values);
tern_ref tern_build_attention(struct tern_builder *b, tern_ref queries, uint32_t window);
tern_ref tern_build_glu(struct tern_builder *b, enum tern_activation activation, tern_ref gate,
                        tern_ref up);
tern_ref tern_build_add(struct tern_builder *b, tern_ref x, tern_ref y, const char *label);
/* The logits, and the largest of each output row. */
void tern_build_logits(struct tern_builder *b, tern_ref logits);

/* A RoPE table; factors_tensor is a catalog index or -1. Its index. */
uint32_t tern_build_rope_table(struct tern_builder *b, double base, double linear,
                               int64_t factors_tensor);

#endif
