/* How large a model may be made, and what is said where it does not fit. */
#include "coordinator/model/size.h"
#include "proto/tensor.h"
#include "tests/unit/model_catalog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tern_error error;

/* Refused with this remedy where `missing` bytes of the least that it needs are not there. */
static void refuse(const struct tern_options *options, uint64_t missing, const char *remedy)
{
    static struct model model;
    struct open_catalog open;
    struct tern_sizes sizes;
    struct tern_size_choice choice;
    model_make(&model, "llama", 2, TERN_Q8_0);
    model_open(&model, &open);
    const uint32_t context = options->context != 0 ? (uint32_t)options->context : 256;
    assert_int_equal(tern_sizes_read(open.catalog, options, context, &sizes, &error), TERN_OK);
    assert_true(sizes.activations > 4096);
    assert_true(sizes.total > sizes.activations + 4096);
    const uint64_t room = sizes.total - (missing != 0 ? missing : sizes.activations + 4096);
    assert_int_equal(tern_choose_size(open.catalog, options, room, &choice, &error),
                     TERN_NO_MEMORY);
    const char *found = strstr(error.message, "; ");
    assert_non_null(found);
    assert_string_equal(found + 2, remedy);
    model_close(&open);
}

/* Smaller batches are only named where they would do. */
static void remedies_are_those_that_help(void **state)
{
    (void)state;
    struct tern_options options = {.tier = -1};
    refuse(&options, 4096, "use a smaller --batch or free memory");
    refuse(&options, 0, "free memory");
    options.context = 512;
    refuse(&options, 4096, "use a smaller --ctx or --batch, or free memory");
    refuse(&options, 0, "use a smaller --ctx or free memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(remedies_are_those_that_help)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
