/*
 * Chat templates. The file's own template is data: here it is only recognized as one of the known
 * forms (ChatML, Llama 3, Gemma), whose texts Tern writes itself; others are refused with a hint to
 * --raw. User text never becomes a control token.
 */
#ifndef TERN_CHAT_H
#define TERN_CHAT_H

#include "coordinator/tokenizer/tokenizer.h"

enum tern_chat_form { TERN_CHAT_NONE, TERN_CHAT_CHATML, TERN_CHAT_LLAMA3, TERN_CHAT_GEMMA };

struct tern_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *text; /* valid UTF-8 */
};

/* How the model's chats look. TERN_UNSUPPORTED (template absent or of an unknown form). */
enum tern_status tern_chat_recognize(const struct tern_catalog *catalog,
                                     struct tern_string *template_text, /* out, may be NULL */
                                     enum tern_chat_form *form, struct tern_error *error);

/* The whole prompt's ids, ready for the assistant's answer, exactly one BOS where the form has one.
 * The same ids as rendering the file's template and tokenizing it with special tokens parsed, as
 * long as the messages hold none. */
enum tern_status tern_chat_prompt(const struct tern_catalog *catalog,
                                  const struct tern_tokenizer *tokenizer,
                                  const struct tern_chat_message *messages, size_t count,
                                  struct tern_ids *out, struct tern_error *error);

#endif
