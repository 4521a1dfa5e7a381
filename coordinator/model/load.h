/*
 * What a model is made of: the plan, the segments, the tables, the binding. For life.c, which calls
 * these in this order.
 */
#ifndef TERN_MODEL_LOAD_H
#define TERN_MODEL_LOAD_H

#include "coordinator/model/model.h"

/* Compiles for model->size and makes the weights segment. */
enum tern_status tern_model_compile(struct tern_model *model, struct tern_supervisor *supervisor,
                                    struct tern_error *error);
/* After the weights are in: seals them, makes the other segments and the RoPE frequencies. */
enum tern_status tern_model_furnish(struct tern_model *model, struct tern_supervisor *supervisor,
                                    struct tern_error *error);
/* The binding of a furnished model. */
struct tern_binding tern_model_binding(const struct tern_model *model);
/* The lane of a bound model; `lost` as in struct tern_lane, with the model as its context. */
void tern_model_open_lane(struct tern_model *model,
                          void (*lost)(void *context, const struct tern_error *error));

/* Gives everything back that the functions above made. */
void tern_model_strip(struct tern_model *model);

/* Bytes of its segments that are in memory now. */
uint64_t tern_model_committed(const struct tern_model *model);

#endif
