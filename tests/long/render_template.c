/*
 * Renders chat templates for compare_templates.py. A line of standard input is a JSON object with
 * "template" and "variables"; the answer is a line with "text", or "status" and "error".
 */
#include "coordinator/chat/template/template.h"

#include <stdio.h>
#include <stdlib.h>

static json_t *answer(const json_t *request)
{
    struct tern_error error = {0};
    struct tern_template *parsed;
    struct tern_rendered rendered = {0};
    const json_t *text = json_object_get(request, "template");
    const struct tern_template_input input = {.variables = json_object_get(request, "variables")};
    enum tern_status status = tern_template_parse(
        "it", (struct tern_string){json_string_value(text), json_string_length(text)}, &parsed,
        &error);
    if (status == TERN_OK)
        status = tern_template_render(parsed, &input, &rendered, &error);
    json_t *out = status == TERN_OK
                      ? json_pack("{s:o}", "text", json_stringn(rendered.text, rendered.length))
                      : json_pack("{s:i, s:s}", "status", (int)status, "error", error.message);
    tern_rendered_free(&rendered);
    tern_template_free(parsed);
    return out;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        json_t *request = json_loads(line, JSON_ALLOW_NUL, NULL);
        json_t *out = answer(request);
        if (request == NULL || out == NULL || json_dumpf(out, stdout, JSON_COMPACT) != 0)
            return 1;
        putchar('\n');
        fflush(stdout);
        json_decref(request);
        json_decref(out);
    }
    free(line);
    return 0;
}
