/* What the tokenizer does to text by itself: Unicode classes, NFC, merging, long inputs. */
#include "coordinator/tokenizer/merge.h"
#include "coordinator/tokenizer/normalize.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "coordinator/tokenizer/unicode.h"
#include "tests/unit/model_file.h"

#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

#include <cmocka.h>

static struct tern_error error;

static void classes_are_those_of_unicode_16(void **state)
{
    (void)state;
    struct unicode_classes *classes = unicode_classes_new(NULL, 0);
    assert_non_null(classes);
    static const struct {
        uint32_t point;
        enum unicode_class class;
    } facts[] = {
        {0x80, UNICODE_OTHER},     {0x85, UNICODE_SPACE},     {0xa0, UNICODE_SPACE},
        {0xc4, UNICODE_UPPER},     {0xdf, UNICODE_LOWER},     {0x17f, UNICODE_LONG_S},
        {0x1c5, UNICODE_TITLE},    {0x2b0, UNICODE_MODIFIER}, {0x301, UNICODE_MARK},
        {0x661, UNICODE_NUMBER},   {0x4e2d, UNICODE_LETTER},  {0x3001, UNICODE_PUNCTUATION},
        {0x20ac, UNICODE_SYMBOL},  {0x3000, UNICODE_SPACE},   {0x200b, UNICODE_OTHER},
        {0x1c89, UNICODE_UPPER},   {0x2427, UNICODE_SYMBOL},  {0x11de0, UNICODE_NEW_DIGIT},
        {0x1f600, UNICODE_SYMBOL}, {0xe000, UNICODE_OTHER},   {0x10ffff, UNICODE_OTHER},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        assert_int_equal(unicode_class_of(classes, facts[i].point), facts[i].class);
    unicode_classes_free(classes);
}

/* Every code point against the reference's own ranges. */
static void classes_are_the_references(void **state)
{
    (void)state;
    json_t *ranges = json_load_file(test_golden("tokenizers/unicode_classes.json"), 0, NULL);
    if (ranges == NULL)
        skip();
    static const struct {
        const char *name;
        uint32_t classes; /* set of bits */
    } sets[] = {
        {"L", 1 << UNICODE_UPPER | 1 << UNICODE_LOWER | 1 << UNICODE_LONG_S | 1 << UNICODE_TITLE |
                  1 << UNICODE_MODIFIER | 1 << UNICODE_LETTER},
        {"Lu", 1 << UNICODE_UPPER},
        {"Ll", 1 << UNICODE_LOWER | 1 << UNICODE_LONG_S},
        {"Lt", 1 << UNICODE_TITLE},
        {"Lm", 1 << UNICODE_MODIFIER},
        {"Lo", 1 << UNICODE_LETTER},
        {"M", 1 << UNICODE_MARK | 1 << UNICODE_M_PUNCTUATION},
        {"N", 1 << UNICODE_NUMBER},
        {"P", 1 << UNICODE_PUNCTUATION | 1 << UNICODE_P_ONLY},
        {"S", 1 << UNICODE_SYMBOL | 1 << UNICODE_S_PUNCTUATION},
        {"space", 1 << UNICODE_SPACE},
        {"Digits_pretokenizer", 1 << UNICODE_NUMBER | 1 << UNICODE_NEW_DIGIT},
        {"Punctuation_pretokenizer",
         1 << UNICODE_PUNCTUATION | 1 << UNICODE_S_PUNCTUATION | 1 << UNICODE_M_PUNCTUATION},
    };
    struct unicode_classes *classes = unicode_classes_new(NULL, 0);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        const json_t *list = json_object_get(ranges, sets[i].name);
        assert_true(json_array_size(list) > 0);
        uint32_t point = 0x80;
        for (size_t r = 0; r <= json_array_size(list); r++) {
            const json_t *range = json_array_get(list, r);
            const uint32_t first =
                range == NULL ? 0x110000 : (uint32_t)json_integer_value(json_array_get(range, 0));
            const uint32_t last =
                range == NULL ? 0x110000 : (uint32_t)json_integer_value(json_array_get(range, 1));
            for (; point < first; point++)
                assert_false(sets[i].classes >> unicode_class_of(classes, point) & 1);
            for (; point <= last && point < 0x110000; point++)
                assert_true(sets[i].classes >> unicode_class_of(classes, point) & 1);
        }
    }
    unicode_classes_free(classes);
    json_decref(ranges);
}

static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(random_state >> 4) * below >> 28);
}

