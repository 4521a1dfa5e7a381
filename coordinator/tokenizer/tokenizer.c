/* Building a tokenizer from the file's metadata, and what others ask of its vocabulary. */
#include "coordinator/tokenizer/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED_ENDS = 8 };

/* Control tokens that end a turn or a text, in the vocabularies that are read here; files often
 * name only one of theirs. */
static const char *const known_ends[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|end_of_text|>",
    "<eos>",
    "<EOT>",
    "<|EOT|>",
    "<|eot|>",
    "<end_of_utterance>",
    "[|endofturn|]",
    "<|end_of_turn|>",
    "<|return|>",
    "<|call|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "<|endofturn|>",
    "<turn|>",
    "<seed:eos>",
};

/* Ends a turn, but where there is <|return|> it only ends one of a turn's several messages. */
static const char message_end[] = "<|end|>", turn_end[] = "<|return|>";

static bool equals(struct tern_string string, const char *text)
{
    return string.length == strlen(text) && memcmp(string.bytes, text, string.length) == 0;
}

/* Some files say 0 or 1. What is no flag at all is told, as odd special ids are. */
static bool read_flag(const struct tern_catalog *catalog, const char *key, struct vocabulary *v,
                      bool otherwise)
{
    bool value;
    uint64_t number;
    if (tern_catalog_bool(catalog, key, &value))
        return value;
    if (tern_catalog_u64(catalog, key, &number) && number <= 1)
        return number == 1;
    if (tern_catalog_has(catalog, key))
        snprintf(v->warning, sizeof v->warning, "%s is neither true nor false; taken as absent",
                 key);
    return otherwise;
}

