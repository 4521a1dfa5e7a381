/* coordinator/service/stop: what comes out, against a search over the whole text, for every way of
 * cutting it. */
#include "coordinator/service/stop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The text through stops, in pieces of `piece` bytes; at every moment what is out must be a prefix
 * of `right`. */
static void expect(const char *stops, size_t stops_length, const char *text, const char *right,
                   bool stopped)
{
    for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
        struct tern_error error;
        struct tern_stops *s;
        char *out = NULL;
        size_t length = 0;
        bool found = false;
        assert_int_equal(tern_stops_new(stops, stops_length, &s, &error), TERN_OK);
        for (size_t at = 0; at < strlen(text) && !found; at += piece) {
            const size_t left = strlen(text) - at;
            assert_int_equal(tern_stops_feed(s, text + at, left < piece ? left : piece, &out,
                                             &length, &found, &error),
                             TERN_OK);
            assert_true(length <= strlen(right) && memcmp(out, right, length) == 0);
        }
        if (!found)
            assert_int_equal(tern_stops_end(s, &out, &length, &error), TERN_OK);
        assert_int_equal(found, stopped);
        assert_int_equal(length, strlen(right));
        if (length > 0)
            assert_memory_equal(out, right, length);
        free(out);
        tern_stops_free(s);
    }
}

#define STOPS(texts) texts "\0", sizeof(texts)

static void text_before_a_stop_is_all_that_comes_out(void **state)
{
    (void)state;
    expect(STOPS("DEFGHIJ"), "ABCDEFGHIJKL", "ABC", true);
    expect(STOPS("O P Q"), "A B C D E F", "A B C D E F", false);
    expect(STOPS("\n\0Alice:"), " Alice!", " Alice!", false);
    expect(STOPS("\n\0Alice:"), " Alice: hi", " ", true);
    expect(STOPS("aab"), "aaaaab", "aaa", true);
    expect(STOPS("abab"), "abaabab", "aba", true);
    expect(STOPS("bc\0abcd"), "xabcd", "xa", true); /* the first to be complete */
    expect(STOPS("cd\0abcd"), "xabcd", "x", true);  /* the longest at one byte */
    expect(STOPS("x"), "x", "", true);
    expect(STOPS("ends"), "it en", "it en", false);
    expect(STOPS("\xf0\x9f\x98\x80"), "a\xf0\x9f\x98\x81z", "a\xf0\x9f\x98\x81z", false);
}

/* The first match in `text` by trying every place: its start in *start. */
static bool search(char list[][8], int count, const char *text, size_t *start)
{
    for (size_t end = 1; end <= strlen(text); end++)
        for (*start = 0; *start < end; ++*start)
            for (int i = 0; i < count; i++)
                if (strlen(list[i]) == end - *start &&
                    memcmp(text + *start, list[i], end - *start) == 0)
                    return true;
    return false;
}

static void random_texts_agree_with_a_plain_search(void **state)
{
    (void)state;
    uint32_t random = 7;
    for (int round = 0; round < 3000; round++) {
        char list[4][8], text[40] = "", packed[64], right[40];
        size_t packed_length = 0, start;
        const int count = 1 + round % 4;
        for (int i = 0; i < count; i++) {
            size_t length = 0;
            do {
                random = random * 1664525u + 1013904223u;
                list[i][length++] = (char)('a' + (random >> 28) % 2);
            } while (length < 6 && (random >> 20) % 4 != 0);
            list[i][length] = '\0';
            memcpy(packed + packed_length, list[i], length + 1);
            packed_length += length + 1;
        }
        for (int i = 0; i < 24; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = (char)('a' + (random >> 28) % 3);
        }
        const bool found = search(list, count, text, &start);
        strcpy(right, text);
        if (found)
            right[start] = '\0';
        expect(packed, packed_length, text, right, found);
    }
}

static void bad_lists_are_refused(void **state)
{
    (void)state;
    struct tern_error error;
    struct tern_stops *s;
    char many[2 * TERN_MOST_STOPS + 2];
    assert_int_equal(tern_stops_new("", 0, &s, &error), TERN_OK);
    assert_null(s);
    assert_int_equal(tern_stops_new("", 1, &s, &error), TERN_USAGE);
    assert_int_equal(tern_stops_new("a\0\0b", 5, &s, &error), TERN_USAGE);
    assert_int_equal(tern_stops_new("ab", 2, &s, &error), TERN_USAGE);
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = i % 2 == 0 ? 'a' : '\0';
    assert_int_equal(tern_stops_new(many, sizeof many, &s, &error), TERN_USAGE);
    assert_int_equal(tern_stops_new(many, sizeof many - 2, &s, &error), TERN_OK);
    tern_stops_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_before_a_stop_is_all_that_comes_out),
        cmocka_unit_test(random_texts_agree_with_a_plain_search),
        cmocka_unit_test(bad_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
