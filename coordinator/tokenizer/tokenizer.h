/*
 * Text to token ids and back, from a GGUF file's own vocabulary; the ids are those of Hugging Face
 * tokenizers and sentencepiece, token for token. Nothing here needs tensors or hyperparameters.
 * The vocabulary comes from a file and is treated as hostile. A tokenizer is immutable after
 * tern_tokenizer_new and may be used from several threads.
 */
#ifndef TERN_TOKENIZER_H
#define TERN_TOKENIZER_H

#include "proto/catalog.h"

struct tern_tokenizer;

/* Builds from tokenizer.ggml.* keys. Borrows nothing from the catalog. TERN_BAD_MODEL for a broken
 * vocabulary, TERN_UNSUPPORTED naming an unknown tokenizer model or pre-tokenizer (never guessed).
 */
enum tern_status tern_tokenizer_new(const struct tern_catalog *catalog, struct tern_tokenizer **out,
                                    struct tern_error *error);
void tern_tokenizer_free(struct tern_tokenizer *tokenizer);
/* What a user must know of the vocabulary: a special id that was taken as absent. NULL: nothing. */
const char *tern_tokenizer_warning(const struct tern_tokenizer *tokenizer);

/* Text in pieces that are encoded as one text; special (control) tokens are recognized only where
 * they lie wholly in pieces that allow it, and tags of chats like <think> not where a piece is a
 * user's. How user text never becomes a control token. */
struct tern_text {
    const char *bytes; /* valid UTF-8 in all */
    size_t length;
    bool parse_special; /* false: control tokens in it are plain text (USER_DEFINED ones are not) */
    bool users;         /* tags are plain text, too */
};

struct tern_ids {
    uint32_t *id; /* malloc'ed; tern_ids_free */
    size_t count;
};
void tern_ids_free(struct tern_ids *ids);

/* add_special: BOS and EOS are added as the file says. TERN_USAGE if the text is not valid UTF-8.
 */
enum tern_status tern_tokenize(const struct tern_tokenizer *tokenizer,
                               const struct tern_text *pieces, size_t count, bool add_special,
                               struct tern_ids *out, struct tern_error *error);

uint32_t tern_vocabulary(const struct tern_tokenizer *tokenizer);
/* The tokens that end an answer (EOS, EOT, EOM and the known end-of-turn control tokens), at most
 * `room` of them, into ids; returns how many there are. */
size_t tern_end_tokens(const struct tern_tokenizer *tokenizer, uint32_t *ids, size_t room);
int64_t tern_bos(const struct tern_tokenizer *tokenizer); /* -1: none */
/* The token that add_special puts behind a text, -1: none. */
int64_t tern_text_end(const struct tern_tokenizer *tokenizer);

/* The bytes of one token as HF's decode gives them (control tokens by their text). *length may be
 * 0. Valid as long as the tokenizer. id < tern_vocabulary. */
const char *tern_token_bytes(const struct tern_tokenizer *tokenizer, uint32_t id, size_t *length);

/* Is it no part of a text? id < tern_vocabulary. */
bool tern_token_is_control(const struct tern_tokenizer *tokenizer, uint32_t id);

/* Streaming decoder: what the sequence so far decodes to, minus what was given out before. Never
 * gives half a character: bytes that could still become one are held back until `last`. */
struct tern_decoder {
    char held[8];
    unsigned char held_bytes;
    bool started; /* something was decoded (SentencePiece drops the first space) */
};
/* Appends to *text (malloc'ed, grown with realloc, *length bytes, no NUL needed). At `last` an
 * incomplete character's bytes are given out as they are. skip_control leaves control tokens out.
 */
enum tern_status tern_decode(const struct tern_tokenizer *tokenizer, struct tern_decoder *decoder,
                             const uint32_t *ids, size_t count, bool skip_control, bool last,
                             char **text, size_t *length, struct tern_error *error);

/* "gpt2/qwen2", "llama" ...: for `tern info`. */
const char *tern_tokenizer_name(const struct tern_tokenizer *tokenizer);

#endif
