/*
 * Keys that would change the answer if somebody read them: a file that has one is refused by its
 * name. Of attention and RoPE whatever is not known here may be such a key; of the rest those are
 * listed that are.
 */
#include "coordinator/families/family.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Nobody reads these; with this value they say nothing. */
static const struct {
    const char *key;
    double neutral;
} neutral[] = {
    {"expert_count", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.causal", 1},
    {"attention.shared_kv_layers", 0},
    {"attention.temperature_length", 0},
    {"attention.temperature_scale", 0},
    {"use_parallel_residual", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"nextn_predict_layers", 0},
    {"attention.scale", 0},
    {"rope.scaling.attn_factor", 1},
    {"rope.freq_scale", 1},
};

/* Read for every family, or without meaning beside what is read. */
static const char *const known[] = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_epsilon", /* RMS norms have their own */
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
};

static bool is_one_of(const char *const *list, size_t count, const char *key)
{
    for (size_t i = 0; i < count && list[i] != NULL; i++)
        if (strcmp(list[i], key) == 0)
            return true;
    return false;
}

static bool is_known(const struct tern_family *family, const char *key)
{
    for (size_t i = 0; i < sizeof neutral / sizeof neutral[0]; i++)
        if (strcmp(neutral[i].key, key) == 0)
            return true;
    return is_one_of(known, sizeof known / sizeof known[0], key) ||
           is_one_of(family->keys, sizeof family->keys / sizeof family->keys[0], key);
}

/* "llama.attention.causal is false, ...": the value too, where it is one number. */
static enum tern_status refuse_value(const struct tern_catalog *catalog, const char *key,
                                     double value, struct tern_error *error)
{
    struct tern_string text;
    if (tern_catalog_string(catalog, key, &text))
        return tern_fail(error, TERN_UNSUPPORTED, "%s is \"%.*s\", which is not supported", key,
                         (int)(text.length < 100 ? text.length : 100), text.bytes);
    if (isnan(value))
        return tern_fail(error, TERN_UNSUPPORTED, "%s is no number, which is not supported", key);
    return tern_fail(error, TERN_UNSUPPORTED, "%s is %g, which is not supported", key, value);
}

static enum tern_status refuse_values(const struct tern_catalog *catalog, const char *architecture,
                                      struct tern_error *error)
{
    for (size_t i = 0; i < sizeof neutral / sizeof neutral[0]; i++) {
        char full[TERN_MAX_NAME + 1];
        double number = NAN;
        uint64_t integer;
        bool boolean;
        snprintf(full, sizeof full, "%s.%s", architecture, neutral[i].key);
        if (!tern_catalog_has(catalog, full))
            continue;
        if (tern_catalog_u64(catalog, full, &integer))
            number = (double)integer;
        else if (tern_catalog_bool(catalog, full, &boolean))
            number = boolean;
        else
            (void)tern_catalog_f64(catalog, full, &number);
        if (number != neutral[i].neutral)
            return refuse_value(catalog, full, number, error);
    }
    return TERN_OK;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

enum tern_status tern_hyper_refuse_unknown(const struct tern_catalog *catalog,
                                           const struct tern_hyper *hyper, struct tern_error *error)
{
    const char *architecture = hyper->family->architecture;
    const size_t prefix = strlen(architecture);
    if (refuse_values(catalog, architecture, error) != TERN_OK)
        return error->status;
    for (uint32_t i = 0; i < tern_catalog_keys(catalog); i++) {
        enum tern_value_type type;
        uint64_t count;
        char name[TERN_MAX_NAME + 1];
        const struct tern_string key = tern_catalog_key(catalog, i, &type, &count);
        snprintf(name, sizeof name, "%.*s", (int)key.length, key.bytes);
        if (!starts_with(name, architecture) || name[prefix] != '.')
            continue;
        const char *rest = name + prefix + 1;
        if ((starts_with(rest, "attention.") || starts_with(rest, "rope.")) &&
            !is_known(hyper->family, rest))
            return tern_fail(error, TERN_UNSUPPORTED,
                             "the file has a key %s, which Tern's %s does not know and which may "
                             "change the answer",
                             name, architecture);
    }
    return TERN_OK;
}
