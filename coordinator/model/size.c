/* Choosing the size of a model. */
#include "coordinator/model/size.h"
#include "coordinator/schedule/pages.h"

#include <inttypes.h>

enum {
    MIB = 1 << 20,
    SLACK = 48 * MIB,    /* stacks, plan, tokenizer, buffers of sockets, what the allocator keeps */
    LEAST_CONTEXT = 256, /* a default context is never made smaller than this */
    CONTEXTS = 4,        /* of KV pages, at most */
};

enum tern_status tern_sizes_read(const struct tern_catalog *catalog,
                                 const struct tern_options *options, uint32_t context,
                                 struct tern_sizes *sizes, struct tern_error *error)
{
    const enum tern_status status =
        tern_compile_sizes(catalog, options, context, &sizes->weights, &sizes->kv,
                           &sizes->activations, &sizes->tables, error);
    if (status != TERN_OK)
        return status;
    sizes->total = SLACK;
    if (!tern_add(sizes->total, sizes->weights, &sizes->total) ||
        !tern_add(sizes->total, sizes->kv, &sizes->total) ||
        !tern_add(sizes->total, sizes->activations, &sizes->total) ||
        !tern_add(sizes->total, sizes->tables, &sizes->total))
        return tern_fail(error, TERN_NO_MEMORY, "a context of %u positions is larger than memory",
                         context);
    return TERN_OK;
}

static uint64_t in_mib(uint64_t bytes)
{
    return (bytes + MIB - 1) / MIB;
}

/* asked: for this context. Fewer rows at a time need smaller buffers. */
static const char *remedy(const struct tern_sizes *sizes, uint64_t room, bool asked)
{
    const bool rows = sizes->activations > sizes->total - room;
    if (asked)
        return rows ? "use a smaller --ctx or --batch, or free memory"
                    : "use a smaller --ctx or free memory";
    return rows ? "use a smaller --batch or free memory" : "free memory";
}

static enum tern_status refuse(const struct tern_sizes *sizes, uint32_t context, uint64_t room,
                               bool asked, struct tern_error *error)
{
    return tern_fail(error, TERN_NO_MEMORY,
                     "not enough memory: %" PRIu64 " MiB are missing. The model needs %" PRIu64
                     " MiB (weights %" PRIu64 ", %u positions of cache %" PRIu64
                     ", buffers %" PRIu64 "), %" PRIu64 " MiB may be used; %s",
                     in_mib(sizes->total - room), in_mib(sizes->total), in_mib(sizes->weights),
                     context, in_mib(sizes->kv), in_mib(sizes->total - sizes->weights - sizes->kv),
                     room / MIB, remedy(sizes, room, asked));
}

/* The largest multiple of a page's positions that fits; *sizes is for it. */
static enum tern_status search(const struct tern_catalog *catalog,
                               const struct tern_options *options, uint64_t room, uint32_t least,
                               uint32_t *context, struct tern_sizes *sizes,
                               struct tern_error *error)
{
    uint32_t fits = least / TERN_PAGE_POSITIONS, beyond = *context / TERN_PAGE_POSITIONS + 1;
    enum tern_status status;
    while (beyond - fits > 1) {
        const uint32_t middle = fits + (beyond - fits) / 2;
        status = tern_sizes_read(catalog, options, middle * TERN_PAGE_POSITIONS, sizes, error);
        if (status != TERN_OK)
            return status;
        if (sizes->total <= room)
            fits = middle;
        else
            beyond = middle;
    }
    *context = fits * TERN_PAGE_POSITIONS;
    return tern_sizes_read(catalog, options, *context, sizes, error);
}

static enum tern_status choose_default(const struct tern_catalog *catalog,
                                       const struct tern_options *options, uint64_t room,
                                       uint32_t *context, struct tern_sizes *sizes,
                                       struct tern_error *error)
{
    enum tern_status status = tern_sizes_read(catalog, options, *context, sizes, error);
    if (status != TERN_OK || sizes->total <= room)
        return status;
    const uint32_t least = *context < LEAST_CONTEXT ? *context : LEAST_CONTEXT;
    status = tern_sizes_read(catalog, options, least, sizes, error);
    if (status != TERN_OK)
        return status;
    if (sizes->total > room)
        return refuse(sizes, least, room, false, error);
    return least < *context ? search(catalog, options, room, least, context, sizes, error)
                            : TERN_OK;
}

/* Names the bytes that a context over the limit would take: in floating point, since they need not
 * fit an integer. */
static enum tern_status refuse_absurd(const struct tern_catalog *catalog,
                                      const struct tern_options *options, struct tern_error *error)
{
    struct tern_sizes sizes;
    const enum tern_status status =
        tern_sizes_read(catalog, options, TERN_MAX_CONTEXT, &sizes, error);
    if (status != TERN_OK)
        return status;
    const double mib = (double)(sizes.kv + sizes.tables) / MIB;
    return tern_fail(error, TERN_NO_MEMORY,
                     "a context of %" PRIu64 " positions would take %.0f MiB of keys and values; "
                     "at most %d positions are possible, use a smaller --ctx",
                     options->context, mib / TERN_MAX_CONTEXT * (double)options->context,
                     TERN_MAX_CONTEXT);
}

enum tern_status tern_choose_size(const struct tern_catalog *catalog,
                                  const struct tern_options *options, uint64_t room,
                                  struct tern_size_choice *choice, struct tern_error *error)
{
    struct tern_hyper hyper;
    struct tern_sizes sizes;
    enum tern_status status = tern_hyper_read(catalog, &hyper, error);
    if (status != TERN_OK)
        return status;
    if (options->context > TERN_MAX_CONTEXT)
        return refuse_absurd(catalog, options, error);
    const uint32_t trained =
        hyper.trained_context < TERN_MAX_CONTEXT ? hyper.trained_context : TERN_MAX_CONTEXT;
    uint32_t context = options->context != 0 ? (uint32_t)options->context : trained;
    if (options->context != 0) {
        status = tern_sizes_read(catalog, options, context, &sizes, error);
        if (status == TERN_OK && sizes.total > room)
            status = refuse(&sizes, context, room, true, error);
    } else {
        status = choose_default(catalog, options, room, &context, &sizes, error);
    }
    if (status != TERN_OK)
        return status;
    *choice = (struct tern_size_choice){.context = context,
                                        .trained = trained,
                                        .pages = tern_pages_for(context),
                                        .bytes = sizes.total,
                                        .weights = sizes.weights};
    return TERN_OK;
}

enum tern_status tern_choose_pages(const struct tern_catalog *catalog,
                                   const struct tern_options *options, uint64_t room,
                                   struct tern_size_choice *choice, struct tern_error *error)
{
    struct tern_sizes sizes;
    const enum tern_status status =
        tern_sizes_read(catalog, options, choice->context, &sizes, error);
    if (status != TERN_OK)
        return status;
    for (int more = 1; more < CONTEXTS; more++) {
        if (choice->bytes > room / 2 || sizes.kv > room / 2 - choice->bytes)
            break;
        choice->bytes += sizes.kv;
        choice->pages += tern_pages_for(choice->context);
    }
    return TERN_OK;
}
