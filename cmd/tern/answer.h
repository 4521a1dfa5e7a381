/* What is told of an answer: its figures, and all of it as one JSON object: {"text", "ids",
 * "reason", "prompt_tokens", "reused", "tokens", "context", "seed", "prompt_s", "decode_s",
 * "logprobs"?}. */
#ifndef TERN_CMD_ANSWER_H
#define TERN_CMD_ANSWER_H

#include "cmd/tern/output.h"

/* What DONE tells. */
struct answer_figures {
    char reason[16];
    uint64_t prompt_tokens, reused, tokens, context, seed;
    double prompt_s, decode_s;
};

void answer_figures_take(struct answer_figures *figures, const struct tern_message *done);
/* On standard error, for --stats. */
void answer_figures_print(const struct answer_figures *figures);
/* Did the context end the answer, which is no whole one then? */
bool answer_filled_context(const struct answer_figures *figures);
/* As members of a JSON object. */
void answer_figures_add(const struct answer_figures *figures, json_t *object);

struct answer_json {
    json_t *logprobs; /* list with {"id", "token", "logprob", "top"} of each token, or NULL */
    bool no_text;     /* ids came alone: Tern cannot read the model's tokenizer; text is null */
};

/* Keeps the log-probabilities of a TOKENS reply; false: no memory, or a reply that is broken. */
bool answer_json_take(struct answer_json *answer, const struct tern_message *reply);

/* Prints the object. Bytes that are no UTF-8 become U+FFFD. False when nobody reads any more. */
bool answer_json_print(const struct answer_json *answer, const struct collected *collected,
                       const struct answer_figures *figures);
void answer_json_free(struct answer_json *answer);

#endif
