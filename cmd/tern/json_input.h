/* JSON that a person or a script hands to the command line: checked before anything is built from
 * it, so that a small file cannot take much memory. */
#ifndef TERN_CMD_JSON_INPUT_H
#define TERN_CMD_JSON_INPUT_H

#include "proto/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a JSON text nests no deeper than `depth` and holds at most `values` values. Texts that
 * are no JSON may pass: the parser finds what else is wrong. */
bool json_within(const char *text, size_t length, size_t depth, size_t values);

/* A JSON list of token ids as malloc'ed u32s, at most TERN_MAX_CONTEXT of them. `name` is what
 * messages call the text. TERN_USAGE, TERN_NO_MEMORY. */
enum tern_status ids_parse(const char *name, const char *text, size_t length, uint32_t **ids,
                           size_t *count, struct tern_error *error);

#endif
