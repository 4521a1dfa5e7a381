/* Ids to text, as they come: a character is given out when its last byte is there. */
#include "coordinator/tokenizer/internal.h"
#include "proto/utf8.h"
#include <stdlib.h>
#include <string.h>

static bool is_control(const struct tern_tokenizer *t, uint32_t id)
{
    return t->vocabulary.type[id] == TOKEN_CONTROL || t->vocabulary.type[id] == TOKEN_UNKNOWN;
}

bool tern_token_is_control(const struct tern_tokenizer *tokenizer, uint32_t id)
{
    return is_control(tokenizer, id);
}

/* The bytes of an id at this place of a sequence. */
static const char *next_bytes(const struct tern_tokenizer *t, struct tern_decoder *decoder,
                              uint32_t id, size_t *length)
{
    const char *bytes = tern_token_bytes(t, id, length);
    if (!t->space_prefix || decoder->started || is_control(t, id) || *length == 0)
        return bytes;
    decoder->started = true;
    if (bytes[0] != ' ')
        return bytes;
    --*length;
    return bytes + 1;
}

/* Keeps what could still become a character. */
static void hold_back(struct tern_decoder *decoder, const char *text, size_t *length)
{
    const size_t complete = tern_utf8_complete(text, *length);
    decoder->held_bytes = (unsigned char)(*length - complete);
    memcpy(decoder->held, text + complete, decoder->held_bytes);
    *length = complete;
}

enum tern_status tern_decode(const struct tern_tokenizer *tokenizer, struct tern_decoder *decoder,
                             const uint32_t *ids, size_t count, bool skip_control, bool last,
                             char **text, size_t *length, struct tern_error *error)
{
    size_t bytes = decoder->held_bytes;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= tokenizer->vocabulary.count)
            return tern_fail(error, TERN_USAGE, "id %u is not in the vocabulary of %u tokens",
                             ids[i], tokenizer->vocabulary.count);
        size_t there;
        tern_token_bytes(tokenizer, ids[i], &there);
        bytes += there;
    }
    char *grown = realloc(*text, *length + bytes + 1);
    if (grown == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for %zu bytes of text", bytes);
    *text = grown;
    char *const start = grown + *length;
    size_t written = decoder->held_bytes;
    memcpy(start, decoder->held, written);
    for (size_t i = 0; i < count; i++) {
        if (skip_control && is_control(tokenizer, ids[i]))
            continue;
        size_t there;
        const char *token = next_bytes(tokenizer, decoder, ids[i], &there);
        memcpy(start + written, token, there);
        written += there;
    }
    decoder->held_bytes = 0;
    if (!last)
        hold_back(decoder, start, &written);
    *length += written;
    return TERN_OK;
}
