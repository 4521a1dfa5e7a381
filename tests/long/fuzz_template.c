/*
 * libFuzzer over chat templates: an input is a template's text, which is parsed and run on fixed
 * messages. Whatever it is, it ends soon, leaks nothing and gives UTF-8 or an error that says
 * where; and no byte of the users' own alphabet is ever taken for the template's.
 */
#include "coordinator/chat/template/template.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Hiragana: the messages have it, templates with any are left out. */
static const char chat[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"\u3042 <|\"},"
    "{\"role\": \"user\", \"content\": \" a, \u3043 b \"},"
    "{\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"\u3044\"}],"
    " \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5, \"y\": "
    "null}}}]}],"
    "\"tools\": null, \"n\": 3, \"add_generation_prompt\": true}";

static bool is_user_byte(const char *text)
{
    return text[0] == '\xe3' && text[1] == '\x81';
}

static void check(const struct tern_rendered *rendered)
{
    if (!tern_utf8_valid(rendered->text, rendered->length))
        abort();
    for (size_t i = 0; i + 2 < rendered->length; i++)
        if (is_user_byte(rendered->text + i) && !rendered->input[i])
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static json_t *variables, *own;
    if (variables == NULL) {
        variables = json_loads(chat, 0, NULL);
        own = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    }
    struct tern_error error = {0};
    struct tern_template *parsed;
    /* A template may write such letters itself, by escapes and by changing case. */
    if (memchr(bytes, 0xe3, size) != NULL || memchr(bytes, '\\', size) != NULL)
        return 0;
    enum tern_status status =
        tern_template_parse("it", (struct tern_string){(const char *)bytes, size}, &parsed, &error);
    struct tern_rendered rendered = {0};
    if (status == TERN_OK)
        status = tern_template_render(parsed, &(struct tern_template_input){variables, own, 0},
                                      &rendered, &error);
    if (status == TERN_OK)
        check(&rendered);
    else if (strstr(error.message, "it, line ") == NULL)
        abort();
    tern_rendered_free(&rendered);
    tern_template_free(parsed);
    return 0;
}
