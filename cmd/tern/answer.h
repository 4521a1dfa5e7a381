/* An answer as one JSON object: {"text", "ids", "reason", "prompt_tokens", "reused", "tokens",
 * "context", "seed", "prompt_s", "decode_s", "logprobs"?}. */
#ifndef TERN_CMD_ANSWER_H
#define TERN_CMD_ANSWER_H

#include "cmd/tern/output.h"

struct answer_json {
    json_t *logprobs; /* list with {"id", "token", "logprob", "top"} of each token, or NULL */
    bool no_text;     /* ids came alone: Tern cannot read the model's tokenizer; text is null */
};

/* Keeps the log-probabilities of a TOKENS reply; false: no memory, or a reply that is broken. */
bool answer_json_take(struct answer_json *answer, const struct tern_message *reply);

/* Prints the object when `done` has come. Bytes that are no UTF-8 become U+FFFD. False when nobody
 * reads any more. */
bool answer_json_print(const struct answer_json *answer, const struct collected *collected,
                       const struct tern_message *done);
void answer_json_free(struct answer_json *answer);

/* A JSON string of any bytes: what is no UTF-8 becomes U+FFFD, one for each byte, but one alone for
 * a character that the end cuts off. NULL: no memory. */
json_t *json_of_bytes(const char *bytes, size_t length);

#endif
