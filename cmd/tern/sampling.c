#include "cmd/tern/sampling.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bias {
    uint32_t id;
    float value;
};

/* "ID=X" */
static bool read_bias(const char *text, struct bias *out)
{
    char *end;
    errno = 0;
    const unsigned long long id = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '=' || errno != 0 || id > UINT32_MAX)
        return false;
    const char *number = end + 1;
    const double value = strtod(number, &end);
    *out = (struct bias){.id = (uint32_t)id, .value = (float)value};
    return end != number && *end == '\0' && isfinite(value);
}

static enum tern_status pack_bias(struct tern_pack *pack, const struct option_texts *texts,
                                  struct tern_error *error)
{
    struct bias list[OPTION_MOST_TEXTS];
    for (int i = 0; i < texts->count; i++)
        if (!read_bias(texts->text[i], &list[i]))
            return tern_fail(
                error, TERN_USAGE,
                "--bias is '%s'; it must be a token id, '=' and a number, like 42=-1.5",
                texts->text[i]);
    if (texts->count > 0)
        tern_pack_bytes(pack, TERN_F_BIAS, list, (size_t)texts->count * sizeof list[0]);
    return TERN_OK;
}

static enum tern_status pack_stops(struct tern_pack *pack, const struct option_texts *texts,
                                   struct tern_error *error)
{
    size_t length = 0;
    for (int i = 0; i < texts->count; i++)
        length += strlen(texts->text[i]) + 1;
    if (length == 0)
        return TERN_OK;
    char *list = malloc(length), *end = list;
    if (list == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    for (int i = 0; i < texts->count; i++)
        end = stpcpy(end, texts->text[i]) + 1;
    tern_pack_bytes(pack, TERN_F_STOP, list, length);
    free(list);
    return TERN_OK;
}

enum tern_status pack_sampling(struct tern_pack *pack, const struct sampling_options *options,
                               struct tern_error *error)
{
    if (options->has_n)
        tern_pack_u64(pack, TERN_F_N, options->n);
    if (options->has_seed)
        tern_pack_u64(pack, TERN_F_SEED, options->seed);
    if (options->has_temperature)
        tern_pack_f64(pack, TERN_F_TEMP, options->temperature);
    if (options->top_k > 0 && options->top_k <= UINT32_MAX)
        tern_pack_u64(pack, TERN_F_TOP_K, (uint64_t)options->top_k);
    if (options->has_top_p)
        tern_pack_f64(pack, TERN_F_TOP_P, options->top_p);
    if (options->has_min_p)
        tern_pack_f64(pack, TERN_F_MIN_P, options->min_p);
    if (options->has_penalty)
        tern_pack_f64(pack, TERN_F_REPEAT_PENALTY, options->penalty);
    if (options->ignore_eos)
        tern_pack_bool(pack, TERN_F_IGNORE_EOS, true);
    const enum tern_status status = pack_bias(pack, &options->bias, error);
    return status != TERN_OK ? status : pack_stops(pack, &options->stop, error);
}
