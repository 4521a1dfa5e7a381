/*
 * Gemma 3 (text):
 *
 *     x = embedding * sqrt(width)
 *     layer: x += norm(attention(norm(x))); x += norm(gelu-ffn(norm(x)))
 *     logits = head(norm(x)), tied to the embedding
 *
 * Every sixth layer sees the whole sequence and rotates with rope.freq_base (and the linear
 * factor); the others see a sliding window and rotate with a base of their own. Converters have two
 * names for each base. Gains are used as the file stores them (already 1 + w). q and k are normed
 * head by head.
 */
#include "coordinator/families/family.h"

#include <math.h>

enum {
    FULL_EVERY = 6, /* layer l is full iff (l + 1) % 6 == 0 */
    LAYERS_27B = 62 /* the size whose attention scale follows width/heads, not the head size */
};

static void build(struct tern_builder *b)
{
    const struct tern_hyper *h = b->hyper;
    const struct tern_attention_form full = {
        .head_norms = true,
        .rope_table = tern_build_rope_table(b, h->rope_base, h->rope_linear, -1),
    };
    const struct tern_attention_form local = {
        .head_norms = true,
        .window = h->window,
        .rope_table = tern_build_rope_table(b, h->rope_base_window, 1.0, -1),
    };
    tern_ref x = tern_block_embedding(b, (float)sqrt((double)h->width));
    for (uint32_t layer = 0; layer < h->layers; layer++) {
        const bool is_full = (layer + 1) % FULL_EVERY == 0;
        tern_build_layer(b, layer);
        tern_ref y = tern_block_norm(b, x, "attn_norm");
        y = tern_block_attention(b, y, is_full ? &full : &local);
        y = tern_block_norm(b, y, "post_attention_norm");
        x = tern_block_residual(b, x, y, "attn");
        y = tern_block_norm(b, x, "ffn_norm");
        y = tern_block_feed_forward(b, y, TERN_GELU);
        y = tern_block_norm(b, y, "post_ffw_norm");
        x = tern_block_residual(b, x, y, "ffn");
    }
    tern_build_layer(b, TERN_NO_LAYER);
    tern_block_head(b, tern_block_norm(b, x, "output_norm"));
}

static enum tern_status read(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                             struct tern_error *error)
{
    hyper->rope_base_window = 10000;
    if (tern_hyper_window(catalog, hyper, error) != TERN_OK ||
        tern_hyper_float(catalog, hyper, "rope.global.freq_base", &hyper->rope_base, error) !=
            TERN_OK ||
        tern_hyper_float(catalog, hyper, "rope.local.freq_base", &hyper->rope_base_window, error) !=
            TERN_OK ||
        tern_hyper_float(catalog, hyper, "rope.freq_base_swa", &hyper->rope_base_window, error) !=
            TERN_OK ||
        tern_hyper_window_every(catalog, hyper, FULL_EVERY, error) != TERN_OK)
        return error->status;
    if (hyper->window == 0)
        return tern_fail(error, TERN_BAD_MODEL, "the file has no gemma3.attention.sliding_window");
    if (hyper->layers == LAYERS_27B)
        hyper->attention_scale = (float)(1 / sqrt((double)hyper->width / hyper->heads));
    return TERN_OK;
}

const struct tern_family tern_family_gemma3 = {
    .architecture = "gemma3",
    .rope_pairs = TERN_ROPE_HALVES,
    .keys = {"attention.sliding_window_pattern", "rope.freq_base_swa", "rope.local.freq_base",
             "rope.global.freq_base"},
    .read = read,
    .build = build,
};
