/* Vocabularies put together by hand: small ones whose ids can be seen at once, and broken ones. */
#include "coordinator/tokenizer/tokenizer.h"
#include "tests/unit/model_file.h"
#include "tests/unit/token_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 64, MOST_KEYS = 24 };

static struct tern_error error;

/* A vocabulary and what else its file says; what is NULL or 0 is absent. */
struct recipe {
    const char *model, *pre;
    const char *tokens[MOST];
    int32_t types[MOST];
    const char *merges[MOST];
    float scores[MOST];
    uint32_t token_count, type_count, merge_count, score_count;
    const char *number_key[4];
    uint64_t number[4];
    const char *flag_key[2];
    bool flag[2];
    int32_t end_list[MOST];
    uint32_t end_count; /* of end_list */
};

static uint32_t add_strings(const char *const *texts, uint32_t count, struct tern_string *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = (struct tern_string){texts[i], strlen(texts[i])};
    return count;
}

static enum tern_status cook(const struct recipe *recipe, struct tern_tokenizer **tokenizer)
{
    struct tern_string tokens[MOST], merges[MOST], model, pre;
    struct test_key keys[MOST_KEYS];
    uint32_t count = 0;
    add_strings(recipe->tokens, recipe->token_count, tokens);
    add_strings(recipe->merges, recipe->merge_count, merges);
    if (recipe->model != NULL) {
        add_strings(&recipe->model, 1, &model);
        keys[count++] = (struct test_key){"tokenizer.ggml.model", TERN_V_STRING, false, &model, 1};
    }
    if (recipe->pre != NULL) {
        add_strings(&recipe->pre, 1, &pre);
        keys[count++] = (struct test_key){"tokenizer.ggml.pre", TERN_V_STRING, false, &pre, 1};
    }
    if (recipe->token_count > 0)
        keys[count++] = (struct test_key){"tokenizer.ggml.tokens", TERN_V_STRING, true, tokens,
                                          recipe->token_count};
    if (recipe->type_count > 0)
        keys[count++] = (struct test_key){"tokenizer.ggml.token_type", TERN_V_I32, true,
                                          recipe->types, recipe->type_count};
    if (recipe->merge_count > 0)
        keys[count++] = (struct test_key){"tokenizer.ggml.merges", TERN_V_STRING, true, merges,
                                          recipe->merge_count};
    if (recipe->score_count > 0)
        keys[count++] = (struct test_key){"tokenizer.ggml.scores", TERN_V_F32, true, recipe->scores,
                                          recipe->score_count};
    for (size_t i = 0; i < 4 && recipe->number_key[i] != NULL; i++)
        keys[count++] =
            (struct test_key){recipe->number_key[i], TERN_V_U64, false, &recipe->number[i], 1};
    for (size_t i = 0; i < 2 && recipe->flag_key[i] != NULL; i++)
        keys[count++] =
            (struct test_key){recipe->flag_key[i], TERN_V_BOOL, false, &recipe->flag[i], 1};
    if (recipe->end_count > 0)
        keys[count++] = (struct test_key){"tokenizer.ggml.eos_token_ids", TERN_V_I32, true,
                                          recipe->end_list, recipe->end_count};
    struct test_catalog catalog;
    test_catalog_make(keys, count, &catalog);
    error = (struct tern_error){0};
    const enum tern_status status = tern_tokenizer_new(catalog.catalog, tokenizer, &error);
    test_catalog_close(&catalog);
    return status;
}

static void refuse(const struct recipe *recipe, enum tern_status wanted, const char *words)
{
    struct tern_tokenizer *tokenizer;
    const enum tern_status status = cook(recipe, &tokenizer);
    if (status != wanted || strstr(error.message, words) == NULL)
        fail_msg("status %d (\"%s\"), wanted %d (\"%s\")", status, error.message, wanted, words);
    assert_null(tokenizer);
}

