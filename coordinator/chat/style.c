/* The phrases of the known forms. Each was compared with what the published templates give. */
#include "coordinator/chat/style.h"

#include "coordinator/chat/spelling.h"
#include <stdlib.h>
#include <string.h>

/* Longer ones are programs of another kind. */
enum { LONGEST_TEMPLATE = 1 << 20 };

static bool has(const char *text, const char *phrase)
{
    return strstr(text, phrase) != NULL;
}

static bool has_any(const char *text, const char *const *phrases)
{
    for (; *phrases != NULL; phrases++)
        if (has(text, *phrases))
            return true;
    return false;
}

/* The string literal's text from `from` up to `end`, escapes undone; NULL: no memory. */
static char *copy_literal(const char *from, const char *end)
{
    char *out = malloc((size_t)(end - from) + 1), *to = out;
    if (out == NULL)
        return NULL;
    while (from < end) {
        if (*from == '\\' && from + 1 < end) {
            from++;
            *to++ = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
            from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return out;
}

static bool ends_with(const char *text, const char *end, const char *phrase)
{
    const size_t length = strlen(phrase);
    return (size_t)(end - text) >= length && memcmp(end - length, phrase, length) == 0;
}

/* The system message that the template writes by itself: the whole turn is one literal. False if
 * it begins a system turn in a way that is not understood. */
static bool find_standard(const char *text, char **standard)
{
    static const char opening[] = "'<|im_start|>system\\n";
    for (const char *at = text; (at = strstr(at, opening)) != NULL;) {
        const bool for_tools = ends_with(text, at, "{%if tools%}{{");
        at += sizeof opening - 1;
        /* A turn with the user's own system message, or one that lists tools, of which there are
         * none. */
        if (*at == '\'' && (at[1] == '+' || for_tools))
            continue;
        const char *const quote = strchr(at, '\''), *const end = strstr(at, "<|im_end|>");
        if (quote == NULL || end == NULL || quote < end || *standard != NULL)
            return false;
        *standard = copy_literal(at, end);
        if (*standard == NULL)
            return false;
    }
    return true;
}

static bool read_chatml(const char *text, struct chat_style *style)
{
    static const char *const plain[] = {
        "'<|im_start|>'+message.role+'\\n'+message.content+'<|im_end|>'+'\\n'",
        "'<|im_start|>'+message.role+'\\n'+message.content+'<|im_end|>\\n'",
        "'<|im_start|>'+message.role+'\\n'+content+'<|im_end|>'+'\\n'",
        NULL,
    };
    static const char *const trimmed[] = {
        "'<|im_start|>'+message.role+'\\n'+message.content|trim+'<|im_end|>'+'\\n'",
        "'<|im_start|>'+message.role+'\\n'+message.content|trim+'<|im_end|>\\n'",
        NULL,
    };
    style->trim = has_any(text, trimmed);
    if ((!style->trim && !has_any(text, plain)) ||
        !has(text, "{%if add_generation_prompt%}{{'<|im_start|>assistant\\n'}}"))
        return false;
    style->form = TERN_CHAT_CHATML;
    style->bos = has(text, "bos_token");
    style->thinking = has(text, ".split('</think>')");
    return find_standard(text, &style->standard);
}

static bool read_llama3(const char *text, struct chat_style *style)
{
    static const char message[] = "'<|start_header_id|>'+message.role+'<|end_header_id|>\\n\\n'+"
                                  "message.content|trim+'<|eot_id|>'";
    if (!has(text, message) || !has(text, "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'"))
        return false;
    style->form = TERN_CHAT_LLAMA3;
    style->bos = style->trim = true;
    style->dated = has(text, "Cutting Knowledge Date: December 2023\\n");
    style->today = style->dated && has(text, "strftime_now('%d %b %Y')");
    return !style->dated || has(text, "26 Jul 2024");
}

static bool read_gemma(const char *text, struct chat_style *style)
{
    const bool prefix =
        has(text, "'<start_of_turn>'+role+'\\n'+(first_user_prefix if loop.first else'')") &&
        has(text, "{{message.content|trim}}");
    if (!prefix &&
        !has(text, "'<start_of_turn>'+role+'\\n'+message.content|trim+'<end_of_turn>\\n'"))
        return false;
    if (!has(text, "'<start_of_turn>model\\n'"))
        return false;
    style->form = TERN_CHAT_GEMMA;
    style->bos = style->trim = true;
    style->alternate = has(text, "raise_exception('Conversation roles must alternate");
    style->system = prefix ? CHAT_SYSTEM_PREFIX
                    : has(text, "raise_exception('System role not supported')")
                        ? CHAT_SYSTEM_REFUSED
                        : CHAT_SYSTEM_TURN;
    return true;
}

enum tern_status chat_style_read(struct tern_string template_text, struct chat_style *out,
                                 struct tern_error *error)
{
    static bool (*const readers[])(const char *, struct chat_style *) = {
        read_chatml,
        read_llama3,
        read_gemma,
    };
    *out = (struct chat_style){0};
    if (template_text.length > LONGEST_TEMPLATE)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "tokenizer.chat_template has %zu bytes; use --raw and write the prompt's "
                         "own format",
                         template_text.length);
    char *text = spell(template_text);
    if (text == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory to read tokenizer.chat_template");
    bool known = false;
    for (size_t i = 0; !known && i < sizeof readers / sizeof readers[0]; i++) {
        chat_style_free(out); /* what the reader before took for its own */
        known = readers[i](text, out);
    }
    free(text);
    if (known)
        return TERN_OK;
    chat_style_free(out);
    return tern_fail(
        error, TERN_UNSUPPORTED,
        "tokenizer.chat_template is none of the forms that are known (ChatML, Llama 3, "
        "Gemma); use --raw and write the prompt in the model's own format");
}

void chat_style_free(struct chat_style *style)
{
    free(style->standard);
    *style = (struct chat_style){0};
}
