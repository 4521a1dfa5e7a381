/* Faults that public reports found in other programs, as tests of their whole kind. The
 * vocabularies are the golden folder's; what is not there is skipped, by name of the test. */
#include "coordinator/tokenizer/tokenizer.h"
#include "tests/unit/model_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tern_error error;

static struct tern_tokenizer *open_named(const char *name)
{
    struct test_catalog catalog;
    if (!test_catalog_open(test_golden("tokenizers/%s.gguf", name), &catalog))
        return NULL;
    struct tern_tokenizer *tokenizer;
    if (tern_tokenizer_new(catalog.catalog, &tokenizer, &error) != TERN_OK)
        fail_msg("%s: %s", name, error.message);
    test_catalog_close(&catalog);
    return tokenizer;
}

static struct tern_ids encode(const struct tern_tokenizer *tokenizer, const char *text,
                              size_t length, bool special)
{
    const struct tern_text piece = {.bytes = text, .length = length, .parse_special = special};
    struct tern_ids ids;
    assert_int_equal(tern_tokenize(tokenizer, &piece, 1, special, &ids, &error), TERN_OK);
    return ids;
}

static void check_ids(const struct tern_tokenizer *tokenizer, const char *text, bool special,
                      const char *wanted)
{
    struct tern_ids ids = encode(tokenizer, text, strlen(text), special);
    char got[512] = "";
    for (size_t i = 0; i < ids.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), i == 0 ? "%u" : " %u", ids.id[i]);
    tern_ids_free(&ids);
    assert_string_equal(got, wanted);
}

/* A space or none, then small ASCII letters: one word to every pre-tokenizer. */
static bool is_word(const char *bytes, size_t length)
{
    size_t i = length > 1 && bytes[0] == ' ';
    for (; i < length; i++)
        if (bytes[i] < 'a' || bytes[i] > 'z')
            return false;
    return length > 0;
}

/* B18: a word that is a token is that token, though merges alone may not lead there. */
static void whole_words_come_before_merges(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3_1", "gptoss"};
    size_t ran = 0;
    for (size_t k = 0; k < 2; k++) {
        struct tern_tokenizer *tokenizer = open_named(names[k]);
        if (tokenizer == NULL)
            continue;
        for (uint32_t id = 0; id < tern_vocabulary(tokenizer); id++) {
            size_t length;
            const char *bytes = tern_token_bytes(tokenizer, id, &length);
            if (!is_word(bytes, length))
                continue;
            struct tern_ids ids = encode(tokenizer, bytes, length, false);
            if (ids.count != 1 || ids.id[0] != id)
                fail_msg("%s: token %u (\"%.*s\") is cut", names[k], id, (int)length, bytes);
            tern_ids_free(&ids);
            ran++;
        }
        if (k == 0)
            check_ids(tokenizer, " Vi\u1ec7t", false, "101798");
        tern_tokenizer_free(tokenizer);
    }
    if (ran == 0)
        skip();
    assert_true(ran > 10000);
}

/* Digits of each token of `digits` ones, as "3 3 1 ". */
static void check_groups(const struct tern_tokenizer *tokenizer, size_t digits, size_t most)
{
    char text[64];
    memset(text, '3', digits);
    struct tern_ids ids = encode(tokenizer, text, digits, false);
    assert_int_equal(ids.count, (digits + most - 1) / most);
    size_t left = digits;
    for (size_t i = 0; i < ids.count; i++) {
        size_t length;
        tern_token_bytes(tokenizer, ids.id[i], &length);
        assert_int_equal(length, left < most ? left : most);
        left -= length;
    }
    tern_ids_free(&ids);
}

/* B20: runs of digits are cut from the left, in groups of what the pre-tokenizer allows. */
static void digits_stay_in_their_groups(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t most;
    } rows[] = {{"llama3_1", 3}, {"gptoss", 3},       {"deepseek_v3", 3},
                {"qwen3", 1},    {"starcoder", 1},    {"gemma3", 1},
                {"smollm2", 1},  {"deepseek-llm", 1}, {"deepseek-coder", 1}};
    size_t ran = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tern_tokenizer *tokenizer = open_named(rows[i].name);
        if (tokenizer == NULL)
            continue;
        for (size_t digits = 1; digits <= 40; digits++)
            check_groups(tokenizer, digits, rows[i].most);
        struct tern_ids sum = encode(tokenizer, "3333+777", 8, false);
        assert_int_equal(sum.count, rows[i].most == 3 ? 4 : 8);
        tern_ids_free(&sum);
        tern_tokenizer_free(tokenizer);
        ran++;
    }
    assert_true(ran > 0);
}

/* B22: the space before the text, and a character by its bytes; it comes back as it was. */
static void a_space_goes_before_the_text(void **state)
{
    (void)state;
    struct tern_tokenizer *tokenizer = open_named("llama-spm");
    if (tokenizer == NULL)
        skip();
    static const char text[] = "This is \U0001f999.cpp";
    check_ids(tokenizer, text, true, "1 910 338 29871 243 162 169 156 29889 8223");
    struct tern_ids ids = encode(tokenizer, text, strlen(text), false);
    struct tern_decoder decoder = {0};
    char *back = NULL;
    size_t length = 0;
    assert_int_equal(
        tern_decode(tokenizer, &decoder, ids.id, ids.count, false, true, &back, &length, &error),
        TERN_OK);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(back, text, length);
    free(back);
    tern_ids_free(&ids);
    tern_tokenizer_free(tokenizer);
}

/* B27, for raw text: BOS is added where the file says so, whatever the text begins with. */
static void bos_is_added_by_one_rule(void **state)
{
    (void)state;
    struct tern_tokenizer *llama = open_named("llama3_1"), *qwen = open_named("qwen3");
    if (llama == NULL || qwen == NULL) {
        tern_tokenizer_free(llama);
        tern_tokenizer_free(qwen);
        skip();
    }
    check_ids(llama, "", true, "128000");
    check_ids(llama, "hi", true, "128000 6151");
    check_ids(llama, "<|begin_of_text|>hi", true, "128000 128000 6151");
    check_ids(qwen, "", true, "");
    check_ids(qwen, "hi", true, "6023");
    tern_tokenizer_free(llama);
    tern_tokenizer_free(qwen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_words_come_before_merges),
        cmocka_unit_test(digits_stay_in_their_groups),
        cmocka_unit_test(a_space_goes_before_the_text),
        cmocka_unit_test(bos_is_added_by_one_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