/* a b c ab bc abc </s> <x> */
static const struct recipe small_bpe = {
    .model = "gpt2",
    .pre = "gpt-2",
    .tokens = {"a", "b", "c", "ab", "bc", "abc", "</s>", "<x>", "<", "s", "/", ">", "x"},
    .types = {1, 1, 1, 1, 1, 1, 3, 4, 1, 1, 1, 1, 1},
    .merges = {"b c", "a bc", "a b"},
    .token_count = 13,
    .type_count = 13,
    .merge_count = 3,
    .number_key = {"tokenizer.ggml.eos_token_id"},
    .number = {6},
};

static const struct recipe small_spm = {
    .model = "llama",
    .tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab", "\u2581", "\u2581a", "<0x41>", "c"},
    .types = {2, 3, 3, 1, 1, 1, 1, 1, 6, 1},
    .scores = {0, 0, 0, -1, -2, -3, -4, -5, 0, -6},
    .token_count = 10,
    .type_count = 10,
    .score_count = 10,
};

static void bpe_merges_by_rank(void **state)
{
    (void)state;
    struct tern_tokenizer *tokenizer;
    assert_int_equal(cook(&small_bpe, &tokenizer), TERN_OK);
    check_text(tokenizer, "abc", false, "5");
    check_text(tokenizer, "ab", false, "3");
    check_text(tokenizer, "abab", false, "3 3");
    check_text(tokenizer, "", false, "");
    /* Bytes without a token are dropped before their neighbours merge. */
    check_text(tokenizer, "aZb", false, "3");
    check_text(tokenizer, "</s>", true, "6");
    check_text(tokenizer, "</s>", false, "8 10 9 11");
    check_text(tokenizer, "a<x>b", false, "0 7 1");
    tern_tokenizer_free(tokenizer);
}

/* What the same vocabulary makes of a text with each pre-tokenizer: whether it composes, cuts
 * between letters or even between the bytes of a character. */
