/* The life of loaded models: found by file and options, loaded, kept, unloaded. */
#include "coordinator/model/model.h"

#include "coordinator/memory.h"
#include "coordinator/model/load.h"
#include "coordinator/model/options.h"
#include "coordinator/model/settle.h"
#include "proto/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tern_models {
    struct tern_supervisor *supervisor;
    struct tern_scheduler *scheduler;
    struct tern_files *files;
    struct tern_model *list;
    uint32_t last_number; /* of a binding */
    uint64_t leaving;     /* bytes of models just unloaded, which processes still map */
    struct tern_settling settling;
    tern_callback changed;
    void *context;
};

static void on_released(void *context)
{
    tern_models_advance(context);
}

struct tern_models *tern_models_new(struct tern_supervisor *supervisor,
                                    struct tern_scheduler *scheduler, struct tern_files *files,
                                    tern_callback changed, void *context)
{
    struct tern_models *models = calloc(1, sizeof *models);
    if (models == NULL)
        return NULL;
    *models = (struct tern_models){.supervisor = supervisor,
                                   .scheduler = scheduler,
                                   .files = files,
                                   .changed = changed,
                                   .context = context};
    tern_supervisor_on_released(supervisor, on_released, models);
    return models;
}

const struct tern_model *tern_models_first(const struct tern_models *models)
{
    return models->list;
}

const char *tern_model_state_name(enum tern_model_state state)
{
    static const char *const names[] = {
        [TERN_MODEL_OPENING] = "opening", [TERN_MODEL_WAITING] = "waiting",
        [TERN_MODEL_FILLING] = "loading", [TERN_MODEL_BINDING] = "binding",
        [TERN_MODEL_READY] = "ready",     [TERN_MODEL_FAILED] = "failed",
    };
    return names[state];
}

uint64_t tern_model_planned(const struct tern_model *model)
{
    return model->size.bytes;
}

static void changed(const struct tern_models *models)
{
    models->changed(models->context);
}

/* ---- the end ---- */

/* The model has no users; its binding was answered. */
static void unload(struct tern_model *model)
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

