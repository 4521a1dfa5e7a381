/*
 * libFuzzer over encoding and decoding. An input is a recipe and a text:
 *
 *   byte 0   the pre-tokenizer, or SentencePiece
 *   byte 1   how it is asked (bits below)
 *   byte 2   changes to the vocabulary; each is four bytes: which table, two of place, one of value
 *   rest     the text, in two pieces; or ids of two bytes each
 *
 * The vocabulary has a token for every byte and merges that fight over the same letters.
 */
#include "coordinator/tokenizer/tokenizer.h"
#include "proto/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
    ASK_SPECIAL_FIRST = 1, /* the first piece parses special tokens */
    ASK_SPECIAL_SECOND = 2,
    ASK_BOS = 4,
    ASK_IDS = 8, /* the rest are ids to decode */
    ASK_SKIP_CONTROL = 16,
};
enum { WORDS = 24, SPECIAL = 3, TOKENS = SPECIAL + 256 + WORDS, WORD = 16, ROOM = 1 << 16 };
enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, BYTE = 6 };

static const char *const pre_tokenizers[] = {
    "gpt-2",    "smollm",    "starcoder",   "refact",         "olmo",
    "gpt-neox", "mpt",       "falcon",      "qwen2",          "llama-bpe",
    "gpt-4o",   "joyai-llm", "deepseek-v3", "deepseek-coder", "deepseek-llm",
};
enum { KINDS = sizeof pre_tokenizers / sizeof pre_tokenizers[0] };

static const char *const special[SPECIAL] = {"<unk>", "<|im_end|>", "<x>"};
static const char *const merges[WORDS] = {
    "a a",
    "aa aa",
    "aaaa aaaa",
    "a b",
    "b a",
    "ab ab",
    "abab a",
    "1 1",
    "11 1",
    "\u0120 \u0120",
    "\u0120\u0120 \u0120\u0120",
    "\u0120 a",
    "\u010a \u010a",
    ". .",
    "u s",
    "us us",
    "\u00c3 \u00a9",
    "e \u00cc",
    "\u00f0 \u0141",
    "\u00e4 \u00b8",
    "' s",
    "s s",
    "= =",
    "== ==",
};

struct table {
    char text[TOKENS][WORD + 1], merge[WORDS][WORD + 1];
    int32_t type[TOKENS];
    float score[TOKENS];
};

static void remove_space(const char *from, char *to)
{
    for (; *from != '\0'; from++)
        if (*from != ' ')
            *to++ = *from;
    *to = '\0';
}

/* GPT-2's characters for bytes. */
static void write_byte(unsigned byte, char *text)
{
    const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    unsigned point = byte;
    if (!itself)
        point = 0x100 + (byte <= 0x20 ? byte : byte == 0xad ? 67 : byte - 0x7f + 33);
    if (point < 0x80)
        text[0] = (char)point;
    else
        snprintf(text, WORD, "%c%c", (int)(0xc0 | point >> 6), (int)(0x80 | (point & 0x3f)));
}

static void fill(struct table *t, bool byte_level)
{
    *t = (struct table){0};
    for (size_t i = 0; i < TOKENS; i++) {
        t->type[i] = NORMAL;
        t->score[i] = -(float)(i % 7);
    }
    for (size_t i = 0; i < SPECIAL; i++)
        strcpy(t->text[i], special[i]);
    t->type[0] = 2;
    t->type[1] = CONTROL;
    t->type[2] = USER_DEFINED;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (byte_level)
            write_byte(byte, t->text[SPECIAL + byte]);
        else
            snprintf(t->text[SPECIAL + byte], WORD, "<0x%02X>", byte);
        t->type[SPECIAL + byte] = byte_level ? NORMAL : BYTE;
    }
    for (size_t i = 0; i < WORDS; i++) {
        strcpy(t->merge[i], merges[i]);
        remove_space(merges[i], t->text[SPECIAL + 256 + i]);
    }
}

