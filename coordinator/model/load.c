/* The parts of a loaded model. */
#include "coordinator/model/load.h"
#include "proto/plan.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum tern_status make(struct tern_supervisor *supervisor, enum tern_segment_kind kind,
                             uint64_t size, struct tern_made_segment *made,
                             struct tern_error *error)
{
    made->id = tern_supervisor_segment_id(supervisor);
    made->size = size;
    return tern_segment_create(kind, made->id, size, &made->fd, error);
}

enum tern_status tern_model_compile(struct tern_model *model, struct tern_supervisor *supervisor,
                                    struct tern_error *error)
{
    const enum tern_status status = tern_compile(model->file->catalog, &model->options,
                                                 model->size.context, &model->compiled, error);
    if (status != TERN_OK)
        return status;
    return make(supervisor, TERN_SEGMENT_WEIGHTS, model->compiled.weight_bytes, &model->weights,
                error);
}

static enum tern_status make_plan(struct tern_model *model, struct tern_supervisor *supervisor,
                                  struct tern_error *error)
{
    struct tern_segment map;
    enum tern_status status =
        make(supervisor, TERN_SEGMENT_PLAN, model->compiled.plan_bytes, &model->plan, error);
    if (status != TERN_OK)
        return status;
    status = tern_segment_map(model->plan.fd, TERN_SEGMENT_PLAN, model->plan.id, true, false, &map,
                              error);
    if (status != TERN_OK)
        return status;
    memcpy(map.data, model->compiled.plan, model->compiled.plan_bytes);
    status = tern_plan_check(&map, error);
    tern_segment_unmap(&map);
    return status == TERN_OK ? tern_segment_seal(model->plan.fd, error) : status;
}

static enum tern_status make_rope(struct tern_model *model, struct tern_supervisor *supervisor,
                                  struct tern_error *error)
{
    struct tern_segment tables, weights;
    enum tern_status status =
        make(supervisor, TERN_SEGMENT_TABLES, model->compiled.tables_bytes, &model->tables, error);
    if (status == TERN_OK)
        status = tern_segment_map(model->tables.fd, TERN_SEGMENT_TABLES, model->tables.id, true,
                                  false, &tables, error);
    if (status != TERN_OK)
        return status;
    status = tern_segment_map(model->weights.fd, TERN_SEGMENT_WEIGHTS, model->weights.id, false,
                              false, &weights, error);
    if (status != TERN_OK) {
        tern_segment_unmap(&tables);
        return status;
    }
    status = tern_rope_tables_open(&model->rope, &tables, &model->compiled, model->file->catalog,
                                   &weights, model->size.context, error);
    tern_segment_unmap(&weights);
    return status;
}

/* The pool and the buffers; the worker writes both, the coordinator reads logits. */
static enum tern_status make_work_space(struct tern_model *model,
                                        struct tern_supervisor *supervisor,
                                        struct tern_error *error)
{
    const struct tern_plan *plan = model->compiled.plan;
    uint64_t kv_bytes, logits_bytes;
    if (!tern_mul(plan->kv.page_bytes, model->size.pages, &kv_bytes) ||
        !tern_mul(plan->logits.stride, plan->max_outputs, &logits_bytes))
        return tern_fail(error, TERN_NO_MEMORY, "the cache is larger than memory");
    enum tern_status status = make(supervisor, TERN_SEGMENT_KV, kv_bytes, &model->kv, error);
    if (status == TERN_OK)
        status = make(supervisor, TERN_SEGMENT_ACTIVATIONS, plan->activation_bytes,
                      &model->activations, error);
    if (status == TERN_OK)
        status = tern_segment_map(model->activations.fd, TERN_SEGMENT_ACTIVATIONS,
                                  model->activations.id, false, false, &model->logits, error);
    if (status != TERN_OK)
        return status;
    if (!tern_segment_holds(&model->logits, plan->logits.offset, logits_bytes))
        return tern_fail(error, TERN_FAILED, "the plan's logits lie outside the activations");
    model->lane.pages = tern_pages_new(model->size.pages);
    return model->lane.pages != NULL ? TERN_OK : tern_fail(error, TERN_NO_MEMORY, "out of memory");
}

