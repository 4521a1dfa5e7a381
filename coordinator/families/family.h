/*
 * A model family: the order of the blocks in its layers. One file per family, one line in
 * registry.c. A family never knows how an operation runs (graph/blocks.h does).
 */
#ifndef TERN_FAMILY_H
#define TERN_FAMILY_H

#include "coordinator/graph/blocks.h"
#include "coordinator/graph/hyper.h"

struct tern_family {
    const char *architecture; /* general.architecture */
    enum tern_rope_pairs rope_pairs;
    /* Keys of attention and RoPE that only this family reads, without the architecture; the rest
     * NULL. */
    const char *keys[4];
    /* Reads and checks what only this family has, after the common hyperparameters; or NULL. */
    enum tern_status (*read)(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                             struct tern_error *error);
    /* Adds the whole model to the builder's graph, from the embedding to the logits. */
    void (*build)(struct tern_builder *b);
};

/* NULL if there is none of that name. */
const struct tern_family *tern_family_find(struct tern_string architecture);

extern const struct tern_family tern_family_llama, tern_family_qwen2, tern_family_qwen3,
    tern_family_gemma3;

#endif
