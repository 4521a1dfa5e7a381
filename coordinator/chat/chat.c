/* From a file's template and a list of messages to ids. */
#include "coordinator/chat/chat.h"

#include "coordinator/chat/template/template.h"
#include "proto/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum tern_status read_template(const struct tern_catalog *catalog,
                                      struct tern_template **out, struct tern_error *error)
{
    static const char key[] = "tokenizer.chat_template";
    struct tern_string text;
    const bool is_text = tern_catalog_string(catalog, key, &text);
    *out = NULL;
    if (!is_text && tern_catalog_has(catalog, key))
        return tern_fail(error, TERN_BAD_MODEL,
                         "%s is no text; tern run --raw continues a text without a template", key);
    if (!is_text || text.length == 0)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "the model has no chat template (tokenizer.chat_template); tern run --raw "
                         "continues a text without one");
    return tern_template_parse(key, text, out, error);
}

enum tern_status tern_chat_check(const struct tern_catalog *catalog, struct tern_error *error)
{
    struct tern_template *parsed;
    const enum tern_status status = read_template(catalog, &parsed, error);
    tern_template_free(parsed);
    return status;
}

/* The text of a token, "" for none. */
static json_t *token_text(const struct tern_tokenizer *tokenizer, int64_t id)
{
    size_t length = 0;
    const char *bytes = "";
    if (id >= 0 && id < tern_vocabulary(tokenizer))
        bytes = tern_token_bytes(tokenizer, (uint32_t)id, &length);
    json_t *text = json_stringn(bytes, length);
    return text != NULL ? text : json_string(""); /* NULL: the token is not UTF-8 */
}

/* Only BOS and EOS are always there, if need be as "": templates ask whether others are defined. */
static json_t *own_variables(const struct tern_catalog *catalog,
                             const struct tern_tokenizer *tokenizer)
{
    static const char *const named[][2] = {{"eos_token", "tokenizer.ggml.eos_token_id"},
                                           {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                           {"pad_token", "tokenizer.ggml.padding_token_id"}};
    json_t *own = json_pack("{s:o, s:s}", "bos_token", token_text(tokenizer, tern_bos(tokenizer)),
                            "eos_token", "");
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        uint64_t id;
        if (tern_catalog_u64(catalog, named[i][1], &id) && id < tern_vocabulary(tokenizer) &&
            json_object_set_new(own, named[i][0], token_text(tokenizer, (int64_t)id)) != 0) {
            json_decref(own);
            return NULL;
        }
    }
    return own;
}

static json_t *chat_variables(const struct tern_chat_message *messages, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "role", messages[i].role, "content", messages[i].text));
    if (json_array_size(list) < count) { /* no memory for some */
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:o, s:n, s:n, s:b}", "messages", list, "tools", "documents",
                     "add_generation_prompt", 1);
}

/* What the messages hold parses neither special tokens nor tags, what the template writes does. */
static enum tern_status tokenize(const struct tern_tokenizer *tokenizer,
                                 const struct tern_rendered *rendered, struct tern_ids *out,
                                 struct tern_error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < rendered->length; i++)
        count += i == 0 || rendered->input[i] != rendered->input[i - 1];
    struct tern_text *pieces = calloc(count + 1, sizeof *pieces);
    if (pieces == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for the chat");
    count = 0;
    for (size_t i = 0; i < rendered->length; i++) {
        if (i == 0 || rendered->input[i] != rendered->input[i - 1])
            pieces[count++] = (struct tern_text){.bytes = rendered->text + i,
                                                 .parse_special = !rendered->input[i],
                                                 .users = rendered->input[i]};
        pieces[count - 1].length++;
    }
    const enum tern_status status = tern_tokenize(tokenizer, pieces, count, false, out, error);
    free(pieces);
    return status;
}

/* A template that writes BOS more than once, or writes its text itself beside it, gives one. Where
 * it writes none there is none: the template, not the tokenizer, has the say in chats. */
static void keep_one_bos(const struct tern_tokenizer *tokenizer, struct tern_ids *ids)
{
    const int64_t bos = tern_bos(tokenizer);
    size_t has = 0;
    while (has < ids->count && ids->id[has] == bos)
        has++;
    if (has < 2)
        return;
    ids->count -= has - 1;
    memmove(ids->id, ids->id + has - 1, ids->count * sizeof *ids->id);
}

static enum tern_status render(const struct tern_template *parsed,
                               const struct tern_catalog *catalog,
                               const struct tern_tokenizer *tokenizer,
                               const struct tern_chat_message *messages, size_t count,
                               struct tern_rendered *rendered, struct tern_error *error)
{
    json_t *variables = chat_variables(messages, count), *own = own_variables(catalog, tokenizer);
    enum tern_status status = TERN_NO_MEMORY;
    if (variables == NULL || own == NULL)
        tern_fail(error, status, "no memory for the chat");
    else
        status =
            tern_template_render(parsed,
                                 &(struct tern_template_input){
                                     .variables = variables, .own = own, .seconds = time(NULL)},
                                 rendered, error);
    json_decref(variables);
    json_decref(own);
    return status;
}

enum tern_status tern_chat_prompt(const struct tern_catalog *catalog,
                                  const struct tern_tokenizer *tokenizer,
                                  const struct tern_chat_message *messages, size_t count,
                                  struct tern_ids *out, struct tern_error *error)
{
    struct tern_template *parsed;
    struct tern_rendered rendered = {0};
    *out = (struct tern_ids){0};
    for (size_t i = 0; i < count; i++)
        if (!tern_utf8_valid(messages[i].text, strlen(messages[i].text)) ||
            !tern_utf8_valid(messages[i].role, strlen(messages[i].role)))
            return tern_fail(error, TERN_USAGE, "message %zu is not valid UTF-8", i);
    enum tern_status status = read_template(catalog, &parsed, error);
    if (status == TERN_OK)
        status = render(parsed, catalog, tokenizer, messages, count, &rendered, error);
    if (status == TERN_OK)
        status = tokenize(tokenizer, &rendered, out, error);
    if (status == TERN_OK)
        keep_one_bos(tokenizer, out);
    tern_rendered_free(&rendered);
    tern_template_free(parsed);
    return status;
}