/* Code points that NFC moves, changes or joins, and their neighbours. */
static uint32_t draw_point(const uint32_t *moving, size_t count)
{
    static const uint32_t blocks[] = {
        0x20,   0xc0,   0x300,  0x390,  0x430,  0x590,  0x9b0,  0x1100,  0x1ea0,  0x2000,  0x2120,
        0x3040, 0x30a0, 0x4e00, 0xac00, 0xf900, 0xfb20, 0xff00, 0x11090, 0x1d150, 0x1f600, 0x2f800};
    uint32_t point;
    do
        point = draw(3) == 0 ? blocks[draw(sizeof blocks / sizeof blocks[0])] + draw(96)
                             : moving[draw((uint32_t)count)];
    while (text_is_newer(point));
    return point;
}

static void nfc_is_that_of_utf8proc(void **state)
{
    (void)state;
    uint32_t *moving = malloc(0x110000 * sizeof *moving);
    size_t count = 0;
    for (int32_t point = 0xa0; point < 0x110000; point++) {
        const utf8proc_property_t *property = utf8proc_get_property(point);
        if ((point < 0xac00 || point > 0xd7a3) && utf8proc_codepoint_valid(point) &&
            !text_is_newer((uint32_t)point) &&
            (property->combining_class != 0 || property->comb_index != UINT16_MAX))
            moving[count++] = (uint32_t)point;
    }
    assert_true(count > 500);
    for (int round = 0; round < 200000; round++) {
        char text[4 * 12 + 1];
        size_t length = 0;
        for (uint32_t i = draw(12) + 1; i > 0; i--)
            length += (size_t)utf8proc_encode_char((int32_t)draw_point(moving, count),
                                                   (utf8proc_uint8_t *)text + length);
        text[length] = '\0';
        struct text_buffer got = {0};
        assert_int_equal(text_append_nfc(&got, text, length, &error), TERN_OK);
        char *wanted = (char *)utf8proc_NFC((const utf8proc_uint8_t *)text);
        if (got.length != strlen(wanted) || memcmp(got.bytes, wanted, got.length) != 0)
            fail_msg("NFC of \"%s\" is \"%.*s\", not \"%s\"", text, (int)got.length, got.bytes,
                     wanted);
        free(wanted);
        free(got.bytes);
    }
    free(moving);
}

/* A character that counts as stable must be so in every context. */
static void nfc_leaves_stable_texts_alone(void **state)
{
    (void)state;
    for (int32_t point = 0x20; point < 0x110000; point++) {
        if (!utf8proc_codepoint_valid(point) || text_is_newer((uint32_t)point))
            continue;
        char text[16] = "e";
        const size_t length = 1 + (size_t)utf8proc_encode_char(point, (utf8proc_uint8_t *)text + 1);
        text[length] = '\0';
        struct text_buffer got = {0};
        assert_int_equal(text_append_nfc(&got, text, length, &error), TERN_OK);
        char *wanted = (char *)utf8proc_NFC((const utf8proc_uint8_t *)text);
        assert_int_equal(got.length, strlen(wanted));
        assert_memory_equal(got.bytes, wanted, got.length);
        free(wanted);
        free(got.bytes);
    }
}

static void nfc_is_that_of_unicode_9(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"e\u0301\u0323", "\u1eb9\u0301"},
        /* U+08D3 came with Unicode 11 and is no mark to the reference: it stays in its place. */
        {"e\u0301\u08d3\u0323", "\u00e9\u08d3\u0323"},
        {"\U000105d2\u0307", "\U000105d2\u0307"},
        {"\U00011935\U00011930", "\U00011935\U00011930"},
        {"\u212b\u1112\u1161\u11ab", "\u00c5\ud55c"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct text_buffer got = {0};
        assert_int_equal(text_append_nfc(&got, texts[i][0], strlen(texts[i][0]), &error), TERN_OK);
        assert_int_equal(got.length, strlen(texts[i][1]));
        assert_memory_equal(got.bytes, texts[i][1], got.length);
        free(got.bytes);
    }
}

/* ---- merging ---- */

/* Neighbours merge if the sum of their ids is no multiple of 3; few priorities, so that ties are
 * common. */
static bool find_any(const void *rules, const char *text, const struct merge_symbol *left,
                     const struct merge_symbol *right, struct merge_result *result)
{
    (void)rules;
    (void)text;
    const uint32_t sum = 7 * left->id + 5 * right->id;
    *result = (struct merge_result){.priority = sum % 11, .id = sum % 97};
    return (left->id + right->id) % 3 != 0;
}

