/*
 * The tokens of a file: what each decodes to, its type, and the way from bytes to the ordinary
 * tokens that merging may produce. Everything comes from a hostile file and is checked here once.
 */
#ifndef TERN_TOKENIZER_VOCABULARY_H
#define TERN_TOKENIZER_VOCABULARY_H

#include "proto/catalog.h"

enum { TOKEN_NONE = UINT32_MAX };

/* Numbers of tokenizer.ggml.token_type. */
enum token_type {
    TOKEN_UNDEFINED,
    TOKEN_NORMAL,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE,
};

/* How the file writes its tokens. */
enum vocabulary_form {
    VOCABULARY_BYTE_LEVEL,    /* every byte as a printable character (GPT-2's table) */
    VOCABULARY_SENTENCEPIECE, /* text, with U+2581 for a space, and <0xHH> for bytes */
};

struct token_slot {
    uint32_t tag; /* upper half of the hash */
    uint32_t id;  /* TOKEN_NONE: free */
};

struct vocabulary {
    enum vocabulary_form form;
    uint32_t count;
    char *bytes;        /* what the tokens decode to, one after another */
    uint32_t *offset;   /* [count + 1] into bytes */
    uint8_t *type;      /* [count] enum token_type */
    uint32_t byte[256]; /* id of the token that stands for this one byte, or TOKEN_NONE */
    uint32_t unknown;   /* id of the unknown token, or TOKEN_NONE */
    int64_t bos, eos;   /* -1: none */
    char warning[160];  /* of the last special id or flag that makes no sense; empty: none */
    /* Open addressing over the tokens that merging may produce: never control tokens. For
     * SentencePiece their bytes hold spaces where the file has U+2581. */
    struct token_slot *slot;
    uint32_t slot_mask;
    uint64_t seed;
};

/* Reads tokens, types and special ids. *out is all zero on failure. */
enum tern_status vocabulary_read(const struct tern_catalog *catalog, enum vocabulary_form form,
                                 struct vocabulary *out, struct tern_error *error);
void vocabulary_free(struct vocabulary *vocabulary);

/* The ordinary token whose bytes are these, or TOKEN_NONE. */
uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *bytes, size_t length);

/* The same in two steps, for many texts at once: the first brings memory near. */
uint64_t vocabulary_prepare(const struct vocabulary *vocabulary, const char *bytes, size_t length);
uint32_t vocabulary_find_prepared(const struct vocabulary *vocabulary, uint64_t prepared,
                                  const char *bytes, size_t length);

static inline const char *vocabulary_bytes(const struct vocabulary *vocabulary, uint32_t id,
                                           size_t *length)
{
    *length = vocabulary->offset[id + 1] - vocabulary->offset[id];
    return vocabulary->bytes + vocabulary->offset[id];
}

/* Turns a byte-level text into its bytes in `out` (room for text.length); returns how many, or -1
 * if some character is not in the table. */
int64_t vocabulary_unmap_bytes(struct tern_string text, char *out);

/* An id from the metadata: -1 if absent, or, with a warning, if no token has it. */
int64_t vocabulary_special_id(const struct tern_catalog *catalog, const char *key,
                              struct vocabulary *vocabulary);

#endif
