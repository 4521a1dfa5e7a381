/* Reading a file's tokens: sizes and counts are checked before anything is believed. */
#include "coordinator/tokenizer/vocabulary.h"

#include "coordinator/tokenizer/hash.h"
#include "coordinator/tokenizer/unicode.h"
#include "proto/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* GPT-2's table: printable Latin-1 characters stand for themselves, the other 68 bytes (0 to 0x20,
 * 0x7f to 0xa0, 0xad) for the characters from U+0100 on, in rising order. -1: not in it. */
static int mapped_byte(uint32_t point)
{
    if ((point >= '!' && point <= '~') || (point >= 0xa1 && point <= 0xff && point != 0xad))
        return (int)point;
    if (point < 0x100 || point > 0x143)
        return -1;
    const int place = (int)point - 0x100;
    if (place <= 0x20)
        return place;
    return place == 67 ? 0xad : place - 33 + 0x7f;
}

int64_t vocabulary_unmap_bytes(struct tern_string text, char *out)
{
    int64_t count = 0;
    for (size_t i = 0; i < text.length;) {
        const int bytes = tern_utf8_character(text.bytes + i, text.length - i);
        if (bytes <= 0 || bytes > 2)
            return -1;
        unsigned unused;
        const int byte = mapped_byte(unicode_point(text.bytes + i, &unused));
        if (byte < 0)
            return -1;
        out[count++] = (char)byte;
        i += (size_t)bytes;
    }
    return count;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "<0xHH>" names, or -1. */
static int named_byte(struct tern_string text)
{
    if (text.length != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>')
        return -1;
    const int high = hex_digit(text.bytes[3]), low = hex_digit(text.bytes[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Copies with a space for every U+2581; returns the bytes written. */
static size_t copy_spaced(struct tern_string text, char *out)
{
    size_t count = 0;
    for (size_t i = 0; i < text.length;) {
        const bool space = text.length - i >= 3 && memcmp(text.bytes + i, "\xe2\x96\x81", 3) == 0;
        out[count++] = space ? ' ' : text.bytes[i];
        i += space ? 3 : 1;
    }
    return count;
}

static size_t write_bytes(const struct vocabulary *v, uint32_t id, struct tern_string text,
                          char *out)
{
    if (v->form == VOCABULARY_BYTE_LEVEL) {
        const int64_t bytes = vocabulary_unmap_bytes(text, out);
        if (bytes >= 0)
            return (size_t)bytes;
        if (text.length > 0)
            memcpy(out, text.bytes, text.length);
        return text.length;
    }
    const int byte = v->type[id] == TOKEN_BYTE ? named_byte(text) : -1;
    if (byte < 0)
        return copy_spaced(text, out);
    out[0] = (char)byte;
    return 1;
}

static bool is_between(struct tern_string text, const char *first, const char *last)
{
    const size_t before = strlen(first), after = strlen(last);
    return text.length >= before + after && memcmp(text.bytes, first, before) == 0 &&
           memcmp(text.bytes + text.length - after, last, after) == 0;
}

static bool equals(struct tern_string text, const char *name)
{
    return text.length == strlen(name) && memcmp(text.bytes, name, text.length) == 0;
}

/* Files of older converters call tokens that begin and end turns user-defined, as if a user's text
 * could hold them; newer ones go by how they look, as this does. */
static bool looks_special(struct tern_string text)
{
    static const char *const names[] = {"<s>",          "</s>", "<bos>", "<eos>", "<start_of_turn>",
                                        "<end_of_turn>"};
    if (is_between(text, "<|", "|>") || is_between(text, "<\uff5c", "\uff5c>"))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (equals(text, names[i]))
            return true;
    return false;
}

/* Some converters call the tokens of bytes ordinary ones, so that newlines would be unknown, and
 * come out spelled. Where none is a byte's and all 256 names are there, they are meant. */
static void find_misnamed_bytes(const struct tern_array *tokens, struct vocabulary *v)
{
    bool named[256] = {false};
    size_t count = 0;
    for (uint32_t id = 0; id < v->count; id++) {
        const int byte = named_byte(tern_array_string(tokens, id));
        if (v->type[id] == TOKEN_BYTE)
            return;
        if (byte >= 0 && !named[byte]) {
            named[byte] = true;
            count++;
        }
    }
    for (uint32_t id = 0; count == 256 && id < v->count; id++)
        if (named_byte(tern_array_string(tokens, id)) >= 0)
            v->type[id] = TOKEN_BYTE;
}

/* Some exporters of Gemma call the tokens of turns ordinary ones. No text is made of what begins a
 * turn and what ends one both, so where a vocabulary has the two they are that. */
static void find_misnamed_turns(const struct tern_array *tokens, struct vocabulary *v)
{
    enum { PAIRS = 2 };
    static const char *const names[PAIRS][2] = {{"<start_of_turn>", "<end_of_turn>"},
                                                {"<|im_start|>", "<|im_end|>"}};
    uint32_t found[PAIRS][2] = {{TOKEN_NONE, TOKEN_NONE}, {TOKEN_NONE, TOKEN_NONE}};
    for (uint32_t id = 0; id < v->count; id++) {
        const struct tern_string text = tern_array_string(tokens, id);
        for (size_t i = 0; i < 2 * PAIRS && text.length > 0 && text.bytes[0] == '<'; i++)
            if (equals(text, names[i / 2][i % 2]))
                found[i / 2][i % 2] = id;
    }
    for (size_t i = 0; i < 2 * PAIRS; i++) {
        const uint32_t id = found[i / 2][i % 2], other = found[i / 2][1 - i % 2];
        if (id != TOKEN_NONE && other != TOKEN_NONE && v->type[id] == TOKEN_NORMAL)
            v->type[id] = TOKEN_CONTROL;
    }
}

static enum tern_status read_types(const struct tern_catalog *catalog,
                                   const struct tern_array *tokens, struct vocabulary *v,
                                   struct tern_error *error)
{
    struct tern_array types;
    const bool typed = tern_catalog_numbers(catalog, "tokenizer.ggml.token_type", &types);
    if (!typed && tern_catalog_has(catalog, "tokenizer.ggml.token_type"))
        return tern_fail(error, TERN_BAD_MODEL, "tokenizer.ggml.token_type must hold %u numbers",
                         v->count);
    if (typed && types.count != v->count)
        return tern_fail(error, TERN_BAD_MODEL,
                         "tokenizer.ggml.token_type has %llu entries for %u tokens",
                         (unsigned long long)types.count, v->count);
    for (uint32_t id = 0; id < v->count; id++) {
        const int64_t type = typed ? tern_array_i64(&types, id) : TOKEN_NORMAL;
        if (type < TOKEN_UNDEFINED || type > TOKEN_BYTE)
            return tern_fail(error, TERN_BAD_MODEL, "token %u has type %lld, which does not exist",
                             id, (long long)type);
        v->type[id] = type == TOKEN_UNDEFINED ? TOKEN_NORMAL : (uint8_t)type;
        if (!typed && v->form == VOCABULARY_SENTENCEPIECE &&
            named_byte(tern_array_string(tokens, id)) >= 0)
            v->type[id] = TOKEN_BYTE;
        if (type == TOKEN_USER_DEFINED && looks_special(tern_array_string(tokens, id)))
            v->type[id] = TOKEN_CONTROL;
    }
    if (v->form == VOCABULARY_SENTENCEPIECE) {
        find_misnamed_bytes(tokens, v);
        find_misnamed_turns(tokens, v);
    }
    /* Without types nothing else says that these are no text. */
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                       "tokenizer.ggml.padding_token_id"};
    for (size_t i = 0; !typed && i < sizeof keys / sizeof keys[0]; i++) {
        uint64_t id;
        if (tern_catalog_u64(catalog, keys[i], &id) && id < v->count)
            v->type[id] = TOKEN_CONTROL;
    }
    return TERN_OK;
}

static enum tern_status read_bytes(const struct tern_array *tokens, struct vocabulary *v,
                                   struct tern_error *error)
{
    uint64_t total = 0;
    for (uint32_t id = 0; id < v->count; id++)
        total += tern_array_string(tokens, id).length;
    if (total > UINT32_MAX / 2)
        return tern_fail(error, TERN_BAD_MODEL, "the vocabulary holds %llu bytes of text",
                         (unsigned long long)total);
    /* Tokens never grow, but for "<0xHH>", which shrinks. */
    v->bytes = malloc(total + 1);
    if (v->bytes == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for a vocabulary of %llu bytes",
                         (unsigned long long)total);
    uint32_t used = 0;
    for (uint32_t id = 0; id < v->count; id++) {
        v->offset[id] = used;
        const struct tern_string text = tern_array_string(tokens, id);
        used += (uint32_t)write_bytes(v, id, text, v->bytes + used);
    }
    v->offset[v->count] = used;
    return TERN_OK;
}

static uint64_t draw_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return hash_fold((uint64_t)now.tv_nsec + 1, (uint64_t)(uintptr_t)&seed | 1);
}

/* The slot of these bytes, or the free one where they belong. */
static struct token_slot *find_slot(const struct vocabulary *v, uint64_t hash, const char *bytes,
                                    size_t length)
{
    const uint32_t tag = (uint32_t)(hash >> 32);
    for (uint32_t at = (uint32_t)hash & v->slot_mask;; at = (at + 1) & v->slot_mask) {
        struct token_slot *slot = &v->slot[at];
        if (slot->id == TOKEN_NONE)
            return slot;
        if (slot->tag != tag)
            continue;
        size_t length_there;
        const char *there = vocabulary_bytes(v, slot->id, &length_there);
        if (length_there == length && memcmp(there, bytes, length) == 0)
            return slot;
    }
}

uint64_t vocabulary_prepare(const struct vocabulary *vocabulary, const char *bytes, size_t length)
{
    const uint64_t hash = hash_bytes(bytes, length, vocabulary->seed);
    __builtin_prefetch(&vocabulary->slot[(uint32_t)hash & vocabulary->slot_mask]);
    return hash;
}

uint32_t vocabulary_find_prepared(const struct vocabulary *vocabulary, uint64_t prepared,
                                  const char *bytes, size_t length)
{
    return find_slot(vocabulary, prepared, bytes, length)->id;
}

uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *bytes, size_t length)
{
    return find_slot(vocabulary, hash_bytes(bytes, length, vocabulary->seed), bytes, length)->id;
}

/* The first of equal tokens wins; `type` alone is taken. */
static void index_type(struct vocabulary *v, enum token_type type)
{
    for (uint32_t id = 0; id < v->count; id++) {
        if (v->type[id] != type || v->offset[id] == v->offset[id + 1])
            continue;
        size_t length;
        const char *bytes = vocabulary_bytes(v, id, &length);
        const uint64_t hash = hash_bytes(bytes, length, v->seed);
        struct token_slot *slot = find_slot(v, hash, bytes, length);
        if (slot->id == TOKEN_NONE)
            *slot = (struct token_slot){.tag = (uint32_t)(hash >> 32), .id = id};
    }
}

static enum tern_status build_index(struct vocabulary *v, struct tern_error *error)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)v->count)
        slots *= 2;
    v->slot = malloc(slots * sizeof *v->slot);
    if (v->slot == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for an index of %u tokens", v->count);
    memset(v->slot, 0xff, slots * sizeof *v->slot);
    v->slot_mask = (uint32_t)slots - 1;
    v->seed = draw_seed();
    index_type(v, TOKEN_NORMAL);
    index_type(v, TOKEN_USER_DEFINED);
    return TERN_OK;
}

