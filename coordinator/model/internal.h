/* The models, shared by model.c (who uses them), life.c (what becomes of them) and room.c (what
 * memory there is for them). */
#ifndef TERN_MODEL_INTERNAL_H
#define TERN_MODEL_INTERNAL_H

#include "coordinator/model/model.h"
#include "coordinator/model/settle.h"

struct tern_models {
    struct tern_supervisor *supervisor;
    struct tern_scheduler *scheduler;
    struct tern_files *files;
    struct tern_model *list;
    uint32_t last_number; /* of a binding */
    uint64_t leaving;     /* bytes of models just unloaded, which processes still map */
    struct tern_settling settling;
    bool ended;
    tern_callback changed;
    void *context;
};

/* life.c */
/* Frees it. It has no users, and its binding was answered. */
void model_unload(struct tern_model *model);

/* room.c */
/* A seat at the worker and a size for the model, at the cost of idle models. TERN_NO_MEMORY naming
 * what is missing; also what tern_choose_size returns. */
enum tern_status room_make(struct tern_model *model, struct tern_error *error);
/* Would the model fit in the place of `other`? That one must not go for one that is refused. */
enum tern_status room_check_place(const struct tern_model *model, const struct tern_model *other,
                                  struct tern_error *error);
/* Is a copy of the weights in the page cache more than memory can hold besides the model? */
bool room_is_short(const struct tern_model *model);

#endif