static void pre_tokenizers_cut_as_named(void **state)
{
    (void)state;
    struct recipe recipe = {
        .model = "gpt2",
        /* e, both bytes of U+0301 and U+00E9, U+00E9, its word, both bytes of U+00B2, U+00B2 */
        .tokens = {"e", "\u00cc", "\u0123", "\u00c3", "\u00a9", "\u00c3\u00a9", "e\u00c3\u00a9",
                   "\u00c2", "\u00b2", "\u00c2\u00b2", "1", "11"},
        .types = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        .merges = {"\u00c3 \u00a9", "e \u00c3\u00a9", "\u00c2 \u00b2", "1 1"},
        .token_count = 12,
        .type_count = 12,
        .merge_count = 4,
    };
    static const struct {
        const char *pre, *composed, *letters, *number, *digits;
    } rows[] = {
        {"gpt-2", "0 1 2", "6", "9", "11 11"},
        {"smollm", "0 1 2", "6", "9", "10 10 10 10"},
        {"starcoder", "0 1 2", "6", "9", "10 10 10 10"},
        {"refact", "0 1 2", "6", "9", "10 10 10 10"},
        {"olmo", "0 1 2", "6", "9", "11 11"},
        {"gpt-neox", "5", "6", "9", "11 11"},
        {"mpt", "5", "6", "9", "11 11"},
        {"falcon", "0 1 2", "6", "7 8", "11 10 10"},
        {"llama-bpe", "0 1 2", "6", "9", "11 10 10"},
        {"qwen2", "5", "6", "9", "10 10 10 10"},
        {"gpt-4o", "0 1 2", "6", "9", "11 10 10"},
        {"deepseek-v3", "0 1 2", "6", "9", "11 10 10"},
        {"joyai-llm", "0 1 2", "6", "9", "11 10 10"},
        {"deepseek-coder", "0 1 2", "6", "9", "10 10 10 10"},
        {"deepseek-llm", "0 1 2", "0 5", "9", "10 10 10 10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tern_tokenizer *tokenizer;
        recipe.pre = rows[i].pre;
        assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
        assert_string_equal(tern_tokenizer_name(tokenizer) + strlen("gpt2/"), rows[i].pre);
        check_text(tokenizer, "e\u0301", false, rows[i].composed);
        check_text(tokenizer, "e\u00e9", false, rows[i].letters);
        check_text(tokenizer, "\u00b2", false, rows[i].number);
        check_text(tokenizer, "1111", false, rows[i].digits);
        tern_tokenizer_free(tokenizer);
    }
}

static void sentencepiece_merges_by_score(void **state)
{
    (void)state;
    struct tern_tokenizer *tokenizer;
    assert_int_equal(cook(&small_spm, &tokenizer), TERN_OK);
    /* A space goes before the text; "ab" has a better score than space + "a". */
    check_text(tokenizer, "ab", false, "6 5");
    check_text(tokenizer, "a", false, "7");
    check_text(tokenizer, "A", false, "6 8");
    /* No byte tokens for these: one unknown token for the run. */
    check_text(tokenizer, "xyc", false, "6 0 9");
    check_text(tokenizer, "<s>a", true, "1 7");
    const struct tern_text piece = {.bytes = "a", .length = 1};
    check_ids(tokenizer, &piece, 1, true, "1 7");
    tern_tokenizer_free(tokenizer);
}

/* Special tokens count only where they lie wholly in pieces that allow them. */
static void pieces_keep_control_tokens_apart(void **state)
{
    (void)state;
    struct tern_tokenizer *tokenizer;
    assert_int_equal(cook(&small_bpe, &tokenizer), TERN_OK);
    const struct tern_text cut[] = {{"a</", 3, true, false}, {"s>b", 3, true, false}};
    check_ids(tokenizer, cut, 2, false, "0 6 1");
    const struct tern_text half[] = {{"a</", 3, true, false}, {"s>b", 3, false, false}};
    check_ids(tokenizer, half, 2, false, "0 8 10 9 11 1");
    const struct tern_text other[] = {{"a</", 3, false, false}, {"s>b", 3, true, false}};
    check_ids(tokenizer, other, 2, false, "0 8 10 9 11 1");
    const struct tern_text mixed[] = {{"</s>", 4, false, false},
                                      {"</s>", 4, true, false},
                                      {"", 0, false, false},
                                      {"<x", 2, true, false},
                                      {">", 1, false, false}};
    check_ids(tokenizer, mixed, 5, false, "8 10 9 11 6 7");
    /* Tags like <x> not in what a user wrote, nor half in it. */
    const struct tern_text tags[] = {{"<x>", 3, false, true},
                                     {"<x>", 3, true, false},
                                     {"<x", 2, true, false},
                                     {">", 1, false, true}};
    check_ids(tokenizer, tags, 4, false, "8 12 11 7 8 12 11");
    /* Merging goes on over the borders of pieces. */
    const struct tern_text word[] = {
        {"a", 1, true, false}, {"b", 1, false, false}, {"c", 1, true, false}};
    check_ids(tokenizer, word, 3, false, "5");
    tern_tokenizer_free(tokenizer);
}

/* Older converters call tokens user-defined that begin and end turns; they are no text, and end
 * answers. */
static void turn_tokens_are_control_tokens_whatever_the_file_says(void **state)
{
    (void)state;
    static const char *const names[] = {"<|im_end|>", "<|end|>",
                                        "<\uff5cend\u2581of\u2581sentence\uff5c>", "<end_of_turn>",
                                        "</s>"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct recipe recipe = small_bpe;
        struct tern_tokenizer *tokenizer;
        char text[64];
        uint32_t ends[4];
        recipe.tokens[6] = names[i];
        recipe.types[6] = 4;
        recipe.number_key[0] = NULL;
        assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
        check_text(tokenizer, names[i], true, "6");
        assert_int_equal(tern_end_tokens(tokenizer, ends, 4), 1);
        assert_int_equal(ends[0], 6);
        struct tern_ids ids;
        const struct tern_text piece = {.bytes = text, .length = strlen(strcpy(text, names[i]))};
        assert_int_equal(tern_tokenize(tokenizer, &piece, 1, false, &ids, &error), TERN_OK);
        for (size_t j = 0; j < ids.count; j++)
            assert_int_not_equal(ids.id[j], 6);
        tern_ids_free(&ids);
        tern_tokenizer_free(tokenizer);
    }
}

/* Exporters of Gemma have called them ordinary (1). Where both are there they are of turns; one
 * alone may be a word. */
static void turn_tokens_of_sentencepiece_are_no_words(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"<start_of_turn>", "<end_of_turn>"},
                                           {"<|im_start|>", "<|im_end|>"},
                                           {"<start_of_turn>", "<|im_end|>"}};
    for (size_t i = 0; i < 3; i++) {
        const bool pair = i < 2;
        struct recipe recipe = small_spm;
        struct tern_tokenizer *tokenizer;
        uint32_t ends[4];
        recipe.tokens[7] = names[i][0];
        recipe.tokens[9] = names[i][1];
        assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
        for (uint32_t id = 7; id <= 9; id += 2) {
            const struct tern_text text = {.bytes = names[i][id / 9],
                                           .length = strlen(names[i][id / 9])};
            struct tern_ids ids;
            assert_int_equal(tern_token_is_control(tokenizer, id), pair);
            if (pair)
                check_text(tokenizer, text.bytes, true, id == 7 ? "7" : "9");
            assert_int_equal(tern_tokenize(tokenizer, &text, 1, false, &ids, &error), TERN_OK);
            for (size_t j = 0; j < ids.count; j++)
                assert_int_not_equal(ids.id[j], id);
            tern_ids_free(&ids);
        }
        assert_int_equal(tern_end_tokens(tokenizer, ends, 4), pair ? 2 : 1);
        tern_tokenizer_free(tokenizer);
    }
}

