/*
 * Weights of the graph: finds each tensor that a family expects, checks its shape and type against
 * the hyperparameters, and afterwards finds what the file holds beyond them. A tensor that nobody
 * reads is refused unless it is known that it cannot change an answer.
 */
#include "coordinator/graph/builder.h"
#include "coordinator/graph/hyper.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 1 << 24 }; /* of a quantized activation row (numerics/quantize.h) */

/* The name of the layer's tensor in the file. */
static void full_name(const struct tern_builder *b, const char *name, char full[TERN_MAX_NAME + 1])
{
    if (b->layer == TERN_NO_LAYER)
        snprintf(full, TERN_MAX_NAME + 1, "%s", name);
    else
        snprintf(full, TERN_MAX_NAME + 1, "blk.%u.%s", b->layer, name);
}

bool tern_build_has(const struct tern_builder *b, const char *name)
{
    char full[TERN_MAX_NAME + 1];
    full_name(b, name, full);
    return tern_catalog_find(b->catalog, full) >= 0;
}

/* "[128, 64]" */
static void print_shape(const struct tern_tensor *tensor, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[%" PRIu64, tensor->size[0]);
    for (uint32_t i = 1; i < tensor->dimensions && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, ", %" PRIu64, tensor->size[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static enum tern_status check_shape(const struct tern_tensor *tensor, const char *name,
                                    uint32_t rows, uint32_t columns, bool vector,
                                    struct tern_error *error)
{
    const bool fits = tensor->size[0] == columns && tensor->size[1] == rows &&
                      tensor->size[2] == 1 && tensor->size[3] == 1;
    if (fits)
        return TERN_OK;
    char found[100];
    print_shape(tensor, found, sizeof found);
    if (vector)
        return tern_fail(error, TERN_BAD_MODEL,
                         "tensor %s has shape %s, but the hyperparameters say [%u]", name, found,
                         columns);
    return tern_fail(error, TERN_BAD_MODEL,
                     "tensor %s has shape %s, but the hyperparameters say [%u, %u]", name, found,
                     columns, rows);
}

static enum tern_status check_type(const struct tern_tensor *tensor, const char *name, bool vector,
                                   struct tern_error *error)
{
    const struct tern_type_info *info = tern_type_info(tensor->type);
    if (info == NULL)
        return tern_fail(error, TERN_BAD_MODEL, "tensor %s has the unknown type %u", name,
                         tensor->type);
    if (vector && tensor->type != TERN_F32)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "tensor %s has type %s; norms and biases are supported in F32 only", name,
                         info->name);
    if (!info->kernels)
        return tern_fail(error, TERN_UNSUPPORTED, "tensor %s has type %s, which is not supported",
                         name, info->name);
    uint64_t row, bytes;
    if (tensor->size[0] > MAX_COLUMNS || !tern_row_bytes(tensor->type, tensor->size[0], &row) ||
        !tern_mul(row, tensor->size[1], &bytes) || bytes != tensor->bytes)
        return tern_fail(error, TERN_BAD_MODEL,
                         "tensor %s: %" PRIu64 " columns of type %s are not possible here (blocks "
                         "of %u, at most %d columns)",
                         name, tensor->size[0], info->name, info->block, MAX_COLUMNS);
    return TERN_OK;
}

static struct tern_weight find_weight(struct tern_builder *b, const char *name, uint32_t rows,
                                      uint32_t columns, bool vector)
{
    if (b->status != TERN_OK)
        return (struct tern_weight){0};
    char full[TERN_MAX_NAME + 1];
    full_name(b, name, full);
    const int64_t index = tern_catalog_find(b->catalog, full);
    if (index < 0) {
        b->status = tern_fail(b->error, TERN_BAD_MODEL, "the file has no tensor %s", full);
        return (struct tern_weight){0};
    }
    struct tern_tensor tensor;
    tern_catalog_tensor(b->catalog, (uint32_t)index, &tensor);
    b->status = check_shape(&tensor, full, rows, columns, vector, b->error);
    if (b->status == TERN_OK)
        b->status = check_type(&tensor, full, vector, b->error);
    if (b->status != TERN_OK)
        return (struct tern_weight){0};
    b->used[index] = true;
    return (struct tern_weight){
        .type = tensor.type, .rows = rows, .columns = columns, .tensor = (uint32_t)index};
}

struct tern_weight tern_build_matrix(struct tern_builder *b, const char *name, uint32_t rows,
                                     uint32_t columns)
{
    return find_weight(b, name, rows, columns, false);
}

struct tern_weight tern_build_vector(struct tern_builder *b, const char *name, uint32_t columns)
{
    return find_weight(b, name, 1, columns, true);
}

int64_t tern_build_rope_factors(struct tern_builder *b)
{
    if (!tern_build_has(b, "rope_freqs.weight"))
        return -1;
    const struct tern_weight factors =
        tern_build_vector(b, "rope_freqs.weight", b->hyper->rope_size / 2);
    if (b->status == TERN_OK && b->hyper->rope_linear != 1)
        b->status = tern_fail(b->error, TERN_UNSUPPORTED,
                              "tensor rope_freqs.weight beside a linear factor of %g is not "
                              "supported",
                              b->hyper->rope_linear);
    return b->status == TERN_OK ? (int64_t)factors.tensor : -1;
}

static bool starts_with(struct tern_string s, const char *prefix)
{
    const size_t length = strlen(prefix);
    return s.length >= length && memcmp(s.bytes, prefix, length) == 0;
}

static bool ends_with(struct tern_string s, const char *suffix)
{
    const size_t length = strlen(suffix);
    return s.length >= length && memcmp(s.bytes + s.length - length, suffix, length) == 0;
}

/* Parts of vision models, which text never passes, and copies of RoPE frequencies in old files,
 * which follow from the hyperparameters. */
static bool is_harmless(struct tern_string name)
{
    return starts_with(name, "v.") || starts_with(name, "mm.") ||
           ends_with(name, ".rotary_emb.inv_freq") || ends_with(name, ".attn_rot_embd.weight");
}

enum tern_status tern_build_check_unused(struct tern_builder *b)
{
    for (uint32_t i = 0; b->status == TERN_OK && i < tern_catalog_tensors(b->catalog); i++) {
        if (b->used[i])
            continue;
        struct tern_tensor tensor;
        tern_catalog_tensor(b->catalog, i, &tensor);
        const int length = (int)tensor.name.length;
        if (is_harmless(tensor.name) && b->quiet)
            continue;
        if (is_harmless(tensor.name))
            tern_log("warning", "tensor %.*s is not used", length, tensor.name.bytes);
        else
            b->status = tern_fail(b->error, TERN_UNSUPPORTED,
                                  "the file has a tensor %.*s, which Tern's %s does not know and "
                                  "which may change the answer",
                                  length, tensor.name.bytes, tern_hyper_architecture(b->hyper));
    }
    return b->status;
}
