#include "tests/unit/token_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void check_ids(const struct tern_tokenizer *tokenizer, const struct tern_text *pieces, size_t count,
               bool add_special, const char *wanted)
{
    struct tern_ids ids;
    struct tern_error error;
    assert_int_equal(tern_tokenize(tokenizer, pieces, count, add_special, &ids, &error), TERN_OK);
    char got[1024] = "";
    for (size_t i = 0; i < ids.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), i == 0 ? "%u" : " %u", ids.id[i]);
    tern_ids_free(&ids);
    assert_string_equal(got, wanted);
}

void check_text(const struct tern_tokenizer *tokenizer, const char *text, bool special,
                const char *wanted)
{
    const struct tern_text piece = {
        .bytes = text, .length = strlen(text), .parse_special = special};
    check_ids(tokenizer, &piece, 1, false, wanted);
}
