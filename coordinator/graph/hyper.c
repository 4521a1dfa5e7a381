/*
 * Hyperparameters: read from the catalog and checked, so that whatever comes after may multiply and
 * divide with them. The limits are far above any model of these families and low enough that no
 * product of them overflows 64 bits.
 */
#include "coordinator/graph/hyper.h"

#include "coordinator/families/family.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_LAYERS = 512, /* times the operations of a layer: below TERN_MAX_INSTRUCTIONS */
    MAX_WIDTH = 1 << 18,
    MAX_FFN = 1 << 20,
    MAX_HEADS = 1024,
    MIN_HEAD_SIZE = 16, /* what the kernels are tested for */
    MAX_HEAD_SIZE = 256,
    MAX_VOCABULARY = 1 << 22,
};

/* "llama.rope.freq_base" */
static const char *full_key(const struct tern_hyper *hyper, const char *key,
                            char full[TERN_MAX_NAME + 1])
{
    snprintf(full, TERN_MAX_NAME + 1, "%s.%s", hyper->family->architecture, key);
    return full;
}

const char *tern_hyper_architecture(const struct tern_hyper *hyper)
{
    return hyper->family->architecture;
}

/* Some converters write a number that happens to be whole as an integer. */
static bool read_number(const struct tern_catalog *catalog, const char *key, double *value)
{
    uint64_t integer;
    if (!tern_catalog_u64(catalog, key, &integer))
        return tern_catalog_f64(catalog, key, value);
    *value = (double)integer;
    return true;
}

/* Why a key that is there could not be read as a number. */
static enum tern_status fail_kind(const struct tern_catalog *catalog, const char *key,
                                  const char *wanted, struct tern_error *error)
{
    struct tern_array array;
    if (tern_catalog_numbers(catalog, key, &array))
        return tern_fail(error, TERN_UNSUPPORTED,
                         "%s is a list; one value for all layers is supported", key);
    double number;
    struct tern_string text;
    if (read_number(catalog, key, &number))
        return tern_fail(error, TERN_BAD_MODEL, "%s is %g, but must be %s", key, number, wanted);
    if (tern_catalog_string(catalog, key, &text))
        return tern_fail(error, TERN_BAD_MODEL, "%s is \"%.*s\", but must be %s", key,
                         (int)(text.length < 100 ? text.length : 100), text.bytes, wanted);
    return tern_fail(error, TERN_BAD_MODEL, "%s is no number or negative, but must be %s", key,
                     wanted);
}

/* An integer in low .. high. Absent: *value stays as it is, unless `required`. */
static enum tern_status read_integer(const struct tern_catalog *catalog,
                                     const struct tern_hyper *hyper, const char *key, uint32_t low,
                                     uint32_t high, bool required, uint32_t *value,
                                     struct tern_error *error)
{
    char full[TERN_MAX_NAME + 1];
    full_key(hyper, key, full);
    uint64_t found;
    if (!tern_catalog_has(catalog, full)) {
        if (!required)
            return TERN_OK;
        return tern_fail(error, TERN_BAD_MODEL, "the file has no %s", full);
    }
    if (!tern_catalog_u64(catalog, full, &found))
        return fail_kind(catalog, full, "a whole number and not negative", error);
    if (found < low || found > high)
        return tern_fail(error, TERN_BAD_MODEL, "%s is %" PRIu64 ", but must be %u to %u", full,
                         found, low, high);
    *value = (uint32_t)found;
    return TERN_OK;
}

enum tern_status tern_hyper_float(const struct tern_catalog *catalog,
                                  const struct tern_hyper *hyper, const char *key, double *value,
                                  struct tern_error *error)
{
    char full[TERN_MAX_NAME + 1];
    full_key(hyper, key, full);
    double found;
    if (!tern_catalog_has(catalog, full))
        return TERN_OK;
    if (!read_number(catalog, full, &found))
        return fail_kind(catalog, full, "a number", error);
    if (!isfinite(found) || found < 0x1p-40 || found > 0x1p40)
        return tern_fail(error, TERN_BAD_MODEL,
                         "%s is %g, but must be positive and of an ordinary size", full, found);
    *value = found;
    return TERN_OK;
}

enum tern_status tern_hyper_window(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                                   struct tern_error *error)
{
    return read_integer(catalog, hyper, "attention.sliding_window", 0, UINT32_MAX, false,
                        &hyper->window, error);
}

enum tern_status tern_hyper_no_window(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                                      struct tern_error *error)
{
    if (tern_hyper_window(catalog, hyper, error) != TERN_OK)
        return error->status;
    if (hyper->window > 0 && hyper->window < hyper->trained_context)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "%s.attention.sliding_window is %u: sliding windows are not supported "
                         "for this architecture",
                         hyper->family->architecture, hyper->window);
    hyper->window = 0;
    return TERN_OK;
}

