/* A second implementation of Tern's arithmetic contract, written from the text of NUMERICS.md and
 * FORMATS.md alone and sharing no code with Tern. It computes the logits of every position, one
 * position at a time, by plain loops. Tern's logits must have the same bits.
 *
 *     reference MODEL.gguf --tokens FILE.json [--precision fast|high] [--kv f16|f32] -o OUT
 *
 * OUT receives float32 logits, a row per position. The model file is trusted to be good. */
#include "attention.h"
#include "gguf_read.h"
#include "model.h"
#include "numbers.h"
#include "rope.h"
#include "weights.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One run: a model, its caches, and a vector for each thing that a position computes. */
struct run {
    const struct model *model;
    int steps; /* of rounded activations: 127 or 32639 */
    struct cache *cache;
    float *x, *normed, *q, *k, *v, *attended, *gate, *up, *update, *logits;
};

static void project(struct run *run, float *out, const struct linear *linear, const float *x)
{
    weights_product(out, linear->weight, x, run->steps);
    if (linear->bias)
        add(out, out, linear->bias, linear->weight->rows);
}

/* Where the family has no such norm, gain is NULL and x stays as it is. */
static void norm_heads(const struct model *model, float *x, size_t heads, const float *gain)
{
    for (size_t h = 0; gain && h < heads; h++)
        norm(x + h * model->head_size, x + h * model->head_size, gain, model->head_size,
             model->epsilon);
}

static void rotate_heads(const struct model *model, float *x, size_t heads, const double *rope,
                         size_t position)
{
    for (size_t h = 0; h < heads; h++)
        rope_rotate(x + h * model->head_size, model->rope_dimensions, rope, position,
                    model->interleaved);
}

static void embed(struct run *run, size_t token)
{
    const struct model *model = run->model;
    const float factor = (float)sqrt((double)model->width);
    weights_row(run->x, model->embedding, token);
    for (size_t i = 0; model->gemma && i < model->width; i++)
        run->x[i] = value(run->x[i] * factor);
}

/* x += attention(norm(x)) */
static void attend(struct run *run, size_t index, size_t position)
{
    const struct model *model = run->model;
    const struct layer *layer = &model->layer[index];
    struct cache *cache = &run->cache[index];

    norm(run->normed, run->x, layer->attention_norm, model->width, model->epsilon);
    project(run, run->q, &layer->q, run->normed);
    project(run, run->k, &layer->k, run->normed);
    project(run, run->v, &layer->v, run->normed);
    norm_heads(model, run->q, model->heads, layer->q_norm);
    norm_heads(model, run->k, model->kv_heads, layer->k_norm);
    rotate_heads(model, run->q, model->heads, layer->rope, position);
    rotate_heads(model, run->k, model->kv_heads, layer->rope, position);
    attention_store(cache, position, run->k, run->v);
    for (size_t h = 0; h < model->heads; h++)
        attention_head(run->attended + h * model->head_size, cache, run->q + h * model->head_size,
                       h * model->kv_heads / model->heads, position, layer->window,
                       model->attention_scale);
    project(run, run->update, &layer->output, run->attended);
    if (layer->post_attention_norm)
        norm(run->update, run->update, layer->post_attention_norm, model->width, model->epsilon);
    add(run->x, run->x, run->update, model->width);
}

/* x += down(act(gate(norm(x))) * up(norm(x))) */
static void feed_forward(struct run *run, size_t index)
{
    const struct model *model = run->model;
    const struct layer *layer = &model->layer[index];

    norm(run->normed, run->x, layer->ffn_norm, model->width, model->epsilon);
    project(run, run->gate, &layer->gate, run->normed);
    project(run, run->up, &layer->up, run->normed);
    for (size_t i = 0; i < model->ffn_width; i++) {
        const float g = run->gate[i];
        run->gate[i] = value((model->gemma ? gelu(g) : silu(g)) * run->up[i]);
    }
    project(run, run->update, &layer->down, run->gate);
    if (layer->post_ffn_norm)
        norm(run->update, run->update, layer->post_ffn_norm, model->width, model->epsilon);
    add(run->x, run->x, run->update, model->width);
}

/* The whole model for one token: leaves its logits in run->logits. */
static void forward(struct run *run, size_t token, size_t position)
{
    const struct model *model = run->model;
    embed(run, token);
    for (size_t index = 0; index < model->layers; index++) {
        attend(run, index, position);
        feed_forward(run, index);
    }
    norm(run->normed, run->x, model->output_norm, model->width, model->epsilon);
    project(run, run->logits, &model->head, run->normed);
}