/* By the definition: the best pair, leftmost among equals, again and again. */
static size_t merge_slowly(struct merge_symbol *symbol, size_t count)
{
    for (;;) {
        size_t best = count;
        struct merge_result least = {0}, result;
        for (size_t i = 0; i + 1 < count; i++)
            if (find_any(NULL, NULL, &symbol[i], &symbol[i + 1], &result) &&
                (best == count || result.priority < least.priority)) {
                best = i;
                least = result;
            }
        if (best == count)
            return count;
        symbol[best].length += symbol[best + 1].length;
        symbol[best].id = least.id;
        count--;
        memmove(symbol + best + 1, symbol + best + 2, (count - best - 1) * sizeof *symbol);
    }
}

/* Short words are merged by a scan, long ones by a heap. */
static void merging_follows_its_definition(void **state)
{
    (void)state;
    enum { LONGEST = 150 };
    struct merge_work work = {.priorities = 11};
    for (int round = 0; round < 3000; round++) {
        struct merge_symbol wanted[LONGEST];
        const size_t count = 1 + draw(LONGEST);
        assert_int_equal(merge_reserve(&work, count, &error), TERN_OK);
        for (uint32_t i = 0; i < count; i++)
            wanted[i] = work.symbol[i] =
                (struct merge_symbol){.start = i, .length = 1, .id = draw(1 + draw(5))};
        work.count = count;
        assert_int_equal(merge_symbols(&work, find_any, NULL, NULL, &error), TERN_OK);
        assert_int_equal(work.count, merge_slowly(wanted, count));
        for (size_t i = 0; i < work.count; i++) {
            assert_int_equal(work.symbol[i].start, wanted[i].start);
            assert_int_equal(work.symbol[i].length, wanted[i].length);
            assert_int_equal(work.symbol[i].id, wanted[i].id);
        }
    }
    merge_work_free(&work);
}

/* ---- long inputs ---- */

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
    const char *failed; /* what went wrong, or NULL */
    double slowest;
};

/* In a thread of its own, so that a deep stack shows. */
static void *run_long_inputs(void *argument)
{
    struct long_run *run = argument;
    for (size_t i = 0; i < sizeof long_inputs / sizeof long_inputs[0]; i++) {
        size_t length;
        char *text = repeat(&long_inputs[i], &length);
        const struct tern_text piece = {.bytes = text, .length = length};
        struct tern_ids ids;
        const double start = thread_seconds();
        if (tern_tokenize(run->tokenizer, &piece, 1, false, &ids, &error) != TERN_OK)
            run->failed = "an error";
        const double took = thread_seconds() - start;
        run->slowest = took > run->slowest ? took : run->slowest;
        char *decoded = NULL;
        size_t decoded_length = 0;
        struct tern_decoder decoder = {0};
        if (tern_decode(run->tokenizer, &decoder, ids.id, ids.count, false, true, &decoded,
                        &decoded_length, &error) != TERN_OK)
            run->failed = "an error in decoding";
        /* Normalizing changes the texts with marks. */
        else if (memchr(text, 0xcc, length) == NULL && memchr(text, 0xe0, length) == NULL &&
                 (decoded_length != length || memcmp(decoded, text, length) != 0))
            run->failed = "another text after decoding";
        free(decoded);
        free(text);
        tern_ids_free(&ids);
    }
    return NULL;
}

static void long_inputs_are_quick_and_flat(void **state)
{
    (void)state;
    size_t run_count = 0;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct test_catalog catalog;
        if (!test_catalog_open(test_golden("%s", models[i]), &catalog))
            continue;
        struct tern_tokenizer *tokenizer;
        assert_int_equal(tern_tokenizer_new(catalog.catalog, &tokenizer, &error), TERN_OK);
        struct long_run run = {.tokenizer = tokenizer};
        pthread_attr_t attributes;
        pthread_t thread;
        assert_int_equal(pthread_attr_init(&attributes), 0);
        assert_int_equal(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
        assert_int_equal(pthread_create(&thread, &attributes, run_long_inputs, &run), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        pthread_attr_destroy(&attributes);
        if (run.failed != NULL)
            fail_msg("%s: %s", models[i], run.failed);
        if (run.slowest > 1.0)
            fail_msg("%s: %.2f s for one input", models[i], run.slowest);
        tern_tokenizer_free(tokenizer);
        test_catalog_close(&catalog);
        run_count++;
    }
    assert_true(run_count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_those_of_unicode_16),
        cmocka_unit_test(classes_are_the_references),
        cmocka_unit_test(nfc_is_that_of_utf8proc),
        cmocka_unit_test(nfc_leaves_stable_texts_alone),
        cmocka_unit_test(nfc_is_that_of_unicode_9),
        cmocka_unit_test(merging_follows_its_definition),
        cmocka_unit_test(long_inputs_are_quick_and_flat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