static void unknown_kinds_are_refused_by_name(void **state)
{
    (void)state;
    struct recipe recipe = small_bpe;
    recipe.pre = "no-such-pre";
    refuse(&recipe, TERN_UNSUPPORTED, "no-such-pre");
    recipe.pre = "";
    refuse(&recipe, TERN_UNSUPPORTED, "tokenizer.ggml.pre");
    recipe.pre = NULL;
    refuse(&recipe, TERN_UNSUPPORTED, "tokenizer.ggml.pre");
    recipe.pre = "default";
    refuse(&recipe, TERN_UNSUPPORTED, "default");
    recipe = small_bpe;
    recipe.model = "no-such-model";
    refuse(&recipe, TERN_UNSUPPORTED, "no-such-model");
    recipe.model = NULL;
    refuse(&recipe, TERN_UNSUPPORTED, "tokenizer.ggml.model");
}

static void broken_vocabularies_are_refused(void **state)
{
    (void)state;
    struct recipe recipe = small_bpe;
    recipe.token_count = 0;
    refuse(&recipe, TERN_BAD_MODEL, "tokenizer.ggml.tokens");
    recipe = small_bpe;
    recipe.type_count = 12;
    refuse(&recipe, TERN_BAD_MODEL, "tokenizer.ggml.token_type");
    recipe = small_bpe;
    recipe.types[3] = 7;
    refuse(&recipe, TERN_BAD_MODEL, "token 3");
    recipe.types[3] = -1;
    refuse(&recipe, TERN_BAD_MODEL, "token 3");
    recipe = small_bpe;
    recipe.merge_count = 0;
    refuse(&recipe, TERN_BAD_MODEL, "tokenizer.ggml.merges");
    recipe = small_spm;
    recipe.score_count = 0;
    refuse(&recipe, TERN_BAD_MODEL, "tokenizer.ggml.scores");
    recipe.score_count = 9;
    refuse(&recipe, TERN_BAD_MODEL, "tokenizer.ggml.scores");
    recipe = small_spm;
    recipe.scores[4] = 0.0f / 0.0f;
    refuse(&recipe, TERN_BAD_MODEL, "token 4");
    recipe.scores[4] = -1.0f / 0.0f;
    refuse(&recipe, TERN_BAD_MODEL, "token 4");
    char text[400];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    recipe = small_bpe;
    recipe.tokens[6] = text;
    refuse(&recipe, TERN_BAD_MODEL, "token 6");
}

