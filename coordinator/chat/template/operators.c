/* Arithmetic and the other operators on two values. Integers have 64 bits; more is an error. */
#include "coordinator/chat/template/functions.h"

#include <math.h>

static _Noreturn void too_large(struct work *w)
{
    work_fail(w, TERN_BAD_MODEL, "an integer of more than 64 bits");
}

static _Noreturn void refuse(struct work *w, char operation, struct value a, struct value b)
{
    check_defined(w, a);
    check_defined(w, b);
    work_fail(w, TERN_BAD_MODEL, "'%s' and '%s' have no operator '%s'", value_kind_name(a),
              value_kind_name(b),
              operation == 'p'   ? "**"
              : operation == 'f' ? "//"
                                 : (const char[]){operation, '\0'});
}

static struct value real_power(struct work *w, double base, double exponent)
{
    if (base == 0 && exponent < 0)
        work_fail(w, TERN_BAD_MODEL, "division by zero");
    const double power = pow(base, exponent);
    if (isfinite(base) && isfinite(exponent) && !isfinite(power))
        work_fail(w, TERN_BAD_MODEL,
                  isnan(power) ? "a root of a negative number" : "a number too large for a float");
    return value_float(power);
}

static struct value integer_power(struct work *w, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0)
        return real_power(w, (double)base, (double)exponent);
    if (base == 1 || base == 0 || base == -1)
        return value_int(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
    for (; exponent > 0; exponent--) /* at most 63 times */
        if (__builtin_mul_overflow(result, base, &result))
            too_large(w);
    return value_int(result);
}

/* Division as Python's: rounded down, the remainder with the sign of the divisor. */
static struct value integer_division(struct work *w, char operation, int64_t a, int64_t b)
{
    if (b == -1) { /* also the one quotient that does not fit */
        int64_t negated;
        if (operation == '%')
            return value_int(0);
        if (__builtin_sub_overflow((int64_t)0, a, &negated))
            too_large(w);
        return value_int(negated);
    }
    const int64_t rest = a % b, quotient = a / b;
    const bool down = rest != 0 && (rest < 0) != (b < 0);
    return value_int(operation == '%' ? rest + (down ? b : 0) : quotient - down);
}

static struct value whole_binary(struct work *w, char operation, int64_t a, int64_t b)
{
    int64_t out = 0;
    if (operation == 'p')
        return integer_power(w, a, b);
    if ((operation == '/' || operation == 'f' || operation == '%') && b == 0)
        work_fail(w, TERN_BAD_MODEL, "division by zero");
    if (operation == '/')
        return value_float((double)a / (double)b);
    if (operation == 'f' || operation == '%')
        return integer_division(w, operation, a, b);
    if (operation == '+'   ? __builtin_add_overflow(a, b, &out)
        : operation == '-' ? __builtin_sub_overflow(a, b, &out)
                           : __builtin_mul_overflow(a, b, &out))
        too_large(w);
    return value_int(out);
}

/* The quotient comes from the remainder, as in Python: 1 // 0.1 is 9, though 1 / 0.1 is 10. */
static struct value real_division(char operation, double a, double b)
{
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        rest += b;
        quotient -= 1;
    } else if (rest == 0) {
        rest = copysign(0, b);
    }
    if (operation == '%')
        return value_float(rest);
    return value_float(quotient == 0 ? copysign(0, a / b) : round(quotient));
}

static struct value real_binary(struct work *w, char operation, double a, double b)
{
    if ((operation == '/' || operation == 'f' || operation == '%') && b == 0)
        work_fail(w, TERN_BAD_MODEL, "division by zero");
    switch (operation) {
    case '+':
        return value_float(a + b);
    case '-':
        return value_float(a - b);
    case '*':
        return value_float(a * b);
    case '/':
        return value_float(a / b);
    case 'p':
        return real_power(w, a, b);
    default:
        return real_division(operation, a, b);
    }
}

static struct value repeat(struct work *w, struct value v, int64_t times)
{
    times = times < 0 ? 0 : times;
    if (v.kind == VALUE_STRING) {
        struct builder b = {0};
        if (v.text->length > 0 && (uint64_t)times > w->output_limit / v.text->length)
            work_fail(w, TERN_BAD_MODEL, "a string of more than %zu bytes; use --raw",
                      w->output_limit);
        for (int64_t i = 0; i < times && v.text->length > 0; i++)
            builder_add(w, &b, v.text);
        return value_text(builder_text(w, &b));
    }
    const struct value out = list_new(w, v.kind, v.list->count);
    for (int64_t i = 0; i < times && v.list->count > 0; i++)
        for (size_t j = 0; j < v.list->count; j++)
            list_add(w, out, v.list->item[j]);
    return out;
}

static struct value join(struct work *w, struct value a, struct value b)
{
    const struct value out = list_new(w, a.kind, a.list->count + b.list->count);
    for (size_t i = 0; i < a.list->count; i++)
        list_add(w, out, a.list->item[i]);
    for (size_t i = 0; i < b.list->count; i++)
        list_add(w, out, b.list->item[i]);
    return out;
}

static bool is_repeatable(struct value v)
{
    return v.kind == VALUE_STRING || v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}

struct value value_binary(struct work *w, char operation, struct value a, struct value b)
{
    if (operation == '~' ||
        (operation == '+' && a.kind == VALUE_STRING && b.kind == VALUE_STRING)) {
        const bool safe = operation == '+' && (a.text->safe || b.text->safe);
        struct builder out = {0};
        value_write(w, &out, safe ? value_text(text_escape(w, a.text)) : a, false);
        value_write(w, &out, safe ? value_text(text_escape(w, b.text)) : b, false);
        return value_text(text_with_safe(w, builder_text(w, &out), safe));
    }
    if (operation == '%' && a.kind == VALUE_STRING)
        return value_text(text_format(w, a.text, b));
    if (is_whole(a) && is_whole(b))
        return whole_binary(w, operation, whole_of(a), whole_of(b));
    if (is_number(a) && is_number(b))
        return real_binary(w, operation, real_of(a), real_of(b));
    if (operation == '+' && a.kind == b.kind && (a.kind == VALUE_LIST || a.kind == VALUE_TUPLE))
        return join(w, a, b);
    if (operation == '*' && is_repeatable(a) && is_whole(b))
        return repeat(w, a, whole_of(b));
    if (operation == '*' && is_repeatable(b) && is_whole(a))
        return repeat(w, b, whole_of(a));
    refuse(w, operation, a, b);
}