enum tern_status tern_model_furnish(struct tern_model *model, struct tern_supervisor *supervisor,
                                    struct tern_error *error)
{
    enum tern_status status = tern_segment_seal(model->weights.fd, error);
    if (status == TERN_OK)
        status = make_plan(model, supervisor, error);
    if (status == TERN_OK)
        status = make_rope(model, supervisor, error);
    if (status == TERN_OK)
        status = make_work_space(model, supervisor, error);
    return status;
}

struct tern_binding tern_model_binding(const struct tern_model *model)
{
    const struct tern_plan *plan = model->compiled.plan;
    return (struct tern_binding){
        .plan = model->lane.number,
        .plan_fd = model->plan.fd,
        .weights_fd = model->weights.fd,
        .kv_fd = model->kv.fd,
        .activations_fd = model->activations.fd,
        .tables_fd = model->tables.fd,
        .plan_id = model->plan.id,
        .weights_id = model->weights.id,
        .kv_id = model->kv.id,
        .activations_id = model->activations.id,
        .tables_id = model->tables.id,
        .plan_size = model->plan.size,
        .weights_size = model->weights.size,
        .kv_size = model->kv.size,
        .activations_size = model->activations.size,
        .tables_size = model->tables.size,
        .tier = (enum tern_tier)model->options.tier,
        .threads = model->options.threads,
        .vocabulary = plan->vocabulary,
    };
}

static void reach(void *context, uint32_t positions)
{
    struct tern_model *model = context;
    tern_rope_tables_reach(&model->rope, positions);
}

/* Whoever gets such a page writes a position before it is read. */
static void relieve(void *context)
{
    const struct tern_model *model = context;
    const struct tern_plan *plan = model->compiled.plan;
    const struct tern_pages *pages = model->lane.pages;
    const uint32_t count = tern_pages_count(pages);
    for (uint32_t first = 0, end; first < count; first = end + 1) {
        for (end = first; end < count && tern_pages_holders(pages, end) == 0;)
            end++;
        if (end > first)
            (void)fallocate(model->kv.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            (off_t)(TERN_SEGMENT_DATA + first * plan->kv.page_bytes),
                            (off_t)((end - first) * plan->kv.page_bytes));
    }
}

/* Without a tokenizer only the id that the file names is known to end an answer. */
static void find_ends(const struct tern_model_file *file, struct tern_lane *lane)
{
    uint64_t id;
    size_t ends = 0;
    if (file->tokenizer != NULL)
        ends = tern_end_tokens(file->tokenizer, lane->end_token, TERN_MAX_END_TOKENS);
    else if (tern_catalog_u64(file->catalog, "tokenizer.ggml.eos_token_id", &id) &&
             id < lane->plan->vocabulary)
        lane->end_token[ends++] = (uint32_t)id;
    lane->end_tokens = ends < TERN_MAX_END_TOKENS ? (uint32_t)ends : TERN_MAX_END_TOKENS;
}

void tern_model_open_lane(struct tern_model *model,
                          void (*lost)(void *context, const struct tern_error *error))
{
    const struct tern_plan *plan = model->compiled.plan;
    struct tern_lane *lane = &model->lane;
    const char *slash = strrchr(model->file->path, '/');
    lane->name = slash != NULL ? slash + 1 : model->file->path;
    lane->plan = plan;
    lane->logits = model->logits.data + plan->logits.offset;
    find_ends(model->file, lane);
    lane->reach = reach;
    lane->relieve = relieve;
    lane->lost = lost;
    lane->context = model;
}

static void drop(struct tern_made_segment *made)
{
    if (made->fd >= 0)
        close(made->fd);
    *made = (struct tern_made_segment){.fd = -1};
}

void tern_model_strip(struct tern_model *model)
{
    tern_pages_free(model->lane.pages);
    model->lane.pages = NULL;
    tern_segment_unmap(&model->logits);
    tern_rope_tables_close(&model->rope);
    drop(&model->plan);
    drop(&model->weights);
    drop(&model->kv);
    drop(&model->activations);
    drop(&model->tables);
    tern_compiled_free(&model->compiled);
}

static uint64_t committed(const struct tern_made_segment *made)
{
    struct stat info;
    return made->fd >= 0 && fstat(made->fd, &info) == 0 ? (uint64_t)info.st_blocks * 512 : 0;
}

uint64_t tern_model_committed(const struct tern_model *model)
{
    return committed(&model->plan) + committed(&model->weights) + committed(&model->kv) +
           committed(&model->activations) + committed(&model->tables);
}
