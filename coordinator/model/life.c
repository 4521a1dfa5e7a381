/* What becomes of a model: opened, loaded, bound, unloaded. Each event takes it one state further,
 * then all are looked at again. */
#include "coordinator/model/internal.h"

#include "coordinator/model/load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void changed(const struct tern_models *models)
{
    models->changed(models->context);
}

/* ---- the end ---- */

void model_unload(struct tern_model *model)
{
    struct tern_models *models = model->models;
    struct tern_model **link = &models->list;
    while (*link != model)
        link = &(*link)->next;
    *link = model->next;
    if (model->state == TERN_MODEL_FILLING)
        tern_file_stop_fill(model->file);
    if (model->state == TERN_MODEL_READY)
        tern_scheduler_remove_lane(models->scheduler, &model->lane);
    if (model->bound)
        tern_supervisor_release(models->supervisor, model->lane.number);
    models->leaving += tern_model_committed(model);
    tern_settle_expect(&models->settling, tern_model_committed(model));
    tern_model_strip(model);
    tern_file_release(model->file);
    free(model);
}

static void fail(struct tern_model *model, const struct tern_error *error)
{
    const char *slash = strrchr(model->file->path, '/');
    if (model->state == TERN_MODEL_FILLING)
        tern_file_stop_fill(model->file);
    tern_fail(&model->error, error->status, "%s: %s", slash != NULL ? slash + 1 : model->file->path,
              error->message);
    tern_log("warning", "%s", model->error.message);
    model->state = TERN_MODEL_FAILED;
    tern_model_strip(model);
}

/* ---- loading ---- */

/* The worker cannot bind the plan again (memory is short, say): the model is gone. */
static void on_lost(void *context, const struct tern_error *error)
{
    struct tern_model *model = context;
    model->bound = false;
    fail(model, error);
    tern_models_advance(model->models);
}

static void on_bound(void *context, const struct tern_error *error)
{
    struct tern_model *model = context;
    struct tern_models *models = model->models;
    if (error->status != TERN_OK) {
        tern_supervisor_release(models->supervisor, model->lane.number);
        model->bound = false;
        fail(model, error);
    } else {
        tern_model_open_lane(model, on_lost);
        tern_scheduler_add_lane(models->scheduler, &model->lane);
        model->state = TERN_MODEL_READY;
        tern_log("info", "loaded %s: context %" PRIu32 ", %" PRIu64 " MiB planned",
                 model->file->path, model->size.context, model->size.bytes >> 20);
        model->used_ns = tern_now_ns();
    }
    tern_models_advance(models);
    changed(models);
}

static void on_progress(void *context, uint64_t bytes, uint64_t of)
{
    struct tern_model *model = context;
    model->fill_done = bytes;
    model->fill_all = of;
}

static void on_filled(void *context)
{
    struct tern_model *model = context;
    struct tern_models *models = model->models;
    struct tern_error error;
    model->state = TERN_MODEL_BINDING;
    model->lane.number = ++models->last_number;
    enum tern_status status = tern_model_furnish(model, models->supervisor, &error);
    if (status == TERN_OK) {
        const struct tern_binding binding = tern_model_binding(model);
        status = tern_supervisor_bind(models->supervisor, &binding, on_bound, model, &error);
    }
    if (status == TERN_OK)
        model->bound = true;
    else
        fail(model, &error);
    tern_models_advance(models);
    changed(models);
}

static void on_fill_failed(void *context, const struct tern_error *error)
{
    struct tern_model *model = context;
    struct tern_models *models = model->models;
    model->state = TERN_MODEL_BINDING; /* the filling is over: nothing to stop */
    fail(model, error);
    tern_models_advance(models);
    changed(models);
}

static enum tern_status start(struct tern_model *model, struct tern_error *error)
{
    const struct tern_fill_events events = {
        .context = model, .progress = on_progress, .filled = on_filled, .failed = on_fill_failed};
    enum tern_status status = room_make(model, error);
    if (status == TERN_OK)
        status = tern_model_compile(model, model->models->supervisor, error);
    if (status != TERN_OK)
        return status;
    model->fill_all = model->weights.size;
    return tern_file_fill(model->file, model->weights.fd, model->weights.id, model->weights.size,
                          room_is_short(model), &events, error);
}

/* ---- what is next ---- */

/* Nobody can ask any more for what was loaded from this path before its file was replaced. False:
 * there is none of that kind. */
static bool retire_replaced(struct tern_model *model)
{
    bool any = false;
    for (struct tern_model *other = model->models->list; other != model; other = other->next) {
        if (other->retiring || strcmp(other->file->path, model->file->path) != 0 ||
            tern_same_file(&other->file->identity, &model->file->identity))
            continue;
        other->retiring = any = true;
        model->pinned |= other->pinned;
    }
    return any;
}

/* An earlier instance of the same file, which must be gone before this one is loaded. */
static struct tern_model *predecessor(const struct tern_model *model)
{
    struct tern_model *other = model->models->list;
    for (; other != model; other = other->next)
        if (tern_same_file(&other->file->identity, &model->file->identity) &&
            other->state != TERN_MODEL_FAILED)
            return other;
    return NULL;
}

static bool advance_opening(struct tern_model *model)
{
    if (model->file->state == TERN_FILE_OPENING)
        return false;
    if (model->file->state == TERN_FILE_FAILED)
        fail(model, &model->file->error);
    else
        model->state = TERN_MODEL_WAITING;
    return true;
}

/* False: nothing could be done yet. */
static bool advance_waiting(struct tern_model *model)
{
    struct tern_models *models = model->models;
    struct tern_error error;
    if (retire_replaced(model))
        return true; /* those without users go first */
    struct tern_model *other = predecessor(model);
    if (other != NULL && !other->retiring && room_check_place(model, other, &error) != TERN_OK) {
        fail(model, &error);
        return true;
    }
    if (other != NULL) {
        const bool news = !other->retiring;
        other->retiring = true;
        model->pinned |= other->pinned;
        return news; /* comes again when that one is gone */
    }
    if (tern_settle_waits(&models->settling, tern_supervisor_releasing(models->supervisor)))
        return false;
    const enum tern_status status = start(model, &error);
    models->settling.due = 0; /* what idle models left is this one's already */
    if (status == TERN_OK)
        model->state = TERN_MODEL_FILLING;
    else
        fail(model, &error);
    return true;
}

/* Nobody will use it again, and no answer from the supervisor is due. */
static bool is_over(const struct tern_model *model)
{
    if (model->users > 0 || model->state == TERN_MODEL_BINDING)
        return false;
    return model->retiring || model->state == TERN_MODEL_FAILED ||
           (model->state != TERN_MODEL_READY && !model->pinned);
}

static bool advance(struct tern_model *model)
{
    if (is_over(model))
        model_unload(model);
    else if (model->state == TERN_MODEL_OPENING)
        return advance_opening(model);
    else if (model->state == TERN_MODEL_WAITING)
        return advance_waiting(model);
    else
        return false;
    return true;
}

/* One change; false when there is nothing to do. After a change the list may be another one. */
static bool advance_one(struct tern_models *models)
{
    for (struct tern_model *model = models->list; model != NULL; model = model->next)
        if (advance(model))
            return true;
    return false;
}

void tern_models_advance(struct tern_models *models)
{
    bool any = false;
    while (!models->ended && advance_one(models))
        any = true;
    models->leaving = 0;
    if (any)
        changed(models);
}