/* One change to a table. */
static void change(struct table *t, const uint8_t *bytes)
{
    const size_t place = bytes[1] | (size_t)bytes[2] << 8;
    switch (bytes[0] % 5) {
    case 0:
        t->text[SPECIAL + 256 + place % WORDS][place / WORDS % WORD] = (char)bytes[3];
        break;
    case 1:
        t->text[place % TOKENS][bytes[3] % 3] = (char)(bytes[3] / 3);
        break;
    case 2:
        t->merge[place % WORDS][place / WORDS % WORD] = (char)bytes[3];
        break;
    case 3:
        t->type[place % TOKENS] = bytes[3] % 8;
        break;
    default:
        t->score[place % TOKENS] = bytes[3] == 255 ? 1.0f / 0.0f : (float)bytes[3] - 128;
    }
}

static void put(struct tern_catalog_writer *writer, const char *name, enum tern_value_type type,
                bool is_array, const void *elements, uint64_t count)
{
    if (tern_catalog_put_key(writer, (struct tern_string){name, strlen(name)}, type, is_array,
                             elements, count, NULL) != TERN_OK)
        abort();
}

/* NULL: refused. */
static struct tern_tokenizer *make(const struct table *t, const char *pre)
{
    static uint8_t data[ROOM] __attribute__((aligned(64)));
    const struct tern_segment segment = {.data = data, .size = ROOM, .writable = true};
    const struct tern_string model = {pre != NULL ? "gpt2" : "llama", pre != NULL ? 4 : 5};
    const struct tern_string name = {pre, pre != NULL ? strlen(pre) : 0};
    const uint32_t bos = 1;
    struct tern_string text[TOKENS], merge[WORDS];
    for (size_t i = 0; i < TOKENS; i++)
        text[i] = (struct tern_string){t->text[i], strlen(t->text[i])};
    for (size_t i = 0; i < WORDS; i++)
        merge[i] = (struct tern_string){t->merge[i], strlen(t->merge[i])};
    struct tern_catalog_writer *writer;
    if (tern_catalog_begin(&segment, pre != NULL ? 6 : 5, 0, &writer, NULL) != TERN_OK)
        abort();
    put(writer, "tokenizer.ggml.model", TERN_V_STRING, false, &model, 1);
    put(writer, "tokenizer.ggml.tokens", TERN_V_STRING, true, text, TOKENS);
    put(writer, "tokenizer.ggml.token_type", TERN_V_I32, true, t->type, TOKENS);
    put(writer, "tokenizer.ggml.bos_token_id", TERN_V_U32, false, &bos, 1);
    if (pre != NULL) {
        put(writer, "tokenizer.ggml.pre", TERN_V_STRING, false, &name, 1);
        put(writer, "tokenizer.ggml.merges", TERN_V_STRING, true, merge, WORDS);
    } else {
        put(writer, "tokenizer.ggml.scores", TERN_V_F32, true, t->score, TOKENS);
    }
    struct tern_error error;
    struct tern_catalog *catalog;
    if (tern_catalog_end(writer, ROOM, NULL) != TERN_OK ||
        tern_catalog_open(&segment, &catalog, &error) != TERN_OK)
        abort();
    struct tern_tokenizer *tokenizer;
    const enum tern_status status = tern_tokenizer_new(catalog, &tokenizer, &error);
    if (status != TERN_OK && (status != TERN_BAD_MODEL || error.message[0] == '\0'))
        abort();
    tern_catalog_close(catalog);
    return tokenizer;
}

/* ---- asking ---- */

struct text {
    char *bytes;
    size_t length;
};

/* NULL bytes: refused. `step` ids at a time; *whole: each gave whole characters. */
static struct text decode(const struct tern_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                          size_t step, bool skip, bool *whole)
{
    struct tern_decoder decoder = {0};
    *whole = true;
    struct text text = {0};
    struct tern_error error;
    for (size_t i = 0; i < count || i == 0; i += step) {
        const size_t now = count - i < step ? count - i : step;
        const bool last = i + now >= count;
        const size_t before = text.length;
        if (tern_decode(tokenizer, &decoder, ids + i, now, skip, last, &text.bytes, &text.length,
                        &error) != TERN_OK) {
            free(text.bytes);
            *whole = false;
            return (struct text){0};
        }
        *whole &= tern_utf8_valid(text.bytes + before, text.length - before);
    }
    return text;
}

/* However ids are handed over, the text is the same, and never half a character comes unless the
 * text has one. */