enum tern_status tern_hyper_window_every(const struct tern_catalog *catalog,
                                         const struct tern_hyper *hyper, uint32_t every,
                                         struct tern_error *error)
{
    char full[TERN_MAX_NAME + 1];
    full_key(hyper, "attention.sliding_window_pattern", full);
    uint64_t found;
    struct tern_array array;
    bool same = true;
    if (tern_catalog_u64(catalog, full, &found)) {
        same = found == every;
    } else if (tern_catalog_array(catalog, full, TERN_V_BOOL, &array)) {
        same = array.count == hyper->layers;
        for (uint64_t i = 0; same && i < array.count; i++)
            same = (tern_array_i64(&array, i) != 0) == ((i + 1) % every != 0);
    } else {
        same = !tern_catalog_has(catalog, full);
    }
    if (same)
        return TERN_OK;
    return tern_fail(error, TERN_UNSUPPORTED,
                     "%s: only one full layer in %u, the last of each group, is supported", full,
                     every);
}

static bool is_text(struct tern_string text, const char *wanted)
{
    return text.length == strlen(wanted) && memcmp(text.bytes, wanted, text.length) == 0;
}

/* Files that belong to a model: their own tensors and few of its keys are there. */
static enum tern_status refuse_parts(const struct tern_catalog *catalog, struct tern_error *error)
{
    static const char *const parts[] = {"adapter", "mmproj", "imatrix"};
    struct tern_string type;
    if (!tern_catalog_string(catalog, "general.type", &type))
        return TERN_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (is_text(type, parts[i]))
            return tern_fail(error, TERN_UNSUPPORTED,
                             "general.type is \"%s\": this is a file beside a model, not a model",
                             parts[i]);
    return TERN_OK;
}

static enum tern_status read_family(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                                    struct tern_error *error)
{
    struct tern_string name;
    if (refuse_parts(catalog, error) != TERN_OK)
        return error->status;
    if (!tern_catalog_string(catalog, "general.architecture", &name))
        return tern_fail(error, TERN_BAD_MODEL, "the file has no text general.architecture");
    hyper->family = tern_family_find(name);
    if (hyper->family == NULL)
        return tern_fail(
            error, TERN_UNSUPPORTED, "the architecture \"%.*s\" is not supported (supported: %s)",
            (int)(name.length < 100 ? name.length : 100), name.bytes, tern_family_names());
    uint64_t parts = 0;
    if (tern_catalog_u64(catalog, "split.count", &parts) && parts > 1)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "split.count is %" PRIu64 ": split files are not supported", parts);
    return tern_hyper_refuse_unknown(catalog, hyper, error);
}

/* Widths, heads, and what must divide what. */
static enum tern_status read_sizes(const struct tern_catalog *catalog, struct tern_hyper *h,
                                   struct tern_error *error)
{
    const char *name = h->family->architecture;
    if (read_integer(catalog, h, "block_count", 1, MAX_LAYERS, true, &h->layers, error) ||
        read_integer(catalog, h, "embedding_length", 1, MAX_WIDTH, true, &h->width, error) ||
        read_integer(catalog, h, "feed_forward_length", 1, MAX_FFN, true, &h->ffn, error) ||
        read_integer(catalog, h, "attention.head_count", 1, MAX_HEADS, true, &h->heads, error) ||
        read_integer(catalog, h, "context_length", 1, UINT32_MAX, true, &h->trained_context, error))
        return error->status;
    h->kv_heads = h->heads;
    if (read_integer(catalog, h, "attention.head_count_kv", 1, MAX_HEADS, false, &h->kv_heads,
                     error))
        return error->status;
    if (h->kv_heads > h->heads || h->heads % h->kv_heads != 0)
        return tern_fail(error, TERN_BAD_MODEL,
                         "%s.attention.head_count_kv is %u, which does not divide "
                         "%s.attention.head_count, %u",
                         name, h->kv_heads, name, h->heads);
    if (h->trained_context > TERN_MAX_CONTEXT)
        h->trained_context = TERN_MAX_CONTEXT;
    return TERN_OK;
}

static enum tern_status read_head_size(const struct tern_catalog *catalog, struct tern_hyper *h,
                                       struct tern_error *error)
{
    const char *name = h->family->architecture;
    uint32_t keys = 0;
    if (read_integer(catalog, h, "attention.key_length", 1, MAX_WIDTH, false, &keys, error))
        return error->status;
    if (keys == 0 && h->width % h->heads != 0)
        return tern_fail(error, TERN_BAD_MODEL,
                         "%s.attention.head_count is %u, which does not divide "
                         "%s.embedding_length, %u, and there is no %s.attention.key_length",
                         name, h->heads, name, h->width, name);
    h->head_size = keys != 0 ? keys : h->width / h->heads;
    uint32_t values = h->head_size;
    if (read_integer(catalog, h, "attention.value_length", 1, MAX_WIDTH, false, &values, error))
        return error->status;
    if (values != h->head_size)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "%s.attention.value_length is %u, but keys have %u: values of another "
                         "length are not supported",
                         name, values, h->head_size);
    if (h->head_size < MIN_HEAD_SIZE || h->head_size > MAX_HEAD_SIZE)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "%s.attention.key_length, or embedding_length/head_count, is %u: heads of "
                         "%d to %d values are supported",
                         name, h->head_size, MIN_HEAD_SIZE, MAX_HEAD_SIZE);
    h->attention_scale = (float)(1 / sqrt((double)h->head_size));
    return TERN_OK;
}

