#include "model_catalog.h"

#include "workers/loader/gguf.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct model_key *put_key(struct model *model, const char *key)
{
    char full[TERN_MAX_NAME + 1];
    if (strncmp(key, "general.", 8) == 0 || strncmp(key, "split.", 6) == 0)
        snprintf(full, sizeof full, "%s", key);
    else
        snprintf(full, sizeof full, "%s.%s", model->architecture, key);
    for (uint32_t i = 0; i < model->keys; i++)
        if (strcmp(model->key[i].name, full) == 0)
            return &model->key[i];
    assert_true(model->keys < MODEL_MAX_KEYS);
    struct model_key *new = &model->key[model->keys++];
    *new = (struct model_key){.count = 1};
    strcpy(new->name, full);
    return new;
}

void model_u32(struct model *model, const char *key, uint32_t value)
{
    struct model_key *k = put_key(model, key);
    k->type = TERN_V_U32;
    k->is_array = false;
    k->count = 1;
    k->value.u32 = value;
}

void model_f32(struct model *model, const char *key, float value)
{
    struct model_key *k = put_key(model, key);
    k->type = TERN_V_F32;
    k->value.f32 = value;
}

void model_text(struct model *model, const char *key, const char *value)
{
    struct model_key *k = put_key(model, key);
    k->type = TERN_V_STRING;
    snprintf(k->value.text, sizeof k->value.text, "%s", value);
}

void model_list(struct model *model, const char *key, const uint32_t *values, uint64_t count)
{
    struct model_key *k = put_key(model, key);
    k->type = TERN_V_U32;
    k->is_array = true;
    k->count = count;
    memcpy(k->value.list, values, count * sizeof *values);
}

void model_flags(struct model *model, const char *key, const bool *values, uint64_t count)
{
    struct model_key *k = put_key(model, key);
    k->type = TERN_V_BOOL;
    k->is_array = true;
    k->count = count;
    memcpy(k->value.flags, values, count * sizeof *values);
}

void model_remove_key(struct model *model, const char *key)
{
    *put_key(model, key) = model->key[model->keys - 1];
    model->keys--;
}

void model_tensor(struct model *model, const char *name, uint32_t type, uint64_t columns,
                  uint64_t rows)
{
    uint32_t i = 0;
    while (i < model->tensors && strcmp(model->tensor[i].name, name) != 0)
        i++;
    assert_true(i < MODEL_MAX_TENSORS);
    model->tensors += i == model->tensors;
    model->tensor[i] = (struct model_tensor){.type = type, .columns = columns, .rows = rows};
    snprintf(model->tensor[i].name, sizeof model->tensor[i].name, "%s", name);
}

void model_remove_tensor(struct model *model, const char *name)
{
    for (uint32_t i = 0; i < model->tensors; i++)
        if (strcmp(model->tensor[i].name, name) == 0) {
            model->tensor[i] = model->tensor[--model->tensors];
            return;
        }
    fail_msg("no tensor %s", name);
}

static void layer_tensor(struct model *model, uint32_t layer, const char *name, uint32_t type,
                         uint64_t columns, uint64_t rows)
{
    char full[100];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    model_tensor(model, full, type, columns, rows);
}

static void make_layer(struct model *model, uint32_t layer, uint32_t type)
{
    layer_tensor(model, layer, "attn_norm.weight", TERN_F32, 256, 1);
    layer_tensor(model, layer, "ffn_norm.weight", TERN_F32, 256, 1);
    layer_tensor(model, layer, "attn_q.weight", type, 256, 256);
    layer_tensor(model, layer, "attn_k.weight", type, 256, 128);
    layer_tensor(model, layer, "attn_v.weight", type, 256, 128);
    layer_tensor(model, layer, "attn_output.weight", type, 256, 256);
    layer_tensor(model, layer, "ffn_gate.weight", type, 256, 512);
    layer_tensor(model, layer, "ffn_up.weight", type, 256, 512);
    layer_tensor(model, layer, "ffn_down.weight", type, 512, 256);
    if (strcmp(model->architecture, "qwen2") == 0) {
        layer_tensor(model, layer, "attn_q.bias", TERN_F32, 256, 1);
        layer_tensor(model, layer, "attn_k.bias", TERN_F32, 128, 1);
        layer_tensor(model, layer, "attn_v.bias", TERN_F32, 128, 1);
    }
    const bool gemma = strcmp(model->architecture, "gemma3") == 0;
    if (gemma || strcmp(model->architecture, "qwen3") == 0) {
        layer_tensor(model, layer, "attn_q_norm.weight", TERN_F32, 64, 1);
        layer_tensor(model, layer, "attn_k_norm.weight", TERN_F32, 64, 1);
    }
    if (gemma) {
        layer_tensor(model, layer, "post_attention_norm.weight", TERN_F32, 256, 1);
        layer_tensor(model, layer, "post_ffw_norm.weight", TERN_F32, 256, 1);
    }
}