static void bad_merges_are_refused(void **state)
{
    (void)state;
    static const char *const merges[] = {"",       " ",        "a",     "ab",  "a ",
                                         " b",     "a  b",     "a z",   "c a", "a b c",
                                         "a \x80", "a \u2603", "</s> a"};
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        struct recipe recipe = small_bpe;
        recipe.merges[1] = merges[i];
        refuse(&recipe, TERN_BAD_MODEL, "entry 1");
    }
}

/* Ids that no token has are absent; nothing is looked up with them. */
static void special_ids_out_of_range_are_absent(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {13, 1u << 31, UINT32_MAX, 1ull << 32, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct recipe recipe = small_bpe;
        recipe.number_key[0] = "tokenizer.ggml.eos_token_id";
        recipe.number_key[1] = "tokenizer.ggml.bos_token_id";
        recipe.number_key[2] = "tokenizer.ggml.eot_token_id";
        for (size_t k = 0; k < 3; k++)
            recipe.number[k] = numbers[i];
        recipe.flag_key[0] = "tokenizer.ggml.add_bos_token";
        recipe.flag_key[1] = "tokenizer.ggml.add_eos_token";
        recipe.flag[0] = recipe.flag[1] = true;
        struct tern_tokenizer *tokenizer;
        assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
        assert_int_equal(tern_bos(tokenizer), -1);
        const struct tern_text piece = {.bytes = "a", .length = 1};
        check_ids(tokenizer, &piece, 1, true, "0");
        uint32_t ends[4];
        assert_int_equal(tern_end_tokens(tokenizer, ends, 4), 1); /* </s> by its name */
        assert_int_equal(ends[0], 6);
        tern_tokenizer_free(tokenizer);
    }
    /* One token, and defaults that would lie outside. */
    struct recipe recipe = small_spm;
    recipe.token_count = recipe.type_count = recipe.score_count = 1;
    struct tern_tokenizer *tokenizer;
    assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
    assert_int_equal(tern_bos(tokenizer), -1);
    check_text(tokenizer, "a", false, "0");
    tern_tokenizer_free(tokenizer);
}

/* Some files say 0 or 1 where a flag should be; what is neither is told. */
static void flags_of_other_types(void **state)
{
    (void)state;
    static const char *const keys[] = {"tokenizer.ggml.add_bos_token",
                                       "tokenizer.ggml.add_eos_token",
                                       "tokenizer.ggml.add_space_prefix"};
    static const char *const wanted[][2] = {
        {"7", "1 7"}, {"1 7", "1 7 2"}, {"1 3", "1 7"}}; /* with 0, with 1 */
    const struct tern_text piece = {.bytes = "a", .length = 1};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct recipe recipe = small_spm;
        struct tern_tokenizer *tokenizer;
        recipe.number_key[0] = keys[i];
        for (uint64_t value = 0; value < 2; value++) {
            recipe.number[0] = value;
            assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
            check_ids(tokenizer, &piece, 1, true, wanted[i][value]);
            assert_null(tern_tokenizer_warning(tokenizer));
            tern_tokenizer_free(tokenizer);
        }
        recipe.number[0] = 2;
        assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
        check_ids(tokenizer, &piece, 1, true, "1 7");
        assert_non_null(tern_tokenizer_warning(tokenizer));
        assert_non_null(strstr(tern_tokenizer_warning(tokenizer), keys[i]));
        tern_tokenizer_free(tokenizer);
    }
}

