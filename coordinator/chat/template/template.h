/*
 * Chat templates: an interpreter of the part of the Jinja language that chat templates are written
 * in (jinja2 3.1 with trim_blocks and lstrip_blocks, as Hugging Face's apply_chat_template sets it
 * up). A template comes from a model file and is hostile: parsing and rendering are bounded in
 * steps, memory, output and stack, whatever its text, and end with an error that names the line and
 * column. Nothing global is written; a parsed template is immutable and may be rendered from
 * several threads.
 *
 * Text keeps its provenance: each byte of what is rendered is known to be the template's own or to
 * come from the input, through every operation on strings. So that user text never becomes a
 * control token.
 */
#ifndef TERN_TEMPLATE_H
#define TERN_TEMPLATE_H

#include "proto/catalog.h"

#include <jansson.h>

struct tern_template; /* a parsed template; tern_template_free */

/* Reads the whole text (need not be valid UTF-8: that is an error too). `name` is what errors call
 * the template, and lives as long as it. TERN_BAD_MODEL: a syntax error or a text too large or
 * nested too deeply; TERN_UNSUPPORTED: a statement this interpreter does not know. */
enum tern_status tern_template_parse(const char *name, struct tern_string text,
                                     struct tern_template **out, struct tern_error *error);
void tern_template_free(struct tern_template *parsed);

struct tern_template_input {
    const json_t *variables; /* an object: what the caller's chat holds; its strings are input */
    const json_t *own;       /* an object or NULL: variables whose strings are the model's own */
    long long seconds;       /* the time that strftime_now tells, since 1970 in UTC; told as local
                                time */
};

struct tern_rendered {
    char *text;           /* malloc'ed with `length` bytes and a NUL; valid UTF-8 */
    unsigned char *input; /* malloc'ed; one per byte: 1 if it comes from input->variables */
    size_t length;
};

/* TERN_USAGE: the template refused these messages by raise_exception, whose message ends the
 * error's; TERN_UNSUPPORTED: a filter, test or function that does not exist here; TERN_BAD_MODEL:
 * any other error of the language, or a budget spent; TERN_NO_MEMORY: the machine has none. */
enum tern_status tern_template_render(const struct tern_template *parsed,
                                      const struct tern_template_input *input,
                                      struct tern_rendered *out, struct tern_error *error);
void tern_rendered_free(struct tern_rendered *rendered);

#endif