static int compare_ids(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static void add_end(struct tern_tokenizer *t, int64_t id)
{
    for (size_t i = 0; i < t->ends; i++)
        if (t->end[i] == id)
            return;
    if (id >= 0)
        t->end[t->ends++] = (uint32_t)id;
}

/* The token of this text if it is a control token, or NULL. */
static const struct added_token *find_control(const struct tern_tokenizer *t, const char *text)
{
    const struct added_token *token = added_find(&t->added, text, strlen(text));
    return token != NULL && token->control ? token : NULL;
}

/* Some converters list all that end an answer. */
static void add_listed_ends(const struct tern_catalog *catalog, struct tern_tokenizer *t)
{
    struct tern_array list;
    if (!tern_catalog_numbers(catalog, "tokenizer.ggml.eos_token_ids", &list))
        return;
    for (uint64_t i = 0; i < list.count && i < MOST_LISTED_ENDS; i++) {
        const int64_t id = tern_array_i64(&list, i);
        if (id >= 0 && id < t->vocabulary.count)
            add_end(t, id);
    }
}

static enum tern_status find_ends(const struct tern_catalog *catalog, struct tern_tokenizer *t,
                                  struct tern_error *error)
{
    enum { KNOWN = sizeof known_ends / sizeof known_ends[0] };
    t->end = calloc(KNOWN + MOST_LISTED_ENDS + 4, sizeof *t->end);
    if (t->end == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for end tokens");
    add_end(t, t->vocabulary.eos);
    add_end(t, vocabulary_special_id(catalog, "tokenizer.ggml.eot_token_id", &t->vocabulary));
    add_end(t, vocabulary_special_id(catalog, "tokenizer.ggml.eom_token_id", &t->vocabulary));
    add_listed_ends(catalog, t);
    for (size_t i = 0; i < KNOWN; i++) {
        const struct added_token *token = find_control(t, known_ends[i]);
        if (token != NULL)
            add_end(t, token->id);
    }
    const struct added_token *end = find_control(t, message_end);
    if (end != NULL && find_control(t, turn_end) == NULL)
        add_end(t, end->id);
    qsort(t->end, t->ends, sizeof *t->end, compare_ids);
    return TERN_OK;
}

static enum tern_status build_byte_level(const struct tern_catalog *catalog,
                                         struct tern_tokenizer *t, struct tern_error *error)
{
    struct tern_string pre;
    if (!tern_catalog_string(catalog, "tokenizer.ggml.pre", &pre))
        return tern_fail(error, TERN_UNSUPPORTED,
                         "the file does not name its pre-tokenizer (tokenizer.ggml.pre): convert "
                         "the model again with a newer converter");
    const struct split_rule *rule = split_rule_find(pre);
    if (rule == NULL)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not supported",
                         pre.length > 60 ? 60 : (int)pre.length, pre.bytes);
    snprintf(t->name, sizeof t->name, "gpt2/%s", rule->name);
    t->nfc = rule->nfc;
    t->add_bos = rule->bos;
    t->encoder.whole_first = rule->whole_first;
    enum tern_status status =
        vocabulary_read(catalog, VOCABULARY_BYTE_LEVEL, &t->vocabulary, error);
    if (status == TERN_OK)
        status = bpe_new(catalog, &t->vocabulary, &t->bpe, error);
    return status == TERN_OK ? splitter_new(rule, &t->splitter, error) : status;
}

static enum tern_status build_sentencepiece(const struct tern_catalog *catalog,
                                            struct tern_tokenizer *t, struct tern_error *error)
{
    snprintf(t->name, sizeof t->name, "llama");
    t->add_bos = true;
    const enum tern_status status =
        vocabulary_read(catalog, VOCABULARY_SENTENCEPIECE, &t->vocabulary, error);
    if (status != TERN_OK)
        return status;
    t->space_prefix = read_flag(catalog, "tokenizer.ggml.add_space_prefix", &t->vocabulary, true);
    return sentencepiece_new(catalog, &t->vocabulary, &t->sentencepiece, error);
}

static enum tern_status build(const struct tern_catalog *catalog, struct tern_tokenizer *t,
                              struct tern_error *error)
{
    struct tern_string model;
    if (!tern_catalog_string(catalog, "tokenizer.ggml.model", &model))
        return tern_fail(error, TERN_UNSUPPORTED,
                         "the file has no tokenizer (tokenizer.ggml.model)");
    enum tern_status status;
    if (equals(model, "gpt2"))
        status = build_byte_level(catalog, t, error);
    else if (equals(model, "llama"))
        status = build_sentencepiece(catalog, t, error);
    else
        return tern_fail(error, TERN_UNSUPPORTED,
                         "tokenizer \"%.*s\" (tokenizer.ggml.model) is not supported",
                         model.length > 60 ? 60 : (int)model.length, model.bytes);
    if (status == TERN_OK)
        status = added_read(catalog, &t->vocabulary, &t->added, error);
    if (status == TERN_OK && t->sentencepiece != NULL)
        added_mark_stripping(&t->added);
    if (status == TERN_OK)
        status = find_ends(catalog, t, error);
    if (status != TERN_OK)
        return status;
    struct vocabulary *const v = &t->vocabulary;
    t->add_bos = read_flag(catalog, "tokenizer.ggml.add_bos_token", v, t->add_bos);
    t->add_eos = read_flag(catalog, "tokenizer.ggml.add_eos_token", v, false);
    t->encoder.vocabulary = &t->vocabulary;
    t->encoder.splitter = t->splitter;
    t->encoder.bpe = t->bpe;
    t->encoder.sentencepiece = t->sentencepiece;
    return TERN_OK;
}

enum tern_status tern_tokenizer_new(const struct tern_catalog *catalog, struct tern_tokenizer **out,
                                    struct tern_error *error)
{
    *out = NULL;
    struct tern_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for a tokenizer");
    const enum tern_status status = build(catalog, tokenizer, error);
    if (status != TERN_OK) {
        tern_tokenizer_free(tokenizer);
        return tern_add_remedy(error, status);
    }
    *out = tokenizer;
    return TERN_OK;
}

void tern_tokenizer_free(struct tern_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    splitter_free(tokenizer->splitter);
    bpe_free(tokenizer->bpe);
    sentencepiece_free(tokenizer->sentencepiece);
    added_free(&tokenizer->added);
    vocabulary_free(&tokenizer->vocabulary);
    free(tokenizer->end);
    free(tokenizer);
}

uint32_t tern_vocabulary(const struct tern_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.count;
}

size_t tern_end_tokens(const struct tern_tokenizer *tokenizer, uint32_t *ids, size_t room)
{
    for (size_t i = 0; i < tokenizer->ends && i < room; i++)
        ids[i] = tokenizer->end[i];
    return tokenizer->ends;
}

const char *tern_tokenizer_warning(const struct tern_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.warning[0] != '\0' ? tokenizer->vocabulary.warning : NULL;
}

int64_t tern_bos(const struct tern_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.bos;
}

int64_t tern_text_end(const struct tern_tokenizer *tokenizer)
{
    return tokenizer->add_eos ? tokenizer->vocabulary.eos : -1;
}

const char *tern_token_bytes(const struct tern_tokenizer *tokenizer, uint32_t id, size_t *length)
{
    return vocabulary_bytes(&tokenizer->vocabulary, id, length);
}

const char *tern_tokenizer_name(const struct tern_tokenizer *tokenizer)
{
    return tokenizer->name;
}