/* Duplicates: the first counts. Empty tokens and tokens that are no text never match. */
static void odd_tokens_do_no_harm(void **state)
{
    (void)state;
    struct recipe recipe = small_bpe;
    recipe.tokens[9] = "a";
    recipe.tokens[10] = "";
    recipe.tokens[11] = "\x80\xff";
    recipe.tokens[12] = "</s>";
    recipe.types[10] = 3;
    recipe.types[11] = 4;
    recipe.types[12] = 3;
    struct tern_tokenizer *tokenizer;
    assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
    check_text(tokenizer, "abc", false, "5");
    check_text(tokenizer, "a</s>\u00c0b", true, "0 6 1");
    size_t length;
    tern_token_bytes(tokenizer, 10, &length);
    assert_int_equal(length, 0);
    tern_tokenizer_free(tokenizer);

    recipe = small_spm;
    recipe.tokens[3] = "";
    recipe.tokens[4] = "\xe2\x96";
    recipe.tokens[5] = "\xff";
    recipe.tokens[8] = "<0xZZ>";
    assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
    check_text(tokenizer, "abc", false, "7 0 9");
    tern_tokenizer_free(tokenizer);

    /* A control token whose text merging would reach stays out of reach. */
    recipe = small_bpe;
    recipe.types[4] = 3;
    refuse(&recipe, TERN_BAD_MODEL, "entry 0");
    recipe = small_spm;
    recipe.types[5] = 3;
    assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
    check_text(tokenizer, "ab", false, "7 4");
    check_text(tokenizer, "ab", true, "5");
    tern_tokenizer_free(tokenizer);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    struct tern_tokenizer *tokenizer;
    assert_int_equal(cook(&small_bpe, &tokenizer), TERN_OK);
    struct tern_ids ids;
    const struct tern_text broken = {.bytes = "a\xc3", .length = 2};
    assert_int_equal(tern_tokenize(tokenizer, &broken, 1, false, &ids, &error), TERN_USAGE);
    assert_null(ids.id);
    /* A character cut over two pieces is whole. */
    const struct tern_text cut[] = {{"a\xc3", 2, false, false}, {"\xa9", 1, false, false}};
    check_ids(tokenizer, cut, 2, false, "0");
    char *text = NULL;
    size_t length = 0;
    struct tern_decoder decoder = {0};
    const uint32_t outside[] = {0, 13};
    assert_int_equal(
        tern_decode(tokenizer, &decoder, outside, 2, false, true, &text, &length, &error),
        TERN_USAGE);
    assert_int_equal(length, 0);
    free(text);
    tern_tokenizer_free(tokenizer);
}

static void decode_step(const struct tern_tokenizer *tokenizer, struct tern_decoder *decoder,
                        uint32_t id, bool skip_control, bool last, const char *wanted)
{
    char *text = NULL;
    size_t length = 0;
    assert_int_equal(
        tern_decode(tokenizer, decoder, &id, 1, skip_control, last, &text, &length, &error),
        TERN_OK);
    assert_int_equal(length, strlen(wanted));
    assert_memory_equal(text, wanted, length);
    free(text);
}

/* Characters come whole; what is left at the end comes as it is. */
static void streaming_gives_whole_characters(void **state)
{
    (void)state;
    struct recipe recipe = small_spm;
    static const char *const bytes[] = {"<0xF0>", "<0x9F>", "<0x98>", "<0x80>"};
    for (size_t i = 0; i < 4; i++) {
        recipe.tokens[10 + i] = bytes[i];
        recipe.types[10 + i] = 6;
    }
    recipe.token_count = recipe.type_count = recipe.score_count = 14;
    struct tern_tokenizer *tokenizer;
    assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
    struct tern_decoder decoder = {0};
    decode_step(tokenizer, &decoder, 1, false, false, "<s>");
    decode_step(tokenizer, &decoder, 7, false, false, "a"); /* the first space is dropped */
    decode_step(tokenizer, &decoder, 7, false, false, " a");
    decode_step(tokenizer, &decoder, 10, false, false, "");
    decode_step(tokenizer, &decoder, 11, false, false, "");
    decode_step(tokenizer, &decoder, 12, false, false, "");
    decode_step(tokenizer, &decoder, 13, false, false, "\U0001f600");
    decode_step(tokenizer, &decoder, 10, false, false, "");
    decode_step(tokenizer, &decoder, 3, false, false,
                "\xf0"
                "a");
    decode_step(tokenizer, &decoder, 2, true, false, "");
    decode_step(tokenizer, &decoder, 10, false, false, "");
    decode_step(tokenizer, &decoder, 11, false, true, "\xf0\x9f");
    tern_tokenizer_free(tokenizer);
}

/* Do answers end with the token of this text, if it has this type? `beside`: another control
 * token. */