static struct text decode_both_ways(const struct tern_tokenizer *tokenizer, const uint32_t *ids,
                                    size_t count, bool skip)
{
    bool valid, halves_none;
    const struct text whole = decode(tokenizer, ids, count, count + 1, skip, &valid);
    const struct text parts = decode(tokenizer, ids, count, 1, skip, &halves_none);
    if (whole.length != parts.length || (valid && !halves_none) ||
        (whole.length > 0 && memcmp(whole.bytes, parts.bytes, whole.length) != 0))
        abort();
    free(parts.bytes);
    return whole;
}

static void ask_ids(const struct tern_tokenizer *tokenizer, const uint8_t *bytes, size_t size,
                    bool skip)
{
    const size_t count = size / 2;
    uint32_t *ids = malloc((count + 1) * sizeof *ids);
    if (ids == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        ids[i] = bytes[2 * i] | (uint32_t)(bytes[2 * i + 1] % 2) << 8;
    free(decode_both_ways(tokenizer, ids, count, skip).bytes);
    free(ids);
}

/* `exact`: what is decoded must be the text. */
static void ask_text(const struct tern_tokenizer *tokenizer, const struct table *t,
                     const uint8_t *bytes, size_t size, uint8_t how, bool exact)
{
    const size_t first = size / 2;
    const char *text = (const char *)bytes;
    const struct tern_text pieces[] = {
        {text, first, (how & ASK_SPECIAL_FIRST) != 0, (how & ASK_SPECIAL_FIRST) == 0},
        {text + first, size - first, (how & ASK_SPECIAL_SECOND) != 0, false},
    };
    struct tern_ids ids;
    struct tern_error error;
    const bool bos = (how & ASK_BOS) != 0;
    const enum tern_status status = tern_tokenize(tokenizer, pieces, 2, bos, &ids, &error);
    if (status != (tern_utf8_valid(text, size) ? TERN_OK : TERN_USAGE))
        abort();
    if (status != TERN_OK)
        return;
    const bool plain = (how & (ASK_SPECIAL_FIRST | ASK_SPECIAL_SECOND | ASK_BOS)) == 0;
    for (size_t i = 0; i < ids.count; i++)
        if (ids.id[i] >= TOKENS || (plain && t->type[ids.id[i]] == CONTROL))
            abort();
    const struct text back = decode_both_ways(tokenizer, ids.id, ids.count, how & ASK_SKIP_CONTROL);
    if (exact && (back.length != size || memcmp(back.bytes, text, size) != 0))
        abort();
    free(back.bytes);
    tern_ids_free(&ids);
}

static bool composes(const char *pre)
{
    return strcmp(pre, "gpt-neox") == 0 || strcmp(pre, "mpt") == 0 || strcmp(pre, "qwen2") == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct table table;
    static struct tern_tokenizer *unchanged[KINDS + 1]; /* making one takes longer than asking it */
    if (size < 3 || size > 8192)
        return 0;
    const size_t kind = bytes[0] % (KINDS + 1);
    const char *pre = kind == KINDS ? NULL : pre_tokenizers[kind];
    const uint8_t how = bytes[1];
    const size_t changes = bytes[2] % 16;
    bytes += 3;
    size -= 3;
    if (size < 4 * changes)
        return 0;
    fill(&table, pre != NULL);
    for (size_t i = 0; i < changes; i++)
        change(&table, bytes + 4 * i);
    struct tern_tokenizer *tokenizer = changes == 0 ? unchanged[kind] : NULL;
    if (tokenizer == NULL)
        tokenizer = make(&table, pre);
    if (changes == 0) {
        if (tokenizer == NULL)
            abort();
        unchanged[kind] = tokenizer;
    }
    bytes += 4 * changes;
    size -= 4 * changes;
    const bool exact =
        changes == 0 && pre != NULL && !composes(pre) && (how & (ASK_BOS | ASK_SKIP_CONTROL)) == 0;
    if (tokenizer != NULL && (how & ASK_IDS))
        ask_ids(tokenizer, bytes, size, how & ASK_SKIP_CONTROL);
    else if (tokenizer != NULL)
        ask_text(tokenizer, &table, bytes, size, how, exact);
    if (changes > 0)
        tern_tokenizer_free(tokenizer);
    return 0;
}