void tern_models_free(struct tern_models *models)
{
    if (models == NULL)
        return;
    while (models->list != NULL)
        unload(models->list);
    tern_supervisor_on_released(models->supervisor, NULL, NULL);
    free(models);
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

/* ---- memory ---- */

static bool idle(const struct tern_model *model)
{
    return model->state == TERN_MODEL_READY && model->users == 0 && !model->pinned;
}

/* Bytes that other models were promised and have not touched yet. */
static uint64_t promised(const struct tern_models *models, const struct tern_model *except)
{
    uint64_t sum = 0;
    for (const struct tern_model *model = models->list; model != NULL; model = model->next) {
        const uint64_t here = tern_model_committed(model);
        if (model != except && model->state != TERN_MODEL_FAILED && model->size.bytes > here)
            sum += model->size.bytes - here;
    }
    return sum;
}

/* What could be had by unloading idle models. */
static uint64_t reclaimable(const struct tern_models *models)
{
    uint64_t sum = 0;
    for (const struct tern_model *model = models->list; model != NULL; model = model->next)
        sum += idle(model) ? model->size.bytes : 0;
    return sum;
}

static struct tern_model *longest_idle(struct tern_models *models)
{
    struct tern_model *found = NULL;
    for (struct tern_model *model = models->list; model != NULL; model = model->next)
        if (idle(model) && (found == NULL || model->used_ns < found->used_ns))
            found = model;
    return found;
}

static bool has_seat(const struct tern_model *model)
{
    return model->state == TERN_MODEL_FILLING || model->state == TERN_MODEL_BINDING ||
           model->state == TERN_MODEL_READY;
}

/* Workers hold so many plans and no more: idle models make way for a new one. */
static enum tern_status make_seat(struct tern_models *models, struct tern_error *error)
{
    uint32_t seats = 0;
    for (const struct tern_model *model = models->list; model != NULL; model = model->next)
        seats += has_seat(model);
    for (; seats >= TERN_MAX_PLANS; seats--) {
        struct tern_model *victim = longest_idle(models);
        if (victim == NULL)
            return tern_fail(error, TERN_NO_MEMORY,
                             "%" PRIu32 " models are loaded and in use or pinned; unload one",
                             seats);
        tern_log("info", "unloading %s: too many models are loaded", victim->file->path);
        unload(victim);
    }
    return TERN_OK;
}

/* Bytes that a model (NULL: a new one) may use beside all others. */
static enum tern_status find_room_beside(const struct tern_models *models,
                                         const struct tern_model *model, uint64_t *room,
                                         struct tern_error *error)
{
    const uint64_t taken = promised(models, model);
    const enum tern_status status = tern_memory_room(room, error);
    if (status != TERN_OK)
        return status;
    *room += models->leaving;
    *room = *room > taken ? *room - taken : 0;
    return TERN_OK;
}

static enum tern_status find_room(const struct tern_model *model, uint64_t *room,
                                  struct tern_error *error)
{
    return find_room_beside(model->models, model, room, error);
}

enum tern_status tern_models_room(const struct tern_models *models, uint64_t *room,
                                  struct tern_error *error)
{
    const enum tern_status status = find_room_beside(models, NULL, room, error);
    if (status == TERN_OK)
        *room += reclaimable(models);
    return status;
}

/* Chooses the model's size, unloading idle models where that makes the room. What they held comes
 * back as soon as the worker has unmapped it, which it does before it binds the next plan. */
static enum tern_status make_room(struct tern_model *model, struct tern_error *error)
{
    struct tern_models *models = model->models;
    const struct tern_catalog *catalog = model->file->catalog;
    uint64_t room;
    enum tern_status status = find_room(model, &room, error);
    if (status != TERN_OK)
        return status;
    status =
        tern_choose_size(catalog, &model->options, room + reclaimable(models), &model->size, error);
    while (status == TERN_OK && model->size.bytes > room) {
        struct tern_model *victim = longest_idle(models);
        if (victim == NULL)
            return tern_fail(error, TERN_NO_MEMORY, "not enough memory");
        room += victim->size.bytes;
        tern_log("info", "unloading %s: its memory is needed", victim->file->path);
        unload(victim);
    }
    if (status == TERN_OK)
        status = tern_choose_pages(catalog, &model->options, room, &model->size, error);
    return status;
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

/* Is a copy of the weights in the page cache more than memory can hold besides the model? */
static bool memory_is_short(const struct tern_model *model)
{
    struct tern_error error;
    uint64_t room;
    return tern_memory_room(&room, &error) != TERN_OK ||
           room < model->size.bytes + model->size.weights;
}

static enum tern_status start(struct tern_model *model, struct tern_error *error)
{
    const struct tern_fill_events events = {
        .context = model, .progress = on_progress, .filled = on_filled, .failed = on_fill_failed};
    enum tern_status status = make_seat(model->models, error);
    if (status == TERN_OK)
        status = make_room(model, error);
    if (status != TERN_OK)
        return status;
    status = tern_model_compile(model, model->models->supervisor, error);
    if (status != TERN_OK)
        return status;
    model->fill_all = model->weights.size;
    return tern_file_fill(model->file, model->weights.fd, model->weights.id, model->weights.size,
                          memory_is_short(model), &events, error);
}

/* ---- what is next ---- */

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

/* Would the model fit in the place of `other`? That one must not go for one that is refused. */
static enum tern_status check_place(const struct tern_model *model, const struct tern_model *other,
                                    struct tern_error *error)
{
    struct tern_size_choice size;
    uint64_t room;
    const enum tern_status status = find_room(model, &room, error);
    if (status != TERN_OK)
        return status;
    room += reclaimable(model->models) + (idle(other) ? 0 : other->size.bytes);
    return tern_choose_size(model->file->catalog, &model->options, room, &size, error);
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
    struct tern_model *other = predecessor(model);
    if (other != NULL && !other->retiring && check_place(model, other, &error) != TERN_OK) {
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
        unload(model);
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
    while (advance_one(models))
        any = true;
    models->leaving = 0;
    if (any)
        changed(models);
}

/* ---- users ---- */

static struct tern_model *find(struct tern_models *models, const struct tern_identity *identity,
                               const struct tern_options *options)
{
    for (struct tern_model *model = models->list; model != NULL; model = model->next)
        if (!model->retiring && model->state != TERN_MODEL_FAILED &&
            tern_same_file(&model->file->identity, identity) &&
            tern_options_match(&model->options, model->size.context, model->size.trained, options))
            return model;
    return NULL;
}

static void append(struct tern_models *models, struct tern_model *model)
{
    struct tern_model **link = &models->list;
    while (*link != NULL)
        link = &(*link)->next;
    *link = model;
}

static enum tern_status add(struct tern_models *models, const char *path,
                            const struct tern_options *options, struct tern_model **out,
                            struct tern_error *error)
{
    struct tern_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    const struct tern_made_segment none = {.fd = -1};
    *model = (struct tern_model){.models = models,
                                 .options = *options,
                                 .plan = none,
                                 .weights = none,
                                 .kv = none,
                                 .activations = none,
                                 .tables = none};
    const enum tern_status status = tern_file_get(models->files, path, &model->file, error);
    if (status != TERN_OK) {
        free(model);
        return status;
    }
    append(models, model);
    *out = model;
    return TERN_OK;
}

enum tern_status tern_model_get(struct tern_models *models, const char *path,
                                const struct tern_options *options, struct tern_model **out,
                                struct tern_error *error)
{
    struct tern_identity identity;
    enum tern_status status = tern_identify(path, &identity, error);
    if (status != TERN_OK)
        return status;
    *out = find(models, &identity, options);
    if (*out == NULL)
        status = add(models, path, options, out, error);
    if (status != TERN_OK)
        return status;
    (*out)->users++;
    tern_models_advance(models);
    return TERN_OK;
}

void tern_model_release(struct tern_model *model)
{
    struct tern_models *models = model->models;
    model->users--;
    model->used_ns = tern_now_ns();
    tern_models_advance(models);
}

enum tern_status tern_models_unload(struct tern_models *models, const char *path, uint32_t *waits,
                                    struct tern_error *error)
{
    struct tern_identity identity;
    const bool exists = tern_identify(path, &identity, error) == TERN_OK;
    bool found = false;
    *waits = 0;
    for (struct tern_model *model = models->list; model != NULL; model = model->next) {
        const bool same = strcmp(model->file->path, path) == 0 ||
                          (exists && tern_same_file(&model->file->identity, &identity));
        if (!same || model->state == TERN_MODEL_FAILED)
            continue;
        found = true;
        model->pinned = false;
        model->retiring = true;
        *waits += model->users;
    }
    if (!found)
        return tern_fail(error, TERN_USAGE, "%s is not loaded", path);
    tern_models_advance(models);
    return TERN_OK;
}

void tern_model_progress(const struct tern_model *model, char text[160], uint64_t *done,
                         uint64_t *all)
{
    *done = model->fill_done;
    *all = model->fill_all;
    if (model->state == TERN_MODEL_WAITING)
        snprintf(text, 160, "%s",
                 model->models->settling.due > 0
                     ? "waiting until the memory of an unloaded model is free"
                     : "waiting until requests with other settings have finished");
    else if (model->state == TERN_MODEL_READY)
        snprintf(text, 160, "waiting");
    else
        snprintf(text, 160, "%s", tern_model_state_name(model->state));
}