static bool ends_answers(const char *text, int32_t type, const char *beside)
{
    struct recipe recipe = small_bpe;
    recipe.tokens[13] = text;
    recipe.types[13] = type;
    recipe.tokens[14] = beside;
    recipe.types[14] = 3;
    recipe.token_count = recipe.type_count = 15;
    struct tern_tokenizer *tokenizer;
    uint32_t ends[4] = {0};
    assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
    const size_t count = tern_end_tokens(tokenizer, ends, 4);
    assert_int_equal(ends[0], 6); /* </s>, the file's own */
    tern_tokenizer_free(tokenizer);
    return count > 1 && ends[1] == 13;
}

static void known_control_tokens_end_answers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool special; /* by its look: also where the file calls it user-defined */
    } known[] = {
        {"<|im_end|>", true},
        {"<|eot_id|>", true},
        {"<|eom_id|>", true},
        {"<end_of_turn>", true},
        {"<|endoftext|>", true},
        {"<|end_of_text|>", true},
        {"<eos>", true},
        {"<EOT>", false},
        {"<|EOT|>", true},
        {"<|eot|>", true},
        {"<end_of_utterance>", false},
        {"[|endofturn|]", false},
        {"<|end_of_turn|>", true},
        {"<|return|>", true},
        {"<|call|>", true},
        {"<\uff5cend\u2581of\u2581sentence\uff5c>", true},
        {"<|END_OF_TURN_TOKEN|>", true},
        {"<|endofturn|>", true},
        {"<turn|>", false},
        {"<seed:eos>", false},
        {"<|end|>", true},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(ends_answers(known[i].text, 3, "<|y|>"));
        assert_int_equal(ends_answers(known[i].text, 4, "<|y|>"), known[i].special);
        assert_false(ends_answers(known[i].text, 1, "<|y|>"));
    }
    assert_false(ends_answers("<|end|>", 3, "<|return|>")); /* ends one of a turn's messages */
    assert_false(ends_answers("<|im_start|>", 3, "<|y|>"));
    assert_false(ends_answers("<|eot_id|>s", 3, "<|y|>"));
}

static void listed_tokens_end_answers(void **state)
{
    (void)state;
    struct recipe recipe = small_bpe;
    struct tern_tokenizer *tokenizer;
    static const int32_t list[] = {7, -1, 13, INT32_MAX, 6, 2};
    uint32_t ends[16];
    memcpy(recipe.end_list, list, sizeof list);
    recipe.end_count = 6;
    assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
    assert_int_equal(tern_end_tokens(tokenizer, ends, 16), 3);
    assert_int_equal(ends[0], 2);
    assert_int_equal(ends[1], 6);
    assert_int_equal(ends[2], 7);
    tern_tokenizer_free(tokenizer);
    for (int i = 0; i < MOST; i++) /* more than any model has */
        recipe.end_list[i] = i % 13;
    recipe.end_count = MOST;
    assert_int_equal(cook(&recipe, &tokenizer), TERN_OK);
    assert_in_range(tern_end_tokens(tokenizer, ends, 16), 8, 9);
    tern_tokenizer_free(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bpe_merges_by_rank),
        cmocka_unit_test(pre_tokenizers_cut_as_named),
        cmocka_unit_test(sentencepiece_merges_by_score),
        cmocka_unit_test(pieces_keep_control_tokens_apart),
        cmocka_unit_test(turn_tokens_are_control_tokens_whatever_the_file_says),
        cmocka_unit_test(turn_tokens_of_sentencepiece_are_no_words),
        cmocka_unit_test(unknown_kinds_are_refused_by_name),
        cmocka_unit_test(broken_vocabularies_are_refused),
        cmocka_unit_test(bad_merges_are_refused),
        cmocka_unit_test(special_ids_out_of_range_are_absent),
        cmocka_unit_test(flags_of_other_types),
        cmocka_unit_test(odd_tokens_do_no_harm),
        cmocka_unit_test(bad_calls_are_refused),
        cmocka_unit_test(streaming_gives_whole_characters),
        cmocka_unit_test(known_control_tokens_end_answers),
        cmocka_unit_test(listed_tokens_end_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
