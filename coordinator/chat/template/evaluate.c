/* Expressions. */
#include "coordinator/chat/template/evaluate.h"

#include "coordinator/chat/template/functions.h"

#include <string.h>

static void at(struct work *w, const struct node *node)
{
    w->line = node->line;
    w->column = node->column;
}

void frame_set(struct work *w, struct frame *frame, const struct text *name, struct value value)
{
    for (struct variable *v = frame->newest; v != NULL; v = v->older) {
        work_spend(w, 1);
        if (text_equal(v->name, name)) {
            v->value = value;
            return;
        }
    }
    struct variable *v = work_take(w, sizeof *v);
    *v = (struct variable){.older = frame->newest, .name = name, .value = value};
    frame->newest = v;
}

struct value frame_get(struct work *w, const struct frame *frame, const struct text *name)
{
    for (; frame != NULL; frame = frame->around)
        for (const struct variable *v = frame->newest; v != NULL; v = v->older) {
            work_spend(w, 1);
            if (text_equal(v->name, name))
                return v->value;
        }
    const struct function *global = find_global(name);
    if (global != NULL)
        return (struct value){.kind = VALUE_FUNCTION, .function = global};
    return value_undefined(name);
}

struct frame *frame_new(struct work *w, struct frame *around)
{
    struct frame *frame = work_take(w, sizeof *frame);
    frame->around = around;
    return frame;
}

static struct value items(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value list = list_new(w, node->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE, 2);
    for (const struct node *item = node->a; item != NULL; item = item->next)
        list_add(w, list, evaluate(w, frame, item));
    return list;
}

static struct value pairs(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value dict = dict_new(w, VALUE_DICT, 2);
    for (const struct node *key = node->a; key != NULL; key = key->next->next) {
        const struct value k = evaluate(w, frame, key);
        dict_set(w, dict, k, evaluate(w, frame, key->next));
    }
    return dict;
}

/* ---- calls ---- */

static void add_argument(struct work *w, struct arguments *to, size_t *room, struct argument one)
{
    to->item = work_grow(w, to->item, to->count, room, sizeof *to->item);
    if (one.name == NULL && to->positional < to->count) { /* after f(a=1, *b) */
        memmove(to->item + to->positional + 1, to->item + to->positional,
                (to->count - to->positional) * sizeof *to->item);
        work_spend(w, 1 + to->count / 4);
    }
    to->item[one.name == NULL ? to->positional : to->count] = one;
    to->positional += one.name == NULL;
    to->count++;
    work_spend(w, 1);
}

static void unpack(struct work *w, struct arguments *to, size_t *room, char operation,
                   struct value v)
{
    if (operation == '*') {
        const struct value list = value_items(w, v);
        for (size_t i = 0; i < list.list->count; i++)
            add_argument(w, to, room, (struct argument){.value = list.list->item[i]});
        return;
    }
    if (v.kind != VALUE_DICT)
        work_fail(w, TERN_BAD_MODEL, "only a dict can follow **, not '%s'", value_kind_name(v));
    for (size_t i = 0; i < v.dict->count; i++)
        add_argument(w, to, room,
                     (struct argument){.name = argument_text(w, v.dict->pair[i].key, NULL),
                                       .value = v.dict->pair[i].value});
}

static struct arguments arguments(struct work *w, struct frame *frame, const struct node *first)
{
    struct arguments out = {0};
    size_t room = 0;
    for (const struct node *node = first; node != NULL; node = node->next) {
        const struct value v = evaluate(w, frame, node->a);
        if (node->operation != '\0')
            unpack(w, &out, &room, node->operation, v);
        else
            add_argument(w, &out, &room, (struct argument){.name = node->name, .value = v});
    }
    return out;
}

static struct value call_loop(struct work *w, const struct loop *loop,
                              const struct arguments *given)
{
    struct value items_given;
    arguments_bind(w, "loop", given, (const char *const[]){"iterable", NULL}, 1, &items_given);
    if (loop->node->operation != 'r')
        work_fail(w, TERN_BAD_MODEL, "the loop is not recursive");
    struct builder out = {0};
    run_loop(w, loop->frame, loop->node, items_given, loop->depth + 1, &out);
    return value_text(builder_text(w, &out));
}

struct value call_value(struct work *w, struct value callee, const struct arguments *given)
{
    work_nest(w);
    switch (callee.kind) {
    case VALUE_FUNCTION:
        return callee.function->call(w, value_of(VALUE_ABSENT), given);
    case VALUE_METHOD:
        return callee.method->function->call(w, callee.method->self, given);
    case VALUE_MACRO:
        return call_macro(w, callee.macro, given);
    case VALUE_LOOP:
        return call_loop(w, callee.loop, given);
    case VALUE_JOINER: /* nothing at first, then its text */
        return callee.list->next++ == 0 ? value_literal(w, "") : callee.list->item[0];
    default:
        check_defined(w, callee);
        work_fail(w, TERN_BAD_MODEL, "'%s' is not callable", value_kind_name(callee));
    }
}