static enum tern_status read_rope_scaling(const struct tern_catalog *catalog, struct tern_hyper *h,
                                          struct tern_error *error)
{
    char full[TERN_MAX_NAME + 1];
    struct tern_string type = {"linear", 6};
    full_key(h, "rope.scaling.type", full);
    if (tern_catalog_has(catalog, full) && !tern_catalog_string(catalog, full, &type))
        return tern_fail(error, TERN_BAD_MODEL, "%s must be a string", full);
    if (is_text(type, "none"))
        return TERN_OK;
    if (!is_text(type, "linear"))
        return tern_fail(error, TERN_UNSUPPORTED,
                         "%s is \"%.*s\"; none and linear are supported (and the factors of "
                         "Llama 3.1 in rope_freqs)",
                         full, (int)(type.length < 100 ? type.length : 100), type.bytes);
    if (tern_hyper_float(catalog, h, "rope.scale_linear", &h->rope_linear, error) ||
        tern_hyper_float(catalog, h, "rope.scaling.factor", &h->rope_linear, error))
        return error->status;
    return TERN_OK;
}

static enum tern_status read_rope(const struct tern_catalog *catalog, struct tern_hyper *h,
                                  struct tern_error *error)
{
    const char *name = h->family->architecture;
    h->rope_base = 10000;
    h->rope_linear = 1;
    h->rope_size = h->head_size;
    if (tern_hyper_float(catalog, h, "rope.freq_base", &h->rope_base, error) ||
        read_integer(catalog, h, "rope.dimension_count", 1, UINT32_MAX, false, &h->rope_size,
                     error))
        return error->status;
    if (h->rope_size > h->head_size || h->rope_size % 2 != 0)
        return tern_fail(error, TERN_BAD_MODEL,
                         "%s.rope.dimension_count is %u, but must be even and at most the head "
                         "size, %u",
                         name, h->rope_size, h->head_size);
    return read_rope_scaling(catalog, h, error);
}

static enum tern_status read_epsilon(const struct tern_catalog *catalog, struct tern_hyper *h,
                                     struct tern_error *error)
{
    char full[TERN_MAX_NAME + 1];
    double epsilon;
    full_key(h, "attention.layer_norm_rms_epsilon", full);
    if (!read_number(catalog, full, &epsilon))
        return tern_catalog_has(catalog, full)
                   ? fail_kind(catalog, full, "a number", error)
                   : tern_fail(error, TERN_BAD_MODEL, "the file has no %s", full);
    h->epsilon = (float)epsilon;
    if (!isfinite(h->epsilon) || h->epsilon < 0x1p-50f)
        return tern_fail(error, TERN_BAD_MODEL, "%s is %g, but must be finite and at least 2^-50",
                         full, epsilon);
    return TERN_OK;
}

/* The rows of the embedding table; every id of the tokenizer must have one. */
static enum tern_status read_vocabulary(const struct tern_catalog *catalog, struct tern_hyper *h,
                                        struct tern_error *error)
{
    const int64_t index = tern_catalog_find(catalog, "token_embd.weight");
    if (index < 0)
        return tern_fail(error, TERN_BAD_MODEL,
                         "the file has no tensor token_embd.weight: it holds no weights");
    struct tern_tensor tensor;
    tern_catalog_tensor(catalog, (uint32_t)index, &tensor);
    if (tensor.size[1] > MAX_VOCABULARY)
        return tern_fail(error, TERN_BAD_MODEL,
                         "tensor token_embd.weight has %" PRIu64 " rows; at most %d are supported",
                         tensor.size[1], MAX_VOCABULARY);
    h->vocabulary = (uint32_t)tensor.size[1];
    struct tern_array tokens;
    if (tern_catalog_array(catalog, "tokenizer.ggml.tokens", TERN_V_STRING, &tokens) &&
        tokens.count > h->vocabulary)
        return tern_fail(error, TERN_BAD_MODEL,
                         "tokenizer.ggml.tokens has %" PRIu64
                         " tokens, but tensor token_embd.weight only %u rows",
                         tokens.count, h->vocabulary);
    return TERN_OK;
}

enum tern_status tern_hyper_read(const struct tern_catalog *catalog, struct tern_hyper *hyper,
                                 struct tern_error *error)
{
    struct tern_error local;
    error = error != NULL ? error : &local;
    *hyper = (struct tern_hyper){0};
    enum tern_status (*const steps[])(const struct tern_catalog *, struct tern_hyper *,
                                      struct tern_error *) = {
        read_family, read_sizes, read_head_size, read_rope, read_epsilon, read_vocabulary,
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const enum tern_status status = steps[i](catalog, hyper, error);
        if (status != TERN_OK)
            return tern_add_remedy(error, status);
    }
    if (hyper->family->read != NULL)
        return tern_add_remedy(error, hyper->family->read(catalog, hyper, error));
    return TERN_OK;
}