static struct run start(const struct model *model, size_t positions, int steps, bool half)
{
    const size_t kv_width = model->kv_heads * model->head_size;
    const size_t q_width = model->heads * model->head_size;
    struct run run = {
        .model = model,
        .steps = steps,
        .cache = allocate(model->layers, sizeof *run.cache),
        .x = allocate(model->width, sizeof(float)),
        .normed = allocate(model->width, sizeof(float)),
        .q = allocate(q_width, sizeof(float)),
        .k = allocate(kv_width, sizeof(float)),
        .v = allocate(kv_width, sizeof(float)),
        .attended = allocate(q_width, sizeof(float)),
        .gate = allocate(model->ffn_width, sizeof(float)),
        .up = allocate(model->ffn_width, sizeof(float)),
        .update = allocate(model->width, sizeof(float)),
        .logits = allocate(model->vocabulary, sizeof(float)),
    };
    for (size_t i = 0; i < model->layers; i++)
        run.cache[i] = (struct cache){
            .keys = allocate(positions * kv_width, sizeof(float)),
            .values = allocate(positions * kv_width, sizeof(float)),
            .kv_heads = model->kv_heads,
            .head_size = model->head_size,
            .half = half,
        };
    return run;
}

/* All numbers in the file, whatever stands between them. */
static size_t *read_tokens(const char *path, size_t *n)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail("cannot open %s", path);
    size_t room = 0, *tokens = NULL;
    for (*n = 0; !feof(file);) {
        unsigned long token;
        if (*n == room) {
            room = room ? 2 * room : 64;
            tokens = realloc(tokens, room * sizeof *tokens);
        }
        if (!tokens)
            fail("no memory for %zu tokens", room);
        if (fscanf(file, "%lu", &token) == 1)
            tokens[(*n)++] = token;
        else
            fgetc(file);
    }
    fclose(file);
    return tokens;
}

struct options {
    const char *model, *tokens, *precision, *kv, *out;
};

/* Where an option's text goes; NULL if there is no such option. */
static const char **option(struct options *options, const char *name)
{
    if (strcmp(name, "--tokens") == 0)
        return &options->tokens;
    if (strcmp(name, "--precision") == 0)
        return &options->precision;
    if (strcmp(name, "--kv") == 0)
        return &options->kv;
    return strcmp(name, "-o") == 0 ? &options->out : NULL;
}

static bool is_one_of(const char *text, const char *first, const char *second)
{
    return strcmp(text, first) == 0 || strcmp(text, second) == 0;
}

static struct options read_options(int argc, char **argv)
{
    struct options options = {.precision = "fast", .kv = "f16"};
    bool good = argc >= 2;
    options.model = good ? argv[1] : NULL;
    for (int i = 2; good && i < argc; i += 2) {
        const char **place = option(&options, argv[i]);
        good = place && i + 1 < argc;
        if (good)
            *place = argv[i + 1];
    }
    if (!good || !options.tokens || !options.out || !is_one_of(options.precision, "fast", "high") ||
        !is_one_of(options.kv, "f16", "f32"))
        fail("usage: reference MODEL.gguf --tokens FILE.json [--precision fast|high] "
             "[--kv f16|f32] -o OUT");
    return options;
}

int main(int argc, char **argv)
{
    const struct options options = read_options(argc, argv);
    const struct model *model = model_open(options.model);
    size_t n;
    const size_t *tokens = read_tokens(options.tokens, &n);
    struct run run = start(model, n, strcmp(options.precision, "high") == 0 ? 32639 : 127,
                           strcmp(options.kv, "f16") == 0);
    FILE *out = fopen(options.out, "wb");
    if (!out)
        fail("cannot write %s", options.out);
    for (size_t position = 0; position < n; position++) {
        if (tokens[position] >= model->vocabulary)
            fail("token %zu is not in the vocabulary of %zu", tokens[position], model->vocabulary);
        forward(&run, tokens[position], position);
        if (fwrite(run.logits, sizeof(float), model->vocabulary, out) != model->vocabulary)
            fail("cannot write %s", options.out);
    }
    if (fclose(out) != 0)
        fail("cannot write %s", options.out);
    return 0;
}
