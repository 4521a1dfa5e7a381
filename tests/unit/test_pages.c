/* coordinator/schedule/pages: every page once, used ones first. */
#include "coordinator/schedule/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COUNT = 100 };

static void every_page_is_taken_once(void **state)
{
    (void)state;
    struct tern_pages *pages = tern_pages_new(COUNT);
    bool seen[COUNT] = {false};
    uint32_t page;
    assert_non_null(pages);
    assert_int_equal(tern_pages_count(pages), COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(tern_pages_available(pages), COUNT - i);
        assert_true(tern_pages_take(pages, &page));
        assert_in_range(page, 0, COUNT - 1);
        assert_false(seen[page]);
        seen[page] = true;
    }
    assert_false(tern_pages_take(pages, &page));
    tern_pages_free(pages);
}

static void used_pages_come_first(void **state)
{
    (void)state;
    struct tern_pages *pages = tern_pages_new(COUNT);
    uint32_t first, second, again;
    assert_true(tern_pages_take(pages, &first));
    assert_true(tern_pages_take(pages, &second));
    assert_int_equal(first, 0);
    tern_pages_give(pages, second);
    tern_pages_give(pages, first);
    assert_true(tern_pages_take(pages, &again));
    assert_int_equal(again, first);
    assert_true(tern_pages_take(pages, &again));
    assert_int_equal(again, second);
    assert_int_equal(tern_pages_available(pages), COUNT - 2);
    tern_pages_free(pages);
}

/* Of a sequence the pages of its first positions: the others may be untouched. */
static void the_first_of_a_sequence_come_first(void **state)
{
    (void)state;
    struct tern_pages *pages = tern_pages_new(COUNT);
    uint32_t list[4], again;
    for (int i = 0; i < 4; i++)
        assert_true(tern_pages_take(pages, &list[i]));
    tern_pages_give_all(pages, list, 4);
    assert_int_equal(tern_pages_available(pages), COUNT);
    for (int i = 0; i < 4; i++) {
        assert_true(tern_pages_take(pages, &again));
        assert_int_equal(again, list[i]);
    }
    tern_pages_free(pages);
}

static void positions_fill_pages(void **state)
{
    (void)state;
    assert_int_equal(tern_pages_for(0), 0);
    assert_int_equal(tern_pages_for(1), 1);
    assert_int_equal(tern_pages_for(64), 1);
    assert_int_equal(tern_pages_for(65), 2);
    assert_int_equal(tern_pages_for(1 << 20), 16384);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_is_taken_once),
        cmocka_unit_test(used_pages_come_first),
        cmocka_unit_test(the_first_of_a_sequence_come_first),
        cmocka_unit_test(positions_fill_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