void model_make(struct model *model, const char *architecture, uint32_t layers, uint32_t type)
{
    *model = (struct model){0};
    snprintf(model->architecture, sizeof model->architecture, "%s", architecture);
    model_text(model, "general.architecture", architecture);
    model_u32(model, "block_count", layers);
    model_u32(model, "embedding_length", 256);
    model_u32(model, "feed_forward_length", 512);
    model_u32(model, "attention.head_count", 4);
    model_u32(model, "attention.head_count_kv", 2);
    model_u32(model, "context_length", 1000);
    model_f32(model, "attention.layer_norm_rms_epsilon", 1e-5f);
    model_f32(model, "rope.freq_base", 10000);
    if (strcmp(architecture, "gemma3") == 0)
        model_u32(model, "attention.sliding_window", 32);
    model_tensor(model, "token_embd.weight", type, 256, 300);
    model_tensor(model, "output_norm.weight", TERN_F32, 256, 1);
    for (uint32_t layer = 0; layer < layers; layer++)
        make_layer(model, layer, type);
}

/* ---- catalogs ---- */

static struct tern_error error;

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TERN_OK)                                                                     \
            fail_msg("%s", error.message);                                                         \
    } while (0)

static void make_segment(uint64_t size, struct tern_segment *segment)
{
    int fd;
    assert_ok(tern_segment_create(TERN_SEGMENT_CATALOG, 1, size, &fd, &error));
    assert_ok(tern_segment_map(fd, TERN_SEGMENT_CATALOG, 1, true, false, segment, &error));
    close(fd);
}

static void write_keys(const struct model *model, struct tern_catalog_writer *writer)
{
    for (uint32_t i = 0; i < model->keys; i++) {
        const struct model_key *key = &model->key[i];
        const struct tern_string name = {key->name, strlen(key->name)};
        const struct tern_string text = {key->value.text, strlen(key->value.text)};
        const void *elements =
            key->type == TERN_V_STRING ? (const void *)&text : (const void *)&key->value;
        assert_ok(tern_catalog_put_key(writer, name, key->type, key->is_array, elements, key->count,
                                       &error));
    }
}

static uint64_t write_tensors(const struct model *model, struct tern_catalog_writer *writer)
{
    uint64_t offset = 4096;
    for (uint32_t i = 0; i < model->tensors; i++) {
        const struct model_tensor *t = &model->tensor[i];
        struct tern_tensor tensor = {.name = {t->name, strlen(t->name)},
                                     .type = t->type,
                                     .dimensions = t->rows > 1 ? 2 : 1,
                                     .size = {t->columns, t->rows, 1, 1},
                                     .file_offset = offset};
        uint64_t row;
        assert_true(tern_row_bytes(t->type, t->columns, &row));
        tensor.bytes = row * t->rows;
        offset += (tensor.bytes + 31) / 32 * 32;
        assert_ok(tern_catalog_put_tensor(writer, &tensor, &error));
    }
    return offset;
}

void model_open(const struct model *model, struct open_catalog *out)
{
    struct tern_catalog_writer *writer;
    make_segment(1 << 20, &out->segment);
    assert_ok(tern_catalog_begin(&out->segment, model->keys, model->tensors, &writer, &error));
    write_keys(model, writer);
    const uint64_t bytes = write_tensors(model, writer);
    assert_ok(tern_catalog_end(writer, bytes, &error));
    assert_ok(tern_catalog_open(&out->segment, &out->catalog, &error));
}

bool model_open_file(const char *path, struct open_catalog *out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct stat file;
    struct tern_source source;
    assert_int_equal(fstat(fd, &file), 0);
    make_segment(tern_catalog_bound((uint64_t)file.st_size), &out->segment);
    assert_ok(tern_source_file(&source, fd, (uint64_t)file.st_size, &error));
    assert_ok(tern_gguf_parse(&source, &out->segment, &error));
    tern_source_close(&source);
    close(fd);
    assert_ok(tern_catalog_open(&out->segment, &out->catalog, &error));
    return true;
}

void model_close(struct open_catalog *open)
{
    tern_catalog_close(open->catalog);
    tern_segment_unmap(&open->segment);
}
