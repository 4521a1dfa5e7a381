/*
 * Qwen3 (dense): Llama's layer with RMSNorm of each head of q and k before RoPE, no biases, a head
 * size of its own, and half-split RoPE pairs.
 */
#include "coordinator/families/family.h"

static void build(struct tern_builder *b)
{
    const struct tern_hyper *h = b->hyper;
    const struct tern_attention_form attention = {
        .head_norms = true,
        .rope_table = tern_build_rope_table(b, h->rope_base, h->rope_linear, -1),
    };
    tern_ref x = tern_block_embedding(b, 1.0f);
    for (uint32_t layer = 0; layer < h->layers; layer++) {
        tern_build_layer(b, layer);
        tern_ref y = tern_block_norm(b, x, "attn_norm");
        y = tern_block_attention(b, y, &attention);
        x = tern_block_residual(b, x, y, "attn");
        y = tern_block_norm(b, x, "ffn_norm");
        y = tern_block_feed_forward(b, y, TERN_SILU);
        x = tern_block_residual(b, x, y, "ffn");
    }
    tern_build_layer(b, TERN_NO_LAYER);
    tern_block_head(b, tern_block_norm(b, x, "output_norm"));
}

const struct tern_family tern_family_qwen3 = {
    .architecture = "qwen3",
    .rope_pairs = TERN_ROPE_HALVES,
    .read = tern_hyper_no_window,
    .build = build,
};
