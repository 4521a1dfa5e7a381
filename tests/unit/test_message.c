/* proto/message: round trips, limits, and every kind of damage to a message. */
#include "proto/message.h"
#include "proto/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *pack_example(size_t *size)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_GENERATE);
    tern_pack_u64(&pack, TERN_F_REQUEST, UINT64_MAX);
    tern_pack_text(&pack, TERN_F_MODEL, "/a/b.gguf");
    tern_pack_f64(&pack, TERN_F_TEMP, 0.5);
    tern_pack_bool(&pack, TERN_F_RAW, true);
    tern_pack_bytes(&pack, TERN_F_TOKENS, "\1\0\0\0", 4);
    const void *bytes = tern_pack_end(&pack, size);
    assert_non_null(bytes);
    void *copy = malloc(*size);
    memcpy(copy, bytes, *size);
    tern_pack_free(&pack);
    return copy;
}

static void round_trip(void **state)
{
    (void)state;
    size_t size, length;
    void *bytes = pack_example(&size);
    struct tern_message m;
    struct tern_error error;
    assert_int_equal(tern_message_parse(bytes, size, &m, &error), TERN_OK);
    assert_int_equal(m.kind, TERN_MSG_GENERATE);
    assert_true(tern_message_u64(&m, TERN_F_REQUEST, 0) == UINT64_MAX);
    assert_true(tern_message_f64(&m, TERN_F_TEMP, 9) == 0.5);
    assert_true(tern_message_bool(&m, TERN_F_RAW));
    assert_false(tern_message_bool(&m, TERN_F_CHAT));
    assert_memory_equal(tern_message_text(&m, TERN_F_TOKENS, &length), "\1\0\0\0", 4);
    assert_int_equal(length, 4);
    assert_null(tern_message_text(&m, TERN_F_PROMPT, &length));
    char *model = tern_message_copy(&m, TERN_F_MODEL);
    assert_string_equal(model, "/a/b.gguf");
    free(model);
    free(bytes);
}

static void every_prefix_is_refused(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = pack_example(&size);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *exact = malloc(cut + 1); /* so that a sanitizer sees a read past the end */
        memcpy(exact, bytes, cut);
        struct tern_message m;
        struct tern_error error;
        assert_int_equal(tern_message_parse(exact, cut, &m, &error), TERN_USAGE);
        free(exact);
    }
    free(bytes);
}

static void flipped_bytes_never_break_it(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = pack_example(&size);
    for (size_t i = 0; i < size; i++)
        for (int value = 0; value < 256; value++) {
            const uint8_t old = bytes[i];
            bytes[i] = (uint8_t)value;
            struct tern_message m;
            struct tern_error error;
            const enum tern_status status = tern_message_parse(bytes, size, &m, &error);
            assert_true(status == TERN_OK || status == TERN_USAGE);
            bytes[i] = old;
        }
    free(bytes);
}

static void refuses(const char *bytes, size_t size, const char *expect)
{
    struct tern_message m;
    struct tern_error error;
    assert_int_equal(tern_message_parse(bytes, size, &m, &error), TERN_USAGE);
    if (strstr(error.message, expect) == NULL)
        fail_msg("'%s' does not mention '%s'", error.message, expect);
}

static void bad_fields_are_named(void **state)
{
    (void)state;
#define START "\xa1v\x01\xa1k\xa4ping"
    refuses("\x83" START "\xa7"
            "threads\xcd\x02\x01",
            11 + 8 + 3 - 1, "threads"); /* 513 */
    refuses("\x83" START "\xa7"
            "threads\xff",
            10 + 8 + 1, "threads");
    refuses("\x83" START "\xa5"
            "model\xa2\xc3\x28",
            10 + 6 + 3, "model");
    refuses("\x83" START "\xa5"
            "wrong\x01",
            10 + 6 + 1, "wrong");
    refuses("\x84" START "\xa1n\x01\xa1n\x01", 10 + 3 + 3, "'n'");
    refuses("\x83" START "\xa1v\x01", 11 + 3, "'v' appears twice");
    refuses("\x83" START "\xa1k\xa4ping", 11 + 2 + 5, "'k' appears twice");
    refuses("\x81\xa1v\x02", 4, "version");
    refuses("\x81\xa1v\x01", 4, "missing");
#undef START
}

static void utf8_rules(void **state)
{
    (void)state;
    assert_true(tern_utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10));
    assert_false(tern_utf8_valid("\xc0\x80", 2));         /* overlong */
    assert_false(tern_utf8_valid("\xed\xa0\x80", 3));     /* surrogate */
    assert_false(tern_utf8_valid("\xf4\x90\x80\x80", 4)); /* above U+10FFFF */
    assert_false(tern_utf8_valid("\xe2\x82", 2));
    assert_int_equal(tern_utf8_complete("a\xe2\x82", 3), 1);
    assert_int_equal(tern_utf8_complete("a\xf0\x9f\x98", 4), 1);
    assert_int_equal(tern_utf8_complete("a\xe2\x28", 3), 3); /* can never become a character */
    assert_int_equal(tern_utf8_complete("\x80\x80\x80\x80", 4), 4);
}

static void messages_command_no_terminal(void **state)
{
    (void)state;
    struct tern_error error;
    tern_fail(&error, TERN_USAGE,
              "a\033[2Jb\177c\xc2\x9b"
              "2Jd\xc2\xa0\xc3\xa9");
    assert_string_equal(error.message, "a?[2Jb?c??2Jd\xc2\xa0\xc3\xa9");
    tern_fail(&error, TERN_USAGE, "\n\xc3\xa9\xff");
    assert_string_equal(error.message, "????");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(flipped_bytes_never_break_it),
        cmocka_unit_test(bad_fields_are_named),
        cmocka_unit_test(utf8_rules),
        cmocka_unit_test(messages_command_no_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
