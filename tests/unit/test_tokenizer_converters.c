/* SentencePiece vocabularies as converters have written them: what their files do not say, or say
 * wrongly. */
#include "coordinator/tokenizer/tokenizer.h"
#include "tests/unit/model_file.h"
#include "tests/unit/token_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct tern_error error;

static struct tern_tokenizer *make(const struct tern_string *tokens, const int32_t *types,
                                   const float *scores, uint64_t count)
{
    const struct tern_string model = {"llama", 5};
    const struct test_key keys[] = {
        {"tokenizer.ggml.model", TERN_V_STRING, false, &model, 1},
        {"tokenizer.ggml.tokens", TERN_V_STRING, true, tokens, count},
        {"tokenizer.ggml.token_type", TERN_V_I32, true, types, count},
        {"tokenizer.ggml.scores", TERN_V_F32, true, scores, count},
    };
    struct test_catalog catalog;
    struct tern_tokenizer *tokenizer;
    test_catalog_make(keys, sizeof keys / sizeof keys[0], &catalog);
    if (tern_tokenizer_new(catalog.catalog, &tokenizer, &error) != TERN_OK)
        fail_msg("%s", error.message);
    test_catalog_close(&catalog);
    return tokenizer;
}

/* <unk>, <s>, </s>, the first `bytes` of <0x00> ... <0xFF> with this type, "a" and U+2581. */
static struct tern_tokenizer *with_bytes(uint32_t bytes, int32_t type)
{
    enum { COUNT = 3 + 256 + 2 };
    static const char *const first[] = {"<unk>", "<s>", "</s>"};
    static struct tern_string tokens[COUNT];
    static int32_t types[COUNT];
    static float scores[COUNT];
    static char names[256][8];
    for (uint32_t i = 0; i < 3; i++) {
        tokens[i] = (struct tern_string){first[i], strlen(first[i])};
        types[i] = i == 0 ? 2 : 3;
    }
    for (uint32_t i = 0; i < 256; i++) {
        snprintf(names[i], sizeof names[i], i < bytes ? "<0x%02X>" : "t%u", i);
        tokens[3 + i] = (struct tern_string){names[i], strlen(names[i])};
        types[3 + i] = i < bytes ? type : 1;
    }
    tokens[259] = (struct tern_string){"a", 1};
    tokens[260] = (struct tern_string){"\u2581", 3};
    types[259] = types[260] = 1;
    return make(tokens, types, scores, COUNT);
}

/* Files whose converter called the tokens of bytes ordinary (1) or user-defined (4) ones. */
static void misnamed_bytes_are_bytes(void **state)
{
    (void)state;
    static const int32_t types[] = {6, 1, 4};
    for (size_t i = 0; i < 3; i++) {
        struct tern_tokenizer *tokenizer = with_bytes(256, types[i]);
        size_t length;
        check_text(tokenizer, "a\n\u00fc", false, "260 259 13 198 191");
        check_text(tokenizer, "<0x0A>", false, "260 63 51 123 51 68 65");
        assert_memory_equal(tern_token_bytes(tokenizer, 13, &length), "\n", 1);
        assert_int_equal(length, 1);
        tern_tokenizer_free(tokenizer);
    }
    struct tern_tokenizer *tokenizer = with_bytes(255, 1); /* texts that look like it */
    size_t length;
    check_text(tokenizer, "a\n", false, "260 259 0");
    assert_memory_equal(tern_token_bytes(tokenizer, 13, &length), "<0x0A>", 6);
    tern_tokenizer_free(tokenizer);
}

/* 32016 tokens: a few in the places of Phi-3's, or some steps behind them, and fillers. */
static struct tern_tokenizer *like_phi3(uint32_t steps)
{
    enum { COUNT = 32016 };
    static const struct {
        uint32_t id;
        const char *text;
        int32_t type;
    } known[] = {
        {0, "<unk>", 2},
        {1, "<s>", 3},
        {2, "</s>", 4},
        {3, "\n", 1},
        {4, "\u2581", 1},
        {5, "a", 1},
        {6, "\u2581a", 1},
        {32000, "<|endoftext|>", 3},
        {32001, "<|assistant|>", 3},
        {32006, "<|system|>", 3},
        {32007, "<|end|>", 3},
        {32010, "<|user|>", 3},
    };
    static struct tern_string tokens[COUNT];
    static int32_t types[COUNT];
    static float scores[COUNT];
    static char fillers[COUNT][8];
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(fillers[i], sizeof fillers[i], "t%u", i);
        tokens[i] = (struct tern_string){fillers[i], strlen(fillers[i])};
        types[i] = 1;
        scores[i] = -(float)i;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint32_t id = known[i].id + (known[i].id > 32000 ? steps : 0);
        tokens[id] = (struct tern_string){known[i].text, strlen(known[i].text)};
        types[id] = known[i].type;
    }
    return make(tokens, types, scores, COUNT);
}

/* Phi-3's turn tokens take the white space behind them, of whatever kind; its others do not, nor do
 * tokens of these names in other vocabularies. */
static void turn_tokens_of_phi3_take_white_space(void **state)
{
    (void)state;
    struct tern_tokenizer *tokenizer = like_phi3(0);
    check_text(tokenizer, "<|user|>\na<|end|>\n<|assistant|>\n", true, "32010 6 32007 32001");
    check_text(tokenizer, "<|user|> \t\u00a0\u2003\u3000\n\na", true, "32010 6");
    check_text(tokenizer, "</s> a<|system|>", true, "2 6 32006");
    check_text(tokenizer, "<s>\na<|endoftext|>\n", true, "1 4 3 5 32000 4 3");
    check_text(tokenizer, "<|user|>\u200ba", true, "32010 4 0 5");
    const struct tern_text pieces[] = {{"<|user|>\n", 9, true, false}, {"\n a", 3, false, true}};
    check_ids(tokenizer, pieces, 2, false, "32010 6");
    tern_tokenizer_free(tokenizer);
    tokenizer = like_phi3(1);
    check_text(tokenizer, "<|user|>\na", true, "32011 4 3 5");
    tern_tokenizer_free(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misnamed_bytes_are_bytes),
        cmocka_unit_test(turn_tokens_of_phi3_take_white_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
