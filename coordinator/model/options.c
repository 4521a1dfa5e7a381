/* Options of a model: read from a message, completed, compared, named. */
#include "coordinator/model/options.h"
#include "coordinator/cores.h"

#include <inttypes.h>
#include <string.h>

enum { DEFAULT_BATCH = 512 };

static bool is(const char *text, size_t length, const char *name)
{
    return text != NULL && length == strlen(name) && memcmp(text, name, length) == 0;
}

static enum tern_status read_tier(const struct tern_message *message, int *tier,
                                  struct tern_error *error)
{
    size_t length;
    const char *text = tern_message_text(message, TERN_F_TIER, &length);
    const enum tern_tier best = tern_best_tier();
    *tier = (int)best;
    if (text == NULL)
        return TERN_OK;
    for (int i = 0; i < TERN_TIERS; i++) {
        if (!is(text, length, tern_tier_name((enum tern_tier)i)))
            continue;
        *tier = i;
        if (i > (int)best)
            return tern_fail(error, TERN_USAGE, "this processor cannot run tier %s; its best is %s",
                             tern_tier_name((enum tern_tier)i), tern_tier_name(best));
        return TERN_OK;
    }
    return tern_fail(error, TERN_USAGE,
                     "unknown tier '%.*s'; there are scalar, avx2, avx512, avx512vnni", (int)length,
                     text);
}

static enum tern_status read_names(const struct tern_message *message, struct tern_options *options,
                                   struct tern_error *error)
{
    size_t length;
    const char *text = tern_message_text(message, TERN_F_PRECISION, &length);
    options->precision = TERN_FAST;
    if (is(text, length, "high"))
        options->precision = TERN_HIGH;
    else if (text != NULL && !is(text, length, "fast"))
        return tern_fail(error, TERN_USAGE, "unknown precision '%.*s'; there are fast and high",
                         (int)length, text);
    text = tern_message_text(message, TERN_F_KV, &length);
    options->kv = TERN_KV_F16;
    if (is(text, length, "f32"))
        options->kv = TERN_KV_F32;
    else if (text != NULL && !is(text, length, "f16"))
        return tern_fail(error, TERN_USAGE, "unknown KV type '%.*s'; there are f16 and f32",
                         (int)length, text);
    return TERN_OK;
}

/* A count up to `most`; 0 where the message has none. */
static enum tern_status read_count(const struct tern_message *message, enum tern_field field,
                                   const char *name, uint32_t most, uint32_t *count,
                                   struct tern_error *error)
{
    const uint64_t value = tern_message_u64(message, field, 0);
    if (value > most)
        return tern_fail(error, TERN_USAGE, "%" PRIu64 " %s: at most %" PRIu32 " are possible",
                         value, name, most);
    *count = (uint32_t)value;
    return TERN_OK;
}

enum tern_status tern_options_read(const struct tern_message *message, struct tern_options *options,
                                   struct tern_error *error)
{
    *options = (struct tern_options){
        .context = tern_message_u64(message, TERN_F_CTX, 0),
        .unfused = tern_message_bool(message, TERN_F_UNFUSED),
    };
    enum tern_status status =
        read_count(message, TERN_F_THREADS, "threads", TERN_MAX_THREADS, &options->threads, error);
    if (status == TERN_OK)
        status = read_count(message, TERN_F_BATCH, "rows of a step", TERN_MAX_ROWS, &options->batch,
                            error);
    if (status != TERN_OK)
        return status;
    if (options->threads == 0)
        options->threads = tern_usable_cores("");
    if (options->batch == 0)
        options->batch = DEFAULT_BATCH;
    status = read_tier(message, &options->tier, error);
    return status == TERN_OK ? read_names(message, options, error) : status;
}

void tern_options_follow(const struct tern_message *message, const struct tern_options *loaded,
                         struct tern_options *options)
{
    if (tern_message_u64(message, TERN_F_CTX, 0) == 0)
        options->context = loaded->context;
    if (tern_message_u64(message, TERN_F_THREADS, 0) == 0)
        options->threads = loaded->threads;
    if (tern_message_u64(message, TERN_F_BATCH, 0) == 0)
        options->batch = loaded->batch;
    if (!tern_message_has(message, TERN_F_TIER))
        options->tier = loaded->tier;
    if (!tern_message_has(message, TERN_F_PRECISION))
        options->precision = loaded->precision;
    if (!tern_message_has(message, TERN_F_KV))
        options->kv = loaded->kv;
    if (!tern_message_has(message, TERN_F_UNFUSED))
        options->unfused = loaded->unfused;
}

static bool match_context(uint64_t loaded, uint64_t context, uint64_t trained, uint64_t asked)
{
    if (loaded == asked)
        return true;
    return context != 0 && context == (asked != 0 ? asked : trained);
}

bool tern_options_match(const struct tern_options *loaded, uint64_t context, uint64_t trained,
                        const struct tern_options *asked)
{
    return loaded->threads == asked->threads && loaded->tier == asked->tier &&
           loaded->batch == asked->batch && loaded->precision == asked->precision &&
           loaded->kv == asked->kv && loaded->unfused == asked->unfused &&
           match_context(loaded->context, context, trained, asked->context);
}

const char *tern_options_tier(const struct tern_options *options)
{
    return tern_tier_name((enum tern_tier)options->tier);
}

const char *tern_options_precision(const struct tern_options *options)
{
    return options->precision == TERN_HIGH ? "high" : "fast";
}

const char *tern_options_kv(const struct tern_options *options)
{
    return options->kv == TERN_KV_F32 ? "f32" : "f16";
}
