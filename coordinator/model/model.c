/* The list of models and who uses them: found by file and options, given back, unloaded. */
#include "coordinator/model/model.h"

#include "coordinator/model/internal.h"
#include "coordinator/model/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void tern_models_end(struct tern_models *models)
{
    if (models != NULL)
        models->ended = true;
}

void tern_models_free(struct tern_models *models)
{
    if (models == NULL)
        return;
    while (models->list != NULL)
        model_unload(models->list);
    tern_supervisor_on_released(models->supervisor, NULL, NULL);
    free(models);
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

/* How `tern load` has loaded this file, or the one that was at its path; NULL: it has not. */
static const struct tern_options *pinned(const struct tern_models *models, const char *path,
                                         const struct tern_identity *identity)
{
    for (const struct tern_model *model = models->list; model != NULL; model = model->next)
        if (model->pinned && !model->retiring && model->state != TERN_MODEL_FAILED &&
            (tern_same_file(&model->file->identity, identity) ||
             strcmp(model->file->path, path) == 0))
            return &model->options;
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
                                const struct tern_message *follow, struct tern_options *options,
                                struct tern_model **out, struct tern_error *error)
{
    struct tern_identity identity;
    enum tern_status status = tern_identify(path, &identity, error);
    if (status != TERN_OK)
        return status;
    const struct tern_options *loaded = follow != NULL ? pinned(models, path, &identity) : NULL;
    if (loaded != NULL)
        tern_options_follow(follow, loaded, options);
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
