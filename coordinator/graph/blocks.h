/*
 * The shared blocks that families are made of. A block knows how an operation runs, never which
 * family calls it: what differs between families is said in its parameters.
 *
 * Tensor names are GGUF's: inside a layer "attn_q.weight" means "blk.N.attn_q.weight".
 */
#ifndef TERN_BLOCKS_H
#define TERN_BLOCKS_H

#include "coordinator/graph/builder.h"

/* Rows of token_embd, times `factor` (1 = none). */
tern_ref tern_block_embedding(struct tern_builder *b, float factor);

/* RMSNorm with the gain `name`.weight; x is as wide as the model. */
tern_ref tern_block_norm(struct tern_builder *b, tern_ref x, const char *name);

struct tern_attention_form {
    bool bias;           /* q, k and v have biases */
    bool head_norms;     /* q and k are normed head by head before RoPE */
    uint32_t window;     /* sliding window in positions, 0 = all */
    uint32_t rope_table; /* from tern_build_rope_table */
};

/* Projections, RoPE, cache, attention, output projection. */
tern_ref tern_block_attention(struct tern_builder *b, tern_ref x,
                              const struct tern_attention_form *form);

/* down(activation(gate(x)) * up(x)) */
tern_ref tern_block_feed_forward(struct tern_builder *b, tern_ref x,
                                 enum tern_activation activation);

/* x + y, where y came from the block called `of` ("attn", "ffn"). */
tern_ref tern_block_residual(struct tern_builder *b, tern_ref x, tern_ref y, const char *of);

/* Logits: output.weight, or the embedding's table where the file has none (tied). */
void tern_block_head(struct tern_builder *b, tern_ref x);

#endif
