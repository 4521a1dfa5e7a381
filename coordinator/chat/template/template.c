/* Parsing and rendering from outside: the arena, the input, the result. */
#include "coordinator/chat/template/template.h"

#include "coordinator/chat/template/evaluate.h"
#include "coordinator/chat/template/input.h"
#include "coordinator/chat/template/node.h"

#include <stdlib.h>
#include <string.h>

/* Longer texts are no chat templates; published ones have up to 20 kB. */
enum { LONGEST_TEMPLATE = 1 << 20 };

struct tern_template {
    struct work work; /* its arena holds the nodes */
    const struct node *first;
};

enum tern_status tern_template_parse(const char *name, struct tern_string text,
                                     struct tern_template **out, struct tern_error *error)
{
    *out = NULL;
    if (text.length > LONGEST_TEMPLATE)
        return tern_fail(
            error, TERN_BAD_MODEL,
            "%s, line 1, column 1: the template has %zu bytes, more than %d; use --raw", name,
            text.length, LONGEST_TEMPLATE);
    struct tern_template *parsed = calloc(1, sizeof *parsed);
    if (parsed == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for %s", name);
    work_begin(&parsed->work, name, 0, error);
    if (setjmp(parsed->work.escape) != 0) {
        const enum tern_status status = parsed->work.status;
        tern_template_free(parsed);
        return status;
    }
    parsed->first = parse_template(&parsed->work, text.bytes, text.length);
    *out = parsed;
    return TERN_OK;
}

void tern_template_free(struct tern_template *parsed)
{
    if (parsed == NULL)
        return;
    work_free(&parsed->work);
    free(parsed);
}

static void copy_out(struct work *w, const struct builder *b, struct tern_rendered *out)
{
    out->text = malloc(b->length + 1);
    out->input = calloc(1, b->length + 1);
    if (out->text == NULL || out->input == NULL)
        work_fail(w, TERN_NO_MEMORY, "no memory for the chat");
    if (b->length > 0)
        memcpy(out->text, b->bytes, b->length);
    if (b->marks != NULL)
        memcpy(out->input, b->marks, b->length);
    out->text[b->length] = '\0';
    out->length = b->length;
}

enum tern_status tern_template_render(const struct tern_template *parsed,
                                      const struct tern_template_input *input,
                                      struct tern_rendered *out, struct tern_error *error)
{
    *out = (struct tern_rendered){0};
    struct work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for %s", parsed->work.name);
    work_begin(w, parsed->work.name, input_size(input->variables), error);
    w->seconds = input->seconds;
    if (setjmp(w->escape) == 0) {
        struct frame *frame = frame_new(w, NULL);
        struct builder text = {0};
        input_variables(w, frame, input->variables, true);
        input_variables(w, frame, input->own, false);
        run_statements(w, frame, parsed->first, &text);
        copy_out(w, &text, out);
    } else {
        tern_rendered_free(out);
    }
    const enum tern_status status = w->status;
    work_free(w);
    free(w);
    return status;
}

void tern_rendered_free(struct tern_rendered *rendered)
{
    free(rendered->text);
    free(rendered->input);
    *rendered = (struct tern_rendered){0};
}
