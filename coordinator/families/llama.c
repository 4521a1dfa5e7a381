/*
 * Llama 1 to 3.3 and what shares its architecture (Mistral, SmolLM2):
 *
 *     x = embedding
 *     layer: x += attention(norm(x)); x += silu-ffn(norm(x))
 *     logits = head(norm(x))
 *
 * RoPE pairs are interleaved (q and k rows are permuted in the file); Llama 3.1 and later divide
 * the frequencies by the tensor rope_freqs.
 */
#include "coordinator/families/family.h"

static void build(struct tern_builder *b)
{
    const struct tern_hyper *h = b->hyper;
    const struct tern_attention_form attention = {
        .window = h->window,
        .rope_table =
            tern_build_rope_table(b, h->rope_base, h->rope_linear, tern_build_rope_factors(b)),
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

static enum tern_status read(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                             struct tern_error *error)
{
    return tern_hyper_window(catalog, hyper, error);
}

const struct tern_family tern_family_llama = {
    .architecture = "llama",
    .rope_pairs = TERN_ROPE_INTERLEAVED,
    .read = read,
    .build = build,
};
