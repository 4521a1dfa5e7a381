/* A sorted list, narrowed byte by byte: as quick as a trie here, and nothing to build. */
#include "coordinator/tokenizer/added.h"

#include "proto/utf8.h"
#include <stdlib.h>
#include <string.h>

static bool is_added(uint8_t type)
{
    return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER_DEFINED;
}

static int compare_text(const struct added_token *a, const struct added_token *b, const char *text)
{
    const size_t common = a->length < b->length ? a->length : b->length;
    const int order = memcmp(text + a->offset, text + b->offset, common);
    return order != 0 ? order : (int)a->length - (int)b->length;
}

static int compare_tokens(const void *left, const void *right, void *text)
{
    const struct added_token *a = left, *b = right;
    const int order = compare_text(a, b, text);
    if (order != 0)
        return order;
    return a->id < b->id ? -1 : a->id > b->id;
}

static bool only_spaces(struct tern_string text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.bytes[i] != ' ')
            return false;
    return true;
}

/* Byte-level vocabularies have tags of chats among their user-defined tokens (<think>,
 * <tool_call>); those of SentencePiece are words that texts consist of, also Gemma's <table>. */
static bool is_markup(const struct vocabulary *v, struct tern_string text)
{
    return v->form == VOCABULARY_BYTE_LEVEL && (text.bytes[0] == '<' || text.bytes[0] == '[');
}

/* The text to look for. SentencePiece files write runs of U+2581 as spaces, but the token is the
 * literal run; runs of spaces become it by merging. */
static size_t write_text(const struct vocabulary *v, struct tern_string text, char *out)
{
    if (v->form != VOCABULARY_SENTENCEPIECE || !only_spaces(text)) {
        memcpy(out, text.bytes, text.length);
        return text.length;
    }
    for (size_t i = 0; i < text.length; i++)
        memcpy(out + 3 * i, "\xe2\x96\x81", 3);
    return 3 * text.length;
}

static void sort_tokens(struct added *added)
{
    qsort_r(added->token, added->count, sizeof *added->token, compare_tokens, added->text);
    size_t kept = 0;
    for (size_t i = 0; i < added->count; i++)
        if (kept == 0 || compare_text(&added->token[kept - 1], &added->token[i], added->text) != 0)
            added->token[kept++] = added->token[i];
    added->count = kept;
    size_t at = 0;
    for (unsigned byte = 0; byte <= 256; byte++) {
        while (at < kept && (unsigned char)added->text[added->token[at].offset] < byte)
            at++;
        added->first[byte] = (uint32_t)at;
    }
}

/* Counts the added tokens and the bytes they need at most. */
static enum tern_status measure(const struct tern_array *tokens, const struct vocabulary *v,
                                size_t *count, size_t *bytes, struct tern_error *error)
{
    *count = *bytes = 0;
    for (uint32_t id = 0; id < v->count; id++) {
        if (!is_added(v->type[id]))
            continue;
        const struct tern_string text = tern_array_string(tokens, id);
        if (text.length > ADDED_LONGEST)
            return tern_fail(error, TERN_BAD_MODEL,
                             "token %u is a special token of %zu bytes; the limit is %d", id,
                             text.length, ADDED_LONGEST);
        ++*count;
        *bytes += 3 * text.length;
    }
    if (*bytes > UINT32_MAX)
        return tern_fail(error, TERN_BAD_MODEL, "%zu special tokens hold more than 4 GiB of text",
                         *count);
    return TERN_OK;
}

