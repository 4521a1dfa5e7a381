/* Long texts that are hard to split or to merge: time stays near that of prose, the stack small,
 * and they come back as they were. */
#include "coordinator/tokenizer/tokenizer.h"
#include "tests/unit/model_file.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct tern_error error;

struct long_input {
    const char *unit;
    size_t times;
    const char *end; /* after the last unit */
};

static const struct long_input long_inputs[] = {
    {"Z", 131072, ""},
    {" ", 131072, ""},
    {"\n", 100000, ""},
    {".", 100000, ""},
    {"\u4e2d", 100000, ""},
    {"us", 200000, ""},
    {"1", 131072, ""},
    {" \n", 65536, ""},
    {"<|im_", 40000, ""},
    {"'", 131072, ""},
    {"\t ", 65536, ""},
    {"<", 131072, ""},
    {"e\u0301", 65536, ""},
    {"\u0301\u0323", 65536, ""},
    {"\u0f73", 65536, ""},
    {"\u3000", 65536, ""},
    {"aZ1. \n", 40000, ""},
    {"\U0001f469\u200d", 30000, ""},
    {"A", 131072, ""},
    {" ", 131072, "\U0001f600"},
    {" ", 131072, "a"},
    {"A", 131072, "\u0905"},
    {"\u0905", 65536, "A"},
    {"A", 131072, "1a"},
    {"\u00b2", 65536, ""},
    {"\u200b", 65536, "a"},
    {"a\u00e9", 65536, ""},
    {"$", 131072, "a"},
    {"\u3042\u4e2d", 30000, "a"},
    {"aB", 65536, ""},
    {"\u0905A", 40000, "1"},
    {" 1", 65536, ""},
    {"abcabd", 40000, ""},
    {"3.14159e-10", 20000, ""},
    {"\u2581", 65536, ""},
    {"_", 131072, "a"},
    {"\u0e01\u0e49", 30000, ""},
    {"\ud55c\uae00", 30000, ""},
};

/* As long as a text may be. */
static const struct long_input longest_inputs[] = {
    {"Z", 8 << 20, ""},
    {" ", 8 << 20, ""},
    {"\n", 8 << 20, ""},
    {"us", 4 << 20, ""},
};

/* Names of models of every kind of tokenizer; which are there depends on the golden folder. */
static const char *const models[] = {
    "models/llama-eps-f16.gguf", "models/llama-mix32.gguf",      "models/llama-tied-q6_k.gguf",
    "models/qwen3-bf16.gguf",    "models/llama-q4_0.gguf",       "models/gemma3-mix32.gguf",
    "tokenizers/gpt-2.gguf",     "tokenizers/qwen3.gguf",        "tokenizers/gemma3.gguf",
    "tokenizers/llama3_1.gguf",  "tokenizers/llama-spm.gguf",    "models/olmoe-f32.gguf",
    "tokenizers/starcoder.gguf", "tokenizers/falcon.gguf",       "tokenizers/deepseek_v3.gguf",
    "tokenizers/gptoss.gguf",    "tokenizers/deepseek-llm.gguf", "tokenizers/deepseek-coder.gguf",
    "../data/vocab/mpt.gguf",    "../data/vocab/phi-3.gguf",
};

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static char *repeat(const struct long_input *input, size_t *length)
{
    const size_t unit = strlen(input->unit);
    *length = unit * input->times + strlen(input->end);
    char *text = malloc(*length + 1);
    for (size_t i = 0; i < input->times; i++)
        memcpy(text + i * unit, input->unit, unit);
    memcpy(text + unit * input->times, input->end, strlen(input->end) + 1);
    return text;
}

struct long_run {
    const struct tern_tokenizer *tokenizer;
    const struct long_input *input;
    size_t inputs;
    const char *failed; /* what went wrong, or NULL */
    double slowest;     /* seconds per byte */
};

/* Seconds of encoding. */
static double encode_timed(const struct tern_tokenizer *tokenizer, const char *text, size_t length,
                           struct tern_ids *ids)
{
    const struct tern_text piece = {.bytes = text, .length = length};
    const double start = thread_seconds();
    if (tern_tokenize(tokenizer, &piece, 1, false, ids, &error) != TERN_OK)
        return INFINITY;
    return thread_seconds() - start;
}

