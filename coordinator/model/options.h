/*
 * What a client asks of a model, from its message: names become numbers, defaults become values,
 * absurd ones are refused before anything is allocated.
 */
#ifndef TERN_MODEL_OPTIONS_H
#define TERN_MODEL_OPTIONS_H

#include "coordinator/graph/compile.h"
#include "proto/message.h"

/* Everything but the context is a value afterwards; context 0 stays (chosen by memory). TERN_USAGE
 * naming the option, also for a tier that this processor cannot run. */
enum tern_status tern_options_read(const struct tern_message *message, struct tern_options *options,
                                   struct tern_error *error);

/* Where the message says nothing, `options` become those of a loaded model. */
void tern_options_follow(const struct tern_message *message, const struct tern_options *loaded,
                         struct tern_options *options);

/* The same model loaded with the same options? `context` is what the loaded one really has (0: not
 * chosen yet), `trained` what the default would be if memory allows. */
bool tern_options_match(const struct tern_options *loaded, uint64_t context, uint64_t trained,
                        const struct tern_options *asked);

const char *tern_options_tier(const struct tern_options *options);
const char *tern_options_precision(const struct tern_options *options);
const char *tern_options_kv(const struct tern_options *options);

#endif
