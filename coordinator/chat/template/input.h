/* JSON to values. */
#ifndef TERN_TEMPLATE_INPUT_H
#define TERN_TEMPLATE_INPUT_H

#include "coordinator/chat/template/evaluate.h"

#include <jansson.h>

/* Bytes of all its strings, about, and so many for each value. */
size_t input_size(const json_t *json);

/* Sets the members of an object (or NULL) as variables; their strings are marked as input or not.
 * The value of a key "role" that names one of the known roles is not marked: it is a choice among
 * words that templates write into control tokens, as in "<|" + role + "|>", not a text. */
void input_variables(struct work *w, struct frame *frame, const json_t *variables, bool mark);

#endif
