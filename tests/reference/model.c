/* Families llama (without experts), qwen2, qwen3 and gemma3, as FORMATS.md tells them apart. */
#include "model.h"

#include "rope.h"
#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A file and the name of its family, which begins the keys of its hyperparameters. */
struct source {
    const struct gguf *file;
    char family[64];
};

static double number(const struct source *source, const char *key, double otherwise)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", source->family, key);
    return gguf_number(source->file, full, otherwise);
}

static size_t count(const struct source *source, const char *key, double otherwise)
{
    const double n = number(source, key, otherwise);
    if (!(n >= 1))
        fail("%s.%s is missing", source->family, key);
    return (size_t)n;
}

static float *floats_of(const struct tensor *tensor)
{
    if (!tensor)
        return NULL;
    float *row = allocate(tensor->columns, sizeof *row);
    weights_row(row, tensor, 0);
    return row;
}

static const struct tensor *part(const struct source *source, size_t layer, const char *name)
{
    char full[160];
    snprintf(full, sizeof full, "blk.%zu.%s", layer, name);
    return gguf_tensor(source->file, full);
}

static float *gain(const struct source *source, size_t layer, const char *name)
{
    return floats_of(part(source, layer, name));
}

static struct linear linear(const struct source *source, size_t layer, const char *name)
{
    char full[80];
    struct linear linear;
    snprintf(full, sizeof full, "%s.weight", name);
    linear.weight = part(source, layer, full);
    if (!linear.weight)
        fail("layer %zu has no %s", layer, full);
    snprintf(full, sizeof full, "%s.bias", name);
    linear.bias = gain(source, layer, full);
    return linear;
}

static double linear_factor(const struct source *source)
{
    char key[160], type[32];
    snprintf(key, sizeof key, "%s.rope.scaling.type", source->family);
    gguf_string(source->file, key, type, sizeof type);
    if (strcmp(type, "linear") == 0)
        return number(source, "rope.scaling.factor", 1);
    if (type[0] != '\0' && strcmp(type, "none") != 0)
        fail("RoPE scaling %s is not known", type);
    return 1;
}

/* Gemma 3: every sixth layer sees everything and rotates by freq_base and the linear factor, the
 * others see a window and rotate by a base of their own. */
static void set_attention(const struct source *source, struct model *model, size_t index,
                          const float *factors)
{
    struct layer *layer = &model->layer[index];
    const bool local = model->gemma && (index + 1) % 6 != 0;
    const double base = number(source, local ? "rope.freq_base_swa" : "rope.freq_base", 10000);
    const double factor = local ? 1 : linear_factor(source);
    layer->window = local ? count(source, "attention.sliding_window", 0) : 0;
    layer->rope = allocate(model->rope_dimensions / 2, sizeof *layer->rope);
    rope_frequencies(layer->rope, model->rope_dimensions, base, factor, factors);
}

static void read_layer(const struct source *source, struct model *model, size_t index)
{
    model->layer[index] = (struct layer){
        .attention_norm = gain(source, index, "attn_norm.weight"),
        .q = linear(source, index, "attn_q"),
        .k = linear(source, index, "attn_k"),
        .v = linear(source, index, "attn_v"),
        .q_norm = gain(source, index, "attn_q_norm.weight"),
        .k_norm = gain(source, index, "attn_k_norm.weight"),
        .output = linear(source, index, "attn_output"),
        .post_attention_norm = gain(source, index, "post_attention_norm.weight"),
        .ffn_norm = gain(source, index, "ffn_norm.weight"),
        .gate = linear(source, index, "ffn_gate"),
        .up = linear(source, index, "ffn_up"),
        .down = linear(source, index, "ffn_down"),
        .post_ffn_norm = gain(source, index, "post_ffw_norm.weight"),
    };
}

static void read_hyperparameters(const struct source *source, struct model *model)
{
    model->gemma = strcmp(source->family, "gemma3") == 0;
    model->interleaved = strcmp(source->family, "llama") == 0;
    model->layers = count(source, "block_count", 0);
    model->width = count(source, "embedding_length", 0);
    model->ffn_width = count(source, "feed_forward_length", 0);
    model->heads = count(source, "attention.head_count", 0);
    model->kv_heads = count(source, "attention.head_count_kv", (double)model->heads);
    model->head_size = count(source, "attention.key_length", (double)(model->width / model->heads));
    model->rope_dimensions = count(source, "rope.dimension_count", (double)model->head_size);
    model->epsilon = (float)number(source, "attention.layer_norm_rms_epsilon", 0);
    if (!(model->epsilon >= 0x1p-50f))
        fail("the epsilon of the norms is missing or too small");
    const bool gemma_27b = model->gemma && model->layers == 62;
    const size_t scaled = gemma_27b ? model->width / model->heads : model->head_size;
    model->attention_scale = (float)(1.0 / sqrt((double)scaled));
}

static bool is_known(const char *family)
{
    static const char *const families[] = {"llama", "qwen2", "qwen3", "gemma3"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(family, families[i]) == 0)
            return true;
    return false;
}

struct model *model_open(const char *path)
{
    struct source source = {.file = gguf_open(path)};
    struct model *model = allocate(1, sizeof *model);
    gguf_string(source.file, "general.architecture", source.family, sizeof source.family);
    if (!is_known(source.family))
        fail("family %s is not known", source.family);
    read_hyperparameters(&source, model);
    model->embedding = gguf_tensor(source.file, "token_embd.weight");
    if (!model->embedding)
        fail("%s has no token_embd.weight", path);
    model->vocabulary = model->embedding->rows;
    const struct tensor *head = gguf_tensor(source.file, "output.weight");
    model->head.weight = head ? head : model->embedding;
    model->head.bias = floats_of(gguf_tensor(source.file, "output.bias"));
    model->output_norm = floats_of(gguf_tensor(source.file, "output_norm.weight"));
    const float *factors = floats_of(gguf_tensor(source.file, "rope_freqs.weight"));
    model->layer = allocate(model->layers, sizeof *model->layer);
    for (size_t i = 0; i < model->layers; i++) {
        read_layer(&source, model, i);
        set_attention(&source, model, i, factors);
    }
    return model;
}
