/*
 * The compiler's driver: hyperparameters, the family's graph, the passes in order, and the sizes of
 * everything that a loaded model needs besides its weights.
 */
#include "coordinator/graph/compile.h"

#include "coordinator/families/family.h"
#include "coordinator/graph/passes.h"
#include <inttypes.h>
#include <stdlib.h>

enum {
    DEFAULT_BATCH = 512,
    /* Output rows of a step: as many as keep the logits below LOGITS_BYTES, but at least one for
     * each session that can be in a step. */
    LOGITS_BYTES = 64 << 20,
};

/* Options with every default filled in. */
struct settings {
    uint32_t max_rows, max_outputs;
    enum tern_precision precision;
    enum tern_kv_type kv;
    bool unfused;
};

/* One compilation in progress. */
struct work {
    const struct tern_catalog *catalog;
    bool quiet; /* log nothing: only sizes are asked for */
    struct settings settings;
    struct tern_compiled *out;
    struct tern_graph graph;
    struct tern_memory_plan memory;
};

static enum tern_status check_options(const struct tern_options *options, uint32_t context,
                                      const struct tern_hyper *hyper, struct settings *settings,
                                      struct tern_error *error)
{
    *settings = (struct settings){
        .max_rows = options->batch == 0 ? DEFAULT_BATCH : options->batch,
        .precision = options->precision == 0 ? TERN_FAST : options->precision,
        .kv = options->kv == 0 ? TERN_KV_F16 : options->kv,
        .unfused = options->unfused,
    };
    if (settings->max_rows > TERN_MAX_ROWS)
        return tern_fail(error, TERN_USAGE, "--batch is %u, but must be 1 to %d",
                         settings->max_rows, TERN_MAX_ROWS);
    if (context == 0 || context > TERN_MAX_CONTEXT)
        return tern_fail(error, TERN_USAGE, "a context of %u positions is not possible (1 to %d)",
                         context, TERN_MAX_CONTEXT);
    if (settings->precision != TERN_FAST && settings->precision != TERN_HIGH)
        return tern_fail(error, TERN_USAGE, "the precision must be fast or high");
    if (settings->kv != TERN_KV_F16 && settings->kv != TERN_KV_F32)
        return tern_fail(error, TERN_USAGE, "the cache type must be f16 or f32");
    uint32_t outputs = LOGITS_BYTES / ((uint32_t)sizeof(float) * hyper->vocabulary);
    if (outputs < TERN_MAX_SEQUENCES)
        outputs = TERN_MAX_SEQUENCES;
    settings->max_outputs = outputs < settings->max_rows ? outputs : settings->max_rows;
    return TERN_OK;
}

/* The family's graph, with every tensor of the file accounted for. */
static enum tern_status build_graph(struct work *work, struct tern_error *error)
{
    struct tern_builder builder = {
        .catalog = work->catalog,
        .hyper = &work->out->hyper,
        .graph = &work->graph,
        .used = calloc(tern_catalog_tensors(work->catalog) + 1, sizeof *builder.used),
        .quiet = work->quiet,
        .layer = TERN_NO_LAYER,
        .error = error,
    };
    if (builder.used == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for the model's graph");
    work->out->hyper.family->build(&builder);
    const enum tern_status status = tern_build_check_unused(&builder);
    free(builder.used);
    return tern_add_remedy(error, status);
}

/* From a family to a graph that could run as it is: shapes, output rows, quantized activations. */
static enum tern_status make_graph(struct work *work, struct tern_error *error)
{
    struct tern_graph *graph = &work->graph;
    enum tern_status status = build_graph(work, error);
    if (status == TERN_OK)
        status = tern_infer_shapes(graph, error);
    if (status == TERN_OK)
        status = tern_narrow_rows(graph, error);
    if (status == TERN_OK)
        status = tern_insert_quantize(graph, work->settings.precision, error);
    if (status == TERN_OK)
        status = tern_infer_shapes(graph, error);
    if (status == TERN_OK)
        status = tern_place(graph, error);
    return status;
}

static enum tern_status plan_memory(struct work *work, bool reuse, struct tern_error *error)
{
    tern_memory_plan_free(&work->memory);
    return tern_plan_memory(&work->graph, work->settings.max_rows, work->settings.max_outputs,
                            reuse, &work->memory, error);
}

/* Fuses and plans memory, unless told not to: then the graph runs as it is. */
static enum tern_status finish_graph(struct work *work, struct tern_error *error)
{
    struct tern_compile_report *report = &work->out->report;
    enum tern_status status = plan_memory(work, false, error);
    report->operations_before = work->graph.operation_count;
    report->buffers_before = work->memory.buffers;
    report->bytes_before = work->memory.bytes;
    if (status == TERN_OK && !work->settings.unfused) {
        status = tern_fuse(&work->graph, error);
        if (status == TERN_OK)
            status = tern_infer_shapes(&work->graph, error);
        if (status == TERN_OK)
            status = tern_place(&work->graph, error);
        if (status == TERN_OK)
            status = plan_memory(work, true, error);
    }
    report->operations_after = work->graph.operation_count;
    report->buffers_after = work->memory.buffers;
    report->bytes_after = work->memory.bytes;
    return status;
}

/* A page holds TERN_PAGE_POSITIONS positions of all layers. */
static struct tern_kv_layout kv_layout(const struct tern_hyper *hyper, enum tern_kv_type type)
{
    struct tern_kv_layout kv = {.type = type,
                                .layers = hyper->layers,
                                .kv_heads = hyper->kv_heads,
                                .head_size = hyper->head_size};
    const uint64_t element = type == TERN_KV_F16 ? 2 : 4;
    kv.page_layer_bytes = 2 * element * TERN_PAGE_POSITIONS * hyper->kv_heads * hyper->head_size;
    kv.page_bytes = (kv.page_layer_bytes * hyper->layers + 4095) & ~(uint64_t)4095;
    return kv;
}

/* Strides and offsets of the RoPE tables; bytes of all. */
static uint64_t lay_out_tables(struct tern_rope_table *tables, uint32_t count, uint32_t context)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t row = (uint64_t)tables[i].size / 2 * 2 * sizeof(float);
        tables[i].stride = (row + 63) & ~(uint64_t)63;
        tables[i].offset = bytes;
        bytes += tables[i].stride * context;
    }
    return bytes;
}