/* Which token stands for each byte: in SentencePiece the byte tokens, else the ordinary one. */
static void find_byte_tokens(struct vocabulary *v)
{
    memset(v->byte, 0xff, sizeof v->byte);
    if (v->form == VOCABULARY_BYTE_LEVEL) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            const char character = (char)byte;
            v->byte[byte] = vocabulary_find(v, &character, 1);
        }
        return;
    }
    for (uint32_t id = v->count; id-- > 0;)
        if (v->type[id] == TOKEN_BYTE && v->offset[id + 1] - v->offset[id] == 1)
            v->byte[(uint8_t)v->bytes[v->offset[id]]] = id;
}

int64_t vocabulary_special_id(const struct tern_catalog *catalog, const char *key,
                              struct vocabulary *v)
{
    uint64_t id;
    if (!tern_catalog_has(catalog, key))
        return -1;
    if (!tern_catalog_u64(catalog, key, &id))
        snprintf(v->warning, sizeof v->warning, "%s is no token id; taken as absent", key);
    else if (id < v->count)
        return (int64_t)id;
    else
        snprintf(v->warning, sizeof v->warning,
                 "%s is %llu, but there are only %u tokens; taken as absent", key,
                 (unsigned long long)id, v->count);
    return -1;
}

static bool is_control(const struct vocabulary *v, uint32_t id)
{
    return id < v->count && v->type[id] == TOKEN_CONTROL;
}

