/* The shared blocks: each a few operations in the order that every family shares. */
#include "coordinator/graph/blocks.h"

#include <stdio.h>

tern_ref tern_block_embedding(struct tern_builder *b, float factor)
{
    const struct tern_hyper *h = b->hyper;
    return tern_build_embed(b, tern_build_matrix(b, "token_embd.weight", h->vocabulary, h->width),
                            factor);
}

tern_ref tern_block_norm(struct tern_builder *b, tern_ref x, const char *name)
{
    char tensor[TERN_LABEL_SIZE];
    snprintf(tensor, sizeof tensor, "%s.weight", name);
    return tern_build_norm(b, x, tern_build_vector(b, tensor, b->hyper->width), 1, name);
}

/* One of the projections q, k, v: `heads` heads. */
static tern_ref project(struct tern_builder *b, tern_ref x, char which, uint32_t heads, bool bias)
{
    const uint32_t rows = heads * b->hyper->head_size;
    char tensor[32], label[32];
    snprintf(tensor, sizeof tensor, "attn_%c.weight", which);
    snprintf(label, sizeof label, "attn %c", which);
    tern_ref y =
        tern_build_matmul(b, x, tern_build_matrix(b, tensor, rows, b->hyper->width), label);
    if (!bias)
        return y;
    snprintf(tensor, sizeof tensor, "attn_%c.bias", which);
    snprintf(label, sizeof label, "attn %c bias", which);
    return tern_build_bias(b, y, tern_build_vector(b, tensor, rows), label);
}

static tern_ref head_norm(struct tern_builder *b, tern_ref x, char which, uint32_t heads)
{
    char tensor[32], label[32];
    snprintf(tensor, sizeof tensor, "attn_%c_norm.weight", which);
    snprintf(label, sizeof label, "attn %c norm", which);
    return tern_build_norm(b, x, tern_build_vector(b, tensor, b->hyper->head_size), heads, label);
}

tern_ref tern_block_attention(struct tern_builder *b, tern_ref x,
                              const struct tern_attention_form *form)
{
    const struct tern_hyper *h = b->hyper;
    tern_ref q = project(b, x, 'q', h->heads, form->bias);
    tern_ref k = project(b, x, 'k', h->kv_heads, form->bias);
    const tern_ref v = project(b, x, 'v', h->kv_heads, form->bias);
    if (form->head_norms) {
        q = head_norm(b, q, 'q', h->heads);
        k = head_norm(b, k, 'k', h->kv_heads);
    }
    q = tern_build_rope(b, q, h->heads, form->rope_table, "attn q rope");
    k = tern_build_rope(b, k, h->kv_heads, form->rope_table, "attn k rope");
    tern_build_kv_write(b, k, v);
    const tern_ref attended = tern_build_attention(b, q, form->window);
    const struct tern_weight output =
        tern_build_matrix(b, "attn_output.weight", h->width, h->heads * h->head_size);
    return tern_build_matmul(b, attended, output, "attn output");
}

tern_ref tern_block_feed_forward(struct tern_builder *b, tern_ref x,
                                 enum tern_activation activation)
{
    const struct tern_hyper *h = b->hyper;
    const tern_ref gate = tern_build_matmul(
        b, x, tern_build_matrix(b, "ffn_gate.weight", h->ffn, h->width), "ffn gate");
    const tern_ref up =
        tern_build_matmul(b, x, tern_build_matrix(b, "ffn_up.weight", h->ffn, h->width), "ffn up");
    const tern_ref inner = tern_build_glu(b, activation, gate, up);
    return tern_build_matmul(b, inner, tern_build_matrix(b, "ffn_down.weight", h->width, h->ffn),
                             "ffn down");
}

tern_ref tern_block_residual(struct tern_builder *b, tern_ref x, tern_ref y, const char *of)
{
    char label[TERN_LABEL_SIZE];
    snprintf(label, sizeof label, "%s add", of);
    return tern_build_add(b, x, y, label);
}

void tern_block_head(struct tern_builder *b, tern_ref x)
{
    const struct tern_hyper *h = b->hyper;
    const char *name = tern_build_has(b, "output.weight") ? "output.weight" : "token_embd.weight";
    tern_build_logits(
        b, tern_build_matmul(b, x, tern_build_matrix(b, name, h->vocabulary, h->width), "head"));
}
