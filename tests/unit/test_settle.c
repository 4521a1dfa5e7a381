/* coordinator/model/settle: waiting for memory that was given back, and for how long. */
#include "coordinator/model/settle.h"
#include "proto/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND 1000000000ull
#define FAR    ((uint64_t)1 << 50) /* more bytes than ever come back */

/* Room is what the reserve leaves. */
static void set_room(bool any)
{
    setenv("TERN_RESERVE_MIB", any ? "0" : "17592186044415", 1);
}

static void waits_for_a_bounded_time(void **state)
{
    (void)state;
    struct tern_settling settling = {0};
    set_room(true);
    assert_false(tern_settle_waits(&settling, false));
    tern_settle_expect(&settling, FAR);
    assert_true(tern_settle_waits(&settling, true));
    assert_true(tern_settle_waits(&settling, false));
    settling.since_ns -= 3 * SECOND; /* the kernel had its time */
    assert_true(tern_settle_waits(&settling, true));
    assert_false(tern_settle_waits(&settling, false));
    tern_settle_expect(&settling, FAR);
    settling.since_ns -= 6 * SECOND; /* so had the worker */
    assert_false(tern_settle_waits(&settling, true));
}

static void what_came_back_is_not_waited_for(void **state)
{
    (void)state;
    struct tern_settling settling = {0};
    set_room(false);
    tern_settle_expect(&settling, 1);
    set_room(true);
    assert_false(tern_settle_waits(&settling, false));
}

/* What there was room for long ago is no measure any more. */
static void old_expectations_are_forgotten(void **state)
{
    (void)state;
    struct tern_settling settling = {0};
    tern_settle_expect(&settling, FAR);
    settling.since_ns -= 3600 * SECOND;
    set_room(false);
    tern_settle_expect(&settling, 0);
    assert_false(tern_settle_waits(&settling, false));
    tern_settle_expect(&settling, FAR);
    tern_settle_expect(&settling, 0); /* soon after: both are waited for */
    assert_true(tern_settle_waits(&settling, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_a_bounded_time),
        cmocka_unit_test(what_came_back_is_not_waited_for),
        cmocka_unit_test(old_expectations_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
