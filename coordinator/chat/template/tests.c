/* What can follow "is". */
#include "coordinator/chat/template/functions.h"

#include <math.h>

typedef const struct arguments *args;

static void no_arguments(struct work *w, args given)
{
    arguments_bind(w, "test", given, (const char *const[]){NULL}, 0, NULL);
}

static struct value argument(struct work *w, args given)
{
    struct value v;
    arguments_bind(w, "test", given, (const char *const[]){"other", NULL}, 1, &v);
    return v;
}

#define KIND_TEST(name, condition)                                                                 \
    static struct value name(struct work *w, struct value v, args given)                           \
    {                                                                                              \
        no_arguments(w, given);                                                                    \
        return value_bool(condition);                                                              \
    }

KIND_TEST(is_defined, v.kind != VALUE_UNDEFINED)
KIND_TEST(is_undefined, v.kind == VALUE_UNDEFINED)
KIND_TEST(is_none, v.kind == VALUE_NONE)
KIND_TEST(is_boolean, v.kind == VALUE_BOOL)
KIND_TEST(is_true, v.kind == VALUE_BOOL && v.truth)
KIND_TEST(is_false, v.kind == VALUE_BOOL && !v.truth)
KIND_TEST(is_integer, v.kind == VALUE_INT)
KIND_TEST(is_float, v.kind == VALUE_FLOAT)
KIND_TEST(is_a_number, is_number(v))
KIND_TEST(is_string, v.kind == VALUE_STRING)
KIND_TEST(is_mapping, v.kind == VALUE_DICT)
KIND_TEST(is_iterable, value_is_iterable(v))
KIND_TEST(is_escaped, v.kind == VALUE_STRING && v.text->safe)
KIND_TEST(is_sequence, v.kind == VALUE_UNDEFINED || v.kind == VALUE_STRING ||
                           v.kind == VALUE_DICT || v.kind == VALUE_LIST || v.kind == VALUE_TUPLE ||
                           v.kind == VALUE_RANGE)
KIND_TEST(is_callable, v.kind == VALUE_UNDEFINED ||
                           (v.kind >= VALUE_LOOP && v.kind <= VALUE_METHOD) ||
                           v.kind == VALUE_JOINER)

static struct value is_remainder(struct work *w, struct value v, int64_t by, int64_t rest)
{
    return value_bool(value_equal(w, value_binary(w, '%', v, value_int(by)), value_int(rest)));
}

static struct value is_odd(struct work *w, struct value v, args given)
{
    no_arguments(w, given);
    return is_remainder(w, v, 2, 1);
}

static struct value is_even(struct work *w, struct value v, args given)
{
    no_arguments(w, given);
    return is_remainder(w, v, 2, 0);
}

static struct value is_divisible(struct work *w, struct value v, args given)
{
    return value_bool(value_equal(w, value_binary(w, '%', v, argument(w, given)), value_int(0)));
}

static struct value in_case(struct work *w, struct value v, args given, enum text_case which)
{
    no_arguments(w, given);
    const struct text *text = value_string(w, v);
    /* There must be a letter. */
    return value_bool(
        text_equal(text, text_in_case(w, text, which)) &&
        !text_equal(text_in_case(w, text, TEXT_UPPER), text_in_case(w, text, TEXT_LOWER)));
}

static struct value is_lower(struct work *w, struct value v, args given)
{
    return in_case(w, v, given, TEXT_LOWER);
}

static struct value is_upper(struct work *w, struct value v, args given)
{
    return in_case(w, v, given, TEXT_UPPER);
}

static struct value is_in(struct work *w, struct value v, args given)
{
    return value_bool(value_contains(w, argument(w, given), v));
}

static struct value is_same(struct work *w, struct value v, args given)
{
    const struct value other = argument(w, given);
    if (v.kind != other.kind)
        return value_bool(false);
    if (has_items(v) || v.kind == VALUE_DICT || v.kind == VALUE_NAMESPACE)
        return value_bool(v.list == other.list);
    return value_bool(value_equal(w, v, other));
}

static struct value is_filter(struct work *w, struct value v, args given)
{
    no_arguments(w, given);
    return value_bool(find_filter(argument_text(w, v, NULL)) != NULL);
}

static struct value is_test(struct work *w, struct value v, args given)
{
    no_arguments(w, given);
    return value_bool(find_test(argument_text(w, v, NULL)) != NULL);
}

static struct value is_equal(struct work *w, struct value v, args given)
{
    return value_bool(value_equal(w, v, argument(w, given)));
}

static struct value is_unequal(struct work *w, struct value v, args given)
{
    return value_bool(!value_equal(w, v, argument(w, given)));
}

static struct value is_less(struct work *w, struct value v, args given)
{
    return value_bool(value_compare(w, v, argument(w, given)) < 0);
}

static struct value is_at_most(struct work *w, struct value v, args given)
{
    return value_bool(value_compare(w, v, argument(w, given)) <= 0);
}

static struct value is_greater(struct work *w, struct value v, args given)
{
    return value_bool(value_compare(w, v, argument(w, given)) > 0);
}

static struct value is_at_least(struct work *w, struct value v, args given)
{
    return value_bool(value_compare(w, v, argument(w, given)) >= 0);
}

const struct function all_tests[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"boolean", is_boolean},
    {"true", is_true},
    {"false", is_false},
    {"integer", is_integer},
    {"float", is_float},
    {"number", is_a_number},
    {"string", is_string},
    {"mapping", is_mapping},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"callable", is_callable},
    {"escaped", is_escaped},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"lower", is_lower},
    {"upper", is_upper},
    {"in", is_in},
    {"sameas", is_same},
    {"filter", is_filter},
    {"test", is_test},
    {"==", is_equal},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"!=", is_unequal},
    {"ne", is_unequal},
    {"<", is_less},
    {"lt", is_less},
    {"lessthan", is_less},
    {"<=", is_at_most},
    {"le", is_at_most},
    {">", is_greater},
    {"gt", is_greater},
    {"greaterthan", is_greater},
    {">=", is_at_least},
    {"ge", is_at_least},
    {NULL, NULL},
};