/* NULL, or what is wrong with what the ids decode to. */
static const char *check_decoding(const struct tern_tokenizer *tokenizer,
                                  const struct tern_ids *ids, const char *text, size_t length)
{
    char *decoded = NULL;
    size_t decoded_length = 0;
    struct tern_decoder decoder = {0};
    const char *failed = NULL;
    if (tern_decode(tokenizer, &decoder, ids->id, ids->count, false, true, &decoded,
                    &decoded_length, &error) != TERN_OK)
        failed = "an error in decoding";
    /* Normalizing changes the texts with marks, and SentencePiece takes U+2581 for a space. */
    else if (memchr(text, 0xcc, length) == NULL && memchr(text, 0xe0, length) == NULL &&
             memmem(text, length, "\u2581", 3) == NULL &&
             (decoded_length != length || memcmp(decoded, text, length) != 0))
        failed = "another text after decoding";
    free(decoded);
    return failed;
}

/* In a thread of its own, so that a deep stack shows. */
static void *run_long_inputs(void *argument)
{
    struct long_run *run = argument;
    for (size_t i = 0; i < run->inputs && run->failed == NULL; i++) {
        size_t length;
        char *text = repeat(&run->input[i], &length);
        struct tern_ids ids;
        const double took = encode_timed(run->tokenizer, text, length, &ids) / (double)length;
        run->slowest = took > run->slowest ? took : run->slowest;
        run->failed = check_decoding(run->tokenizer, &ids, text, length);
        free(text);
        tern_ids_free(&ids);
    }
    return NULL;
}

static void run_with_little_stack(struct long_run *run)
{
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_long_inputs, run), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

/* Seconds per byte of prose and code in many scripts. */
static double prose_time(const struct tern_tokenizer *tokenizer, const char *text, size_t length)
{
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        struct tern_ids ids;
        sum += encode_timed(tokenizer, text, length, &ids);
        tern_ids_free(&ids);
    }
    return sum / 3 / (double)length;
}

static char *read_prose(size_t *length)
{
    const int file = test_open(test_golden("tokenizers/bulk.txt"));
    assert_true(file >= 0);
    *length = (size_t)lseek(file, 0, SEEK_END);
    char *text = malloc(*length);
    assert_int_equal(pread(file, text, *length, 0), *length);
    close(file);
    return text;
}

/* No input takes many times what prose takes. One of three to six is usual; the limit leaves room
 * for a busy machine and finds what grows with the square of the length. */
static size_t run_models(const char *const *names, size_t count, const struct long_input *input,
                         size_t inputs)
{
    enum { TIMES = 20 };
    size_t length, ran = 0;
    char *prose = read_prose(&length);
    for (size_t i = 0; i < count; i++) {
        struct test_catalog catalog;
        if (!test_catalog_open(test_golden("%s", names[i]), &catalog))
            continue;
        struct tern_tokenizer *tokenizer;
        assert_int_equal(tern_tokenizer_new(catalog.catalog, &tokenizer, &error), TERN_OK);
        struct long_run run = {.tokenizer = tokenizer, .input = input, .inputs = inputs};
        const double usual = prose_time(tokenizer, prose, length);
        run_with_little_stack(&run);
        if (run.failed != NULL)
            fail_msg("%s: %s", names[i], run.failed);
        if (run.slowest > TIMES * usual)
            fail_msg("%s: one input takes %.1f times what prose takes", names[i],
                     run.slowest / usual);
        tern_tokenizer_free(tokenizer);
        test_catalog_close(&catalog);
        ran++;
    }
    free(prose);
    return ran;
}

static void long_inputs_are_quick_and_flat(void **state)
{
    (void)state;
    assert_true(run_models(models, sizeof models / sizeof models[0], long_inputs,
                           sizeof long_inputs / sizeof long_inputs[0]) > 0);
}

static void the_longest_inputs_are_too(void **state)
{
    (void)state;
    static const char *const few[] = {"tokenizers/qwen3.gguf", "models/llama-q4_0.gguf"};
    assert_int_equal(
        run_models(few, 2, longest_inputs, sizeof longest_inputs / sizeof longest_inputs[0]), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_inputs_are_quick_and_flat),
        cmocka_unit_test(the_longest_inputs_are_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