static void read_special_ids(const struct tern_catalog *catalog, struct vocabulary *v)
{
    v->bos = vocabulary_special_id(catalog, "tokenizer.ggml.bos_token_id", v);
    v->eos = vocabulary_special_id(catalog, "tokenizer.ggml.eos_token_id", v);
    const int64_t unknown = vocabulary_special_id(catalog, "tokenizer.ggml.unknown_token_id", v);
    v->unknown = unknown < 0 ? TOKEN_NONE : (uint32_t)unknown;
    if (v->form != VOCABULARY_SENTENCEPIECE)
        return;
    /* What SentencePiece models have where the file does not say. */
    if (!tern_catalog_has(catalog, "tokenizer.ggml.bos_token_id") && is_control(v, 1))
        v->bos = 1;
    if (!tern_catalog_has(catalog, "tokenizer.ggml.eos_token_id") && is_control(v, 2))
        v->eos = 2;
    for (uint32_t id = 0; unknown < 0 && id < v->count; id++)
        if (v->type[id] == TOKEN_UNKNOWN) {
            v->unknown = id;
            break;
        }
}

enum tern_status vocabulary_read(const struct tern_catalog *catalog, enum vocabulary_form form,
                                 struct vocabulary *out, struct tern_error *error)
{
    *out = (struct vocabulary){.form = form};
    struct tern_array tokens;
    if (!tern_catalog_array(catalog, "tokenizer.ggml.tokens", TERN_V_STRING, &tokens) ||
        tokens.count == 0)
        return tern_fail(error, TERN_BAD_MODEL,
                         "the file has no list of tokens (tokenizer.ggml.tokens)");
    if (tokens.count > TERN_MAX_STRINGS)
        return tern_fail(error, TERN_BAD_MODEL, "a vocabulary of %llu tokens; the limit is %d",
                         (unsigned long long)tokens.count, TERN_MAX_STRINGS);
    out->count = (uint32_t)tokens.count;
    out->type = malloc(out->count);
    out->offset = malloc((out->count + (size_t)1) * sizeof *out->offset);
    enum tern_status status =
        out->type == NULL || out->offset == NULL
            ? tern_fail(error, TERN_NO_MEMORY, "no memory for %u tokens", out->count)
            : read_types(catalog, &tokens, out, error);
    if (status == TERN_OK)
        status = read_bytes(&tokens, out, error);
    if (status == TERN_OK)
        status = build_index(out, error);
    if (status != TERN_OK) {
        vocabulary_free(out);
        return status;
    }
    find_byte_tokens(out);
    read_special_ids(catalog, out);
    return TERN_OK;
}

void vocabulary_free(struct vocabulary *vocabulary)
{
    free(vocabulary->bytes);
    free(vocabulary->offset);
    free(vocabulary->type);
    free(vocabulary->slot);
    *vocabulary = (struct vocabulary){0};
}
