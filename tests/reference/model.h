/* What a model file says: hyperparameters, and the tensors of each layer by their role. */
#ifndef REFERENCE_MODEL_H
#define REFERENCE_MODEL_H

#include "gguf_read.h"

/* A matrix and the bias that is added to its product (NULL: none). */
struct linear {
    const struct tensor *weight;
    float *bias;
};

/* Norms that a family does not have are NULL. */
struct layer {
    float *attention_norm, *q_norm, *k_norm, *post_attention_norm, *ffn_norm, *post_ffn_norm;
    struct linear q, k, v, output, gate, up, down;
    double *rope;  /* frequency of each pair */
    size_t window; /* 0: sees everything */
};

struct model {
    bool gemma;
    bool interleaved; /* rotates pairs (2i, 2i+1) */
    size_t layers, width, heads, kv_heads, head_size, rope_dimensions, ffn_width, vocabulary;
    float epsilon, attention_scale;
    const struct tensor *embedding;
    struct linear head;
    float *output_norm;
    struct layer *layer;
};

struct model *model_open(const char *path);

#endif
