/* From a file's template and a list of messages to ids. */
#include "coordinator/chat/chat.h"

#include "coordinator/chat/style.h"
#include "proto/utf8.h"
#include <string.h>
#include <time.h>

static enum tern_status read_style(const struct tern_catalog *catalog, struct tern_string *text,
                                   struct chat_style *style, struct tern_error *error)
{
    if (!tern_catalog_string(catalog, "tokenizer.chat_template", text))
        return tern_fail(error, TERN_UNSUPPORTED,
                         "the model has no chat template (tokenizer.chat_template); use --raw");
    return chat_style_read(*text, style, error);
}

enum tern_status tern_chat_recognize(const struct tern_catalog *catalog,
                                     struct tern_string *template_text, enum tern_chat_form *form,
                                     struct tern_error *error)
{
    struct chat_style style = {0};
    struct tern_string text = {0};
    const enum tern_status status = read_style(catalog, &text, &style, error);
    if (template_text != NULL)
        *template_text = text;
    *form = style.form;
    chat_style_free(&style);
    return status;
}

enum tern_status tern_chat_prompt(const struct tern_catalog *catalog,
                                  const struct tern_tokenizer *tokenizer,
                                  const struct tern_chat_message *messages, size_t count,
                                  struct tern_ids *out, struct tern_error *error)
{
    *out = (struct tern_ids){0};
    /* Texts are taken apart by character before the tokenizer would look. */
    for (size_t i = 0; i < count; i++)
        if (!tern_utf8_valid(messages[i].text, strlen(messages[i].text)))
            return tern_fail(error, TERN_USAGE, "message %zu is not valid UTF-8", i);
    struct chat_style style;
    struct tern_string text;
    enum tern_status status = read_style(catalog, &text, &style, error);
    if (status != TERN_OK)
        return status;
    struct tern_string bos = {0};
    if (tern_bos(tokenizer) >= 0)
        bos.bytes = tern_token_bytes(tokenizer, (uint32_t)tern_bos(tokenizer), &bos.length);
    struct chat_pieces pieces;
    status = chat_render(&style, bos, messages, count, (long long)time(NULL), &pieces, error);
    if (status == TERN_OK)
        status = tern_tokenize(tokenizer, pieces.piece, pieces.count, false, out, error);
    chat_pieces_free(&pieces);
    chat_style_free(&style);
    return status;
}
