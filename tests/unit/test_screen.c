/* What a model's text becomes on a terminal. */
#include "cmd/tern/screen.h"
#include "proto/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The text in pieces of `piece` bytes must become `expected`. */
static void check(const char *text, size_t length, size_t piece, const char *expected)
{
    struct screen screen = {0};
    char out[512], part[SCREEN_ROOM(64)];
    size_t total = 0;
    for (size_t i = 0; i < length; i += piece) {
        const size_t bytes = length - i < piece ? length - i : piece;
        const size_t cleaned = screen_clean(&screen, text + i, bytes, part);
        assert_true(cleaned <= SCREEN_ROOM(bytes));
        memcpy(out + total, part, cleaned);
        total += cleaned;
    }
    out[total] = '\0';
    assert_string_equal(out, expected);
}

static void check_pieces(const char *text, const char *expected)
{
    for (size_t piece = 1; piece <= 7; piece++)
        check(text, strlen(text), piece, expected);
}

static void plain_text_stays(void **state)
{
    (void)state;
    check_pieces("a\tb\n\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "a\tb\n\xC3\xA9 \xE2\x82\xAC "
                                                                 "\xF0\x9F\x98\x80");
}

static void controls_are_made_visible(void **state)
{
    (void)state;
    check_pieces("\033[2J\007\r\x7F", "\xE2\x90\x9B[2J\xE2\x90\x87\xE2\x90\x8D\xE2\x90\xA1");
    check_pieces("\xC2\x9B"
                 "2J\xC2\xA0",
                 "\xEF\xBF\xBD"
                 "2J\xC2\xA0"); /* CSI of one character; a no-break space is none */
    check("\0", 1, 1, "\xE2\x90\x80");
}

static void bytes_that_are_no_text(void **state)
{
    (void)state;
    check_pieces("\x9B"
                 "2J\xE2\x82"
                 "A\xC2\x1B",
                 "\xEF\xBF\xBD"
                 "2J\xEF\xBF\xBD\xEF\xBF\xBD"
                 "A\xEF\xBF\xBD\xE2\x90\x9B");
}

/* Whatever the bytes, nothing is left that a terminal obeys. */
static void random_bytes(void **state)
{
    struct screen screen = {0};
    char text[64], out[SCREEN_ROOM(64) + 1];
    uint32_t random = 1;
    (void)state;
    for (int round = 0; round < 5000; round++) {
        for (size_t i = 0; i < sizeof text; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = (char)(random >> 24);
        }
        const size_t length = screen_clean(&screen, text, 1 + (random >> 8) % 64, out);
        out[length] = '\0';
        assert_true(tern_utf8_valid(out, length));
        for (size_t i = 0; i < length; i++)
            assert_true(tern_utf8_control(out + i) == 0 || out[i] == '\n' || out[i] == '\t');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_stays),
        cmocka_unit_test(controls_are_made_visible),
        cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
