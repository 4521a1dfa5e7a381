/* What memory there is for models: what is free, what idle ones would give, what others were
 * promised. */
#include "coordinator/model/internal.h"

#include "coordinator/memory.h"
#include "coordinator/model/load.h"
#include "proto/worker.h"

#include <inttypes.h>

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
        model_unload(victim);
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
        model_unload(victim);
    }
    if (status == TERN_OK)
        status = tern_choose_pages(catalog, &model->options, room, &model->size, error);
    return status;
}

enum tern_status room_make(struct tern_model *model, struct tern_error *error)
{
    const enum tern_status status = make_seat(model->models, error);
    return status == TERN_OK ? make_room(model, error) : status;
}

enum tern_status room_check_place(const struct tern_model *model, const struct tern_model *other,
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

bool room_is_short(const struct tern_model *model)
{
    struct tern_error error;
    uint64_t room;
    return tern_memory_room(&room, &error) != TERN_OK ||
           room < model->size.bytes + model->size.weights;
}