enum tern_status added_read(const struct tern_catalog *catalog, const struct vocabulary *vocabulary,
                            struct added *out, struct tern_error *error)
{
    *out = (struct added){0};
    struct tern_array tokens;
    if (!tern_catalog_array(catalog, "tokenizer.ggml.tokens", TERN_V_STRING, &tokens) ||
        tokens.count != vocabulary->count)
        return tern_fail(error, TERN_BAD_MODEL, "the vocabulary changed while it was read");
    size_t count, bytes;
    const enum tern_status status = measure(&tokens, vocabulary, &count, &bytes, error);
    if (status != TERN_OK)
        return status;
    out->token = calloc(count + 1, sizeof *out->token);
    out->text = malloc(bytes + 1);
    if (out->token == NULL || out->text == NULL) {
        added_free(out);
        return tern_fail(error, TERN_NO_MEMORY, "no memory for %zu special tokens", count);
    }
    uint32_t used = 0;
    for (uint32_t id = 0; id < vocabulary->count; id++) {
        const uint8_t type = vocabulary->type[id];
        const struct tern_string text = tern_array_string(&tokens, id);
        /* What is no whole text cannot be found in valid text. */
        if (!is_added(type) || text.length == 0 || !tern_utf8_valid(text.bytes, text.length))
            continue;
        const size_t length = write_text(vocabulary, text, out->text + used);
        out->token[out->count++] = (struct added_token){
            .offset = used,
            .length = (uint16_t)length,
            .control = type != TOKEN_USER_DEFINED,
            .markup = is_markup(vocabulary, text),
            .id = id,
        };
        used += (uint32_t)length;
    }
    sort_tokens(out);
    return TERN_OK;
}

void added_free(struct added *added)
{
    free(added->token);
    free(added->text);
    *added = (struct added){0};
}

/* First of token[low .. high) whose byte `depth` is at least `byte`; all are longer than depth and
 * agree before it. */
static uint32_t lower_bound(const struct added *added, uint32_t low, uint32_t high, size_t depth,
                            unsigned byte)
{
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if ((unsigned char)added->text[added->token[middle].offset + depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t limit_of(const struct added_token *token, const struct added_limits *limits)
{
    return token->control ? limits->control : token->markup ? limits->markup : limits->other;
}

const struct added_token *added_match(const struct added *added, const char *text,
                                      const struct added_limits *limits)
{
    const size_t length = limits->other;
    if (length == 0)
        return NULL;
    uint32_t low = added->first[(unsigned char)text[0]];
    uint32_t high = added->first[(unsigned char)text[0] + 1];
    const struct added_token *best = NULL;
    for (size_t depth = 1; low < high; depth++) {
        /* token[low] is the shortest of those that agree so far. */
        if (added->token[low].length == depth) {
            if (depth <= limit_of(&added->token[low], limits))
                best = &added->token[low];
            low++;
        }
        if (depth >= length)
            break;
        const unsigned byte = (unsigned char)text[depth];
        low = lower_bound(added, low, high, depth, byte);
        high = lower_bound(added, low, high, depth, byte + 1);
    }
    return best;
}

const struct added_token *added_find(const struct added *added, const char *text, size_t length)
{
    if (length == 0)
        return NULL;
    const unsigned byte = (unsigned char)text[0];
    size_t low = added->first[byte], high = added->first[byte + 1];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct added_token *token = &added->token[middle];
        const size_t common = token->length < length ? token->length : length;
        int order = memcmp(added->text + token->offset, text, common);
        if (order == 0)
            order = (token->length > length) - (token->length < length);
        if (order == 0)
            return token;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Phi-3's turn tokens take the spaces and newlines behind them, and no key of a file says so: that
 * vocabulary is known by where they stand. */
static bool is_phi3(const struct added *added)
{
    static const struct {
        const char *text;
        uint32_t id;
    } turn[] = {
        {"<|assistant|>", 32001}, {"<|system|>", 32006}, {"<|end|>", 32007}, {"<|user|>", 32010}};
    for (size_t i = 0; i < sizeof turn / sizeof turn[0]; i++) {
        const struct added_token *token = added_find(added, turn[i].text, strlen(turn[i].text));
        if (token == NULL || token->id != turn[i].id)
            return false;
    }
    return true;
}

void added_mark_stripping(struct added *added)
{
    enum { TEXT_END = 2, FIRST_TURN = 32001, LAST_TURN = 32010 };
    if (!is_phi3(added))
        return;
    for (size_t i = 0; i < added->count; i++) {
        const uint32_t id = added->token[i].id;
        added->token[i].strips = id == TEXT_END || (id >= FIRST_TURN && id <= LAST_TURN);
    }
}