static struct value call(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value callee = evaluate(w, frame, node->a);
    if (callee.kind == VALUE_UNDEFINED && node->a->kind == NODE_NAME) {
        at(w, node->a);
        work_fail(w, TERN_UNSUPPORTED, "there is no function '%.*s'; use --raw",
                  (int)(node->a->name->length < 100 ? node->a->name->length : 100),
                  node->a->name->bytes);
    }
    const struct arguments given = arguments(w, frame, node->b);
    at(w, node);
    return call_value(w, callee, &given);
}

static struct value filter(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value v = evaluate(w, frame, node->a);
    const struct arguments given = arguments(w, frame, node->b);
    at(w, node);
    return apply_filter(w, node->name, v, &given);
}

static struct value test(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value v = evaluate(w, frame, node->a);
    const struct arguments given = arguments(w, frame, node->b);
    at(w, node);
    return value_bool(apply_test(w, node->name, v, &given));
}

/* ---- operators ---- */

static bool holds(struct work *w, char operation, struct value a, struct value b)
{
    switch (operation) {
    case 'e':
        return value_equal(w, a, b);
    case 'u':
        return !value_equal(w, a, b);
    case 'i':
        return value_contains(w, b, a);
    case 'n':
        return !value_contains(w, b, a);
    case '<':
        return value_compare(w, a, b) < 0;
    case '>':
        return value_compare(w, a, b) > 0;
    case 'l':
        return value_compare(w, a, b) <= 0;
    default:
        return value_compare(w, a, b) >= 0;
    }
}

static struct value comparison(struct work *w, struct frame *frame, const struct node *node)
{
    struct value left = evaluate(w, frame, node->a);
    for (const struct node *operand = node->b; operand != NULL; operand = operand->next) {
        const struct value right = evaluate(w, frame, operand->a);
        at(w, operand);
        if (!holds(w, operand->operation, left, right))
            return value_bool(false);
        left = right;
    }
    return value_bool(true);
}

static struct value sign(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value v = evaluate(w, frame, node->a);
    at(w, node);
    if (!is_number(v))
        work_fail(w, TERN_BAD_MODEL, "'%s' has no sign", value_kind_name(v));
    if (v.kind == VALUE_FLOAT)
        return value_float(node->operation == '-' ? -v.real : v.real);
    return value_binary(w, node->operation, value_int(0), v);
}

static struct value slice(struct work *w, struct frame *frame, const struct node *node)
{
    const struct node *const nodes[] = {node->b, node->c, node->d};
    const struct value v = evaluate(w, frame, node->a);
    struct value part[3];
    for (size_t i = 0; i < 3; i++)
        part[i] = nodes[i] == NULL ? value_of(VALUE_NONE) : evaluate(w, frame, nodes[i]);
    at(w, node);
    return value_slice(w, v, part);
}

static struct value item(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value v = evaluate(w, frame, node->a);
    const struct value key = evaluate(w, frame, node->b);
    at(w, node);
    return value_item(w, v, key);
}

static struct value binary(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value a = evaluate(w, frame, node->a);
    const struct value b = evaluate(w, frame, node->b);
    at(w, node);
    return value_binary(w, node->operation, a, b);
}

static struct value choice(struct work *w, struct frame *frame, const struct node *node)
{
    if (evaluate_test(w, frame, node->b))
        return evaluate(w, frame, node->a);
    if (node->c != NULL)
        return evaluate(w, frame, node->c);
    return value_undefined(text_of(w, "the value of an if without else"));
}

static struct value attribute(struct work *w, struct frame *frame, const struct node *node)
{
    const struct value v = evaluate(w, frame, node->a);
    at(w, node);
    return value_attribute(w, v, node->name);
}

struct value evaluate(struct work *w, struct frame *frame, const struct node *node)
{
    at(w, node);
    work_nest(w);
    switch (node->kind) {
    case NODE_CONST:
        return node->value;
    case NODE_NAME:
        return frame_get(w, frame, node->name);
    case NODE_LIST:
    case NODE_TUPLE:
        return items(w, frame, node);
    case NODE_DICT:
        return pairs(w, frame, node);
    case NODE_ATTRIBUTE:
        return attribute(w, frame, node);
    case NODE_ITEM:
        return item(w, frame, node);
    case NODE_SLICE:
        return slice(w, frame, node);
    case NODE_CALL:
        return call(w, frame, node);
    case NODE_FILTER:
        return filter(w, frame, node);
    case NODE_TEST:
        return test(w, frame, node);
    case NODE_NOT:
        return value_bool(!evaluate_test(w, frame, node->a));
    case NODE_SIGN:
        return sign(w, frame, node);
    case NODE_CHOICE:
        return choice(w, frame, node);
    case NODE_BINARY:
        return binary(w, frame, node);
    case NODE_COMPARE:
        return comparison(w, frame, node);
    default: { /* NODE_AND, NODE_OR: one of the two values */
        const struct value a = evaluate(w, frame, node->a);
        return value_truth(a) == (node->kind == NODE_AND) ? evaluate(w, frame, node->b) : a;
    }
    }
}

bool evaluate_test(struct work *w, struct frame *frame, const struct node *node)
{
    return value_truth(evaluate(w, frame, node));
}
