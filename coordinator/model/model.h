/*
 * Loaded models and their lives:
 *
 *   OPENING   the file is being read for its catalog
 *   WAITING   an instance of the same file with other settings still has requests
 *   FILLING   compiled, segments made, the loader brings the weights in
 *   BINDING   the compute worker maps the segments and binds the plan
 *   READY     sessions run
 *   FAILED    its users are told why, then it goes
 *
 * A model is (file identity, options). Users keep it alive; a READY model without users stays
 * loaded until another needs its memory, unless it is pinned.
 */
#ifndef TERN_MODEL_H
#define TERN_MODEL_H

#include "coordinator/model/file.h"
#include "coordinator/model/rope_tables.h"
#include "coordinator/model/size.h"
#include "coordinator/schedule/schedule.h"
#include "proto/message.h"

enum tern_model_state {
    TERN_MODEL_OPENING,
    TERN_MODEL_WAITING,
    TERN_MODEL_FILLING,
    TERN_MODEL_BINDING,
    TERN_MODEL_READY,
    TERN_MODEL_FAILED,
};

/* A segment that the coordinator made. */
struct tern_made_segment {
    int fd; /* -1: none */
    uint64_t id, size;
};

struct tern_models;

struct tern_model {
    struct tern_model *next; /* in order of creation */
    struct tern_models *models;
    struct tern_model_file *file;
    struct tern_options options;
    enum tern_model_state state;
    struct tern_error error; /* FAILED: why */
    bool pinned, retiring;   /* retiring: takes no new users, goes when the last one has left */
    uint32_t users;
    uint64_t used_ns; /* when the last user left */

    struct tern_size_choice size;
    uint64_t fill_done, fill_all; /* bytes of the weights */
    struct tern_compiled compiled;
    struct tern_made_segment plan, weights, kv, activations, tables;
    struct tern_segment logits; /* the activations, mapped read-only */
    struct tern_rope_tables rope;
    struct tern_lane lane;
    bool bound; /* the supervisor knows the binding */
};

/* `changed` is called, from the loop or from inside the functions below (as their last act), when a
 * model's state changed. NULL: out of memory. */
struct tern_models *tern_models_new(struct tern_supervisor *supervisor,
                                    struct tern_scheduler *scheduler, struct tern_files *files,
                                    tern_callback changed, void *context);
/* The service ends: nothing is loaded or unloaded any more. NULL is allowed. */
void tern_models_end(struct tern_models *models);
/* No model has sessions any more. */
void tern_models_free(struct tern_models *models);

/* The first model, for listing. */
const struct tern_model *tern_models_first(const struct tern_models *models);

/* The model with these options, loading it if need be; to be given back with tern_model_release.
 * `follow` (may be NULL): where this message says nothing, the options become those with which
 * `tern load` has loaded the file. TERN_BAD_MODEL if there is no such file. */
enum tern_status tern_model_get(struct tern_models *models, const char *path,
                                const struct tern_message *follow, struct tern_options *options,
                                struct tern_model **out, struct tern_error *error);
void tern_model_release(struct tern_model *model);

/* Files changed their state. */
void tern_models_advance(struct tern_models *models);

/* Unpins and unloads all instances of the file at once, or when their last users have left (then
 * *waits counts these users). TERN_USAGE if none is loaded. */
enum tern_status tern_models_unload(struct tern_models *models, const char *path, uint32_t *waits,
                                    struct tern_error *error);

/* Bytes that one more model could use now, if idle ones were unloaded for it. */
enum tern_status tern_models_room(const struct tern_models *models, uint64_t *room,
                                  struct tern_error *error);

/* What loading is at, for progress messages; text has room for 160 bytes. */
void tern_model_progress(const struct tern_model *model, char text[160], uint64_t *done,
                         uint64_t *all);

const char *tern_model_state_name(enum tern_model_state state);

/* Bytes of memory that the model was planned to need. */
uint64_t tern_model_planned(const struct tern_model *model);

#endif
