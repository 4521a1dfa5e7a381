/* The ladder: the table that is asked for is the one that comes, complete, and no lower tier's
 * products hide in a higher one. */
#include "tests/kernels/check.h"

static void test_tiers(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TERN_TIERS; i++) {
        const enum tern_tier tier = (enum tern_tier)i;
        const struct tern_kernels *k = tern_kernels(tier);
        if (tier > tern_best_tier()) {
            assert_null(k);
            continue;
        }
        assert_non_null(k);
        assert_int_equal(k->tier, tier);
        assert_string_equal(k->name, tern_tier_name(tier));
    }
    assert_null(tern_kernels(TERN_TIERS));
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[TERN_TIERS] = {"scalar", "avx2", "avx512", "avx512vnni"};
    enum tern_tier tier;
    for (unsigned i = 0; i < TERN_TIERS; i++) {
        assert_string_equal(tern_tier_name((enum tern_tier)i), names[i]);
        assert_true(tern_tier_parse(names[i], &tier));
        assert_int_equal(tier, i);
    }
    assert_false(tern_tier_parse("avx", &tier));
    assert_false(tern_tier_parse("", &tier));
}

/* Every type that can be computed has a product of the tier's own. */
static void test_products(void **state)
{
    (void)state;
    for (unsigned i = 0; i <= (unsigned)tern_best_tier(); i++) {
        const struct tern_kernels *k = tern_kernels((enum tern_tier)i);
        for (uint32_t type = 0; type < TERN_TYPE_LIMIT; type++) {
            const struct tern_type_info *info = tern_type_info(type);
            const bool needed = info != NULL && info->kernels;
            assert_int_equal(k->matmul[type] != NULL, needed);
            for (unsigned below = 0; below < i && needed; below++)
                assert_ptr_not_equal(k->matmul[type],
                                     tern_kernels((enum tern_tier)below)->matmul[type]);
        }
        assert_true(k->row_chunk > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
