/* What the tokenizer does to text by itself: Unicode classes, NFC, merging, long inputs. */
#include "coordinator/tokenizer/merge.h"
#include "coordinator/tokenizer/normalize.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "coordinator/tokenizer/unicode.h"
#include "tests/unit/model_file.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    while (text_is_inert(point));
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
            !text_is_inert((uint32_t)point) &&
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
        if (!utf8proc_codepoint_valid(point) || text_is_inert((uint32_t)point))
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
        {"\u110c\u116b\u11a7\u11ab", "\uc8a8\u11a7\u11ab"},
        {"\uac00\u11a7", "\uac00\u11a7"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_those_of_unicode_16),
        cmocka_unit_test(classes_are_the_references),
        cmocka_unit_test(nfc_is_that_of_utf8proc),
        cmocka_unit_test(nfc_leaves_stable_texts_alone),
        cmocka_unit_test(nfc_is_that_of_unicode_9),
        cmocka_unit_test(merging_follows_its_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
