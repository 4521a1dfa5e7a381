/*
 * Chat prompts: the file's own chat template is run over the messages (chat/template). It is looked
 * at only here, never when a model is loaded or text is tokenized as it stands, so that a broken
 * one stops nothing but chats. User text never becomes a control token. Nothing global is written:
 * prompts may be made in several threads.
 */
#ifndef TERN_CHAT_H
#define TERN_CHAT_H

#include "coordinator/tokenizer/tokenizer.h"

struct tern_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *text; /* valid UTF-8 */
};

/* Is there a template that can be read? TERN_UNSUPPORTED if there is none or it has a statement
 * that is not supported, TERN_BAD_MODEL if it is malformed; the message says where. */
enum tern_status tern_chat_check(const struct tern_catalog *catalog, struct tern_error *error);

/* The whole prompt's ids, ready for the assistant's answer: the same as rendering the file's
 * template and tokenizing it with special tokens parsed, as long as the messages hold none. Where
 * they begin with BOS it is exactly one; the template, not the tokenizer, has the say whether they
 * do. TERN_USAGE: the template refuses these messages, or they are not UTF-8; other errors as
 * tern_chat_check's and tern_template_render's. */
enum tern_status tern_chat_prompt(const struct tern_catalog *catalog,
                                  const struct tern_tokenizer *tokenizer,
                                  const struct tern_chat_message *messages, size_t count,
                                  struct tern_ids *out, struct tern_error *error);

#endif