static enum tern_status lay_out_weights(const struct tern_catalog *catalog,
                                        struct tern_compiled *out, struct tern_error *error)
{
    const uint32_t tensors = tern_catalog_tensors(catalog);
    out->weight_offsets = calloc(tensors + 1, sizeof *out->weight_offsets);
    if (out->weight_offsets == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for the offsets of %u tensors", tensors);
    return tern_catalog_layout(catalog, out->weight_offsets, &out->weight_bytes, error);
}

/* Everything but the plan itself. End with end_work, also after a failure. */
static enum tern_status begin_work(struct work *work, const struct tern_options *options,
                                   uint32_t context, struct tern_error *error)
{
    struct tern_compiled *out = work->out;
    *out = (struct tern_compiled){0};
    tern_graph_init(&work->graph);
    enum tern_status status = tern_hyper_read(work->catalog, &out->hyper, error);
    if (status == TERN_OK)
        status = check_options(options, context, &out->hyper, &work->settings, error);
    if (status == TERN_OK)
        status = make_graph(work, error);
    if (status == TERN_OK)
        status = finish_graph(work, error);
    if (status == TERN_OK)
        status = lay_out_weights(work->catalog, out, error);
    if (status != TERN_OK)
        return status;
    out->tables = work->graph.tables;
    for (uint32_t i = 0; i < out->tables; i++)
        out->table[i] = work->graph.table[i];
    out->tables_bytes = lay_out_tables(out->table, out->tables, context);
    return TERN_OK;
}

static void end_work(struct work *work)
{
    tern_memory_plan_free(&work->memory);
    tern_graph_free(&work->graph);
}

enum tern_status tern_compile(const struct tern_catalog *catalog,
                              const struct tern_options *options, uint32_t context,
                              struct tern_compiled *out, struct tern_error *error)
{
    struct work work = {.catalog = catalog, .out = out};
    enum tern_status status = begin_work(&work, options, context, error);
    if (status == TERN_OK) {
        const struct tern_kv_layout kv = kv_layout(&out->hyper, work.settings.kv);
        status = tern_lower(&work.graph, &work.memory, &kv, context, out, error);
    }
    end_work(&work);
    if (status != TERN_OK)
        tern_compiled_free(out);
    return status;
}

void tern_compiled_free(struct tern_compiled *compiled)
{
    free(compiled->plan);
    free(compiled->weight_offsets);
    *compiled = (struct tern_compiled){0};
}

enum tern_status tern_compile_sizes(const struct tern_catalog *catalog,
                                    const struct tern_options *options, uint32_t context,
                                    uint64_t *weights, uint64_t *kv, uint64_t *activations,
                                    uint64_t *tables, struct tern_error *error)
{
    struct tern_compiled compiled;
    struct work work = {.catalog = catalog, .quiet = true, .out = &compiled};
    const enum tern_status status = begin_work(&work, options, context, error);
    if (status == TERN_OK) {
        const uint64_t pages = ((uint64_t)context + TERN_PAGE_POSITIONS - 1) / TERN_PAGE_POSITIONS;
        *weights = compiled.weight_bytes;
        *kv = pages * kv_layout(&compiled.hyper, work.settings.kv).page_bytes;
        *activations = work.memory.bytes;
        *tables = compiled.tables_bytes;
    }
    end_work(&work);
    tern_compiled_free(&compiled);
    return status;
}
