/* Statements, macros and loops. */
#include "coordinator/chat/template/evaluate.h"

#include <string.h>

static void at(struct work *w, const struct node *node)
{
    w->line = node->line;
    w->column = node->column;
}

/* ---- assignments ---- */

static void assign(struct work *w, struct frame *frame, const struct node *target,
                   struct value value)
{
    if (target->kind == NODE_NAME) {
        frame_set(w, frame, target->name, value);
        return;
    }
    at(w, target);
    if (target->kind == NODE_ATTRIBUTE) {
        const struct value object = frame_get(w, frame, target->a->name);
        if (object.kind != VALUE_NAMESPACE)
            work_fail(w, TERN_BAD_MODEL, "only attributes of a namespace can be set");
        dict_set(w, object, value_text(target->name), value);
        return;
    }
    const struct value items = value_items(w, value);
    size_t count = 0;
    work_nest(w);
    for (const struct node *one = target->a; one != NULL; one = one->next, count++) {
        if (count == items.list->count)
            work_fail(w, TERN_BAD_MODEL, "there are only %zu values to unpack", count);
        assign(w, frame, one, items.list->item[count]);
    }
    if (count != items.list->count)
        work_fail(w, TERN_BAD_MODEL, "there are %zu values to unpack to %zu names",
                  items.list->count, count);
}

struct value run_block(struct work *w, struct frame *around, const struct node *first)
{
    struct builder out = {0};
    run_statements(w, frame_new(w, around), first, &out);
    return value_text(builder_text(w, &out));
}

/* A block's text through its filters. */
static struct value filtered_block(struct work *w, struct frame *frame, const struct node *node)
{
    struct frame *inner = frame_new(w, frame);
    const struct value text = run_block(w, frame, node->d);
    if (node->c == NULL)
        return text;
    frame_set(w, inner, text_of(w, BLOCK_NAME), text);
    return evaluate(w, inner, node->c);
}

static enum flow run_with(struct work *w, struct frame *frame, const struct node *node,
                          struct builder *out)
{
    struct frame *inner = frame_new(w, frame);
    for (const struct node *set = node->a; set != NULL; set = set->next)
        frame_set(w, inner, set->a->name, evaluate(w, frame, set->b));
    return run_statements(w, inner, node->d, out);
}

/* ---- macros ---- */

static void bind_parameter(struct work *w, struct frame *frame, const struct node *parameter,
                           size_t place, const struct arguments *given, bool *used)
{
    if (place < given->positional) {
        frame_set(w, frame, parameter->name, given->item[place].value);
        return;
    }
    work_spend(w, given->count);
    for (size_t i = given->positional; i < given->count; i++)
        if (text_equal(given->item[i].name, parameter->name)) {
            frame_set(w, frame, parameter->name, given->item[i].value);
            used[i] = true;
            return;
        }
    frame_set(w, frame, parameter->name,
              parameter->a == NULL ? value_undefined(parameter->name)
                                   : evaluate(w, frame, parameter->a));
}

struct value call_macro(struct work *w, const struct macro *macro, const struct arguments *given)
{
    struct frame *frame = frame_new(w, macro->frame);
    bool *used = work_take(w, given->count + 1);
    size_t count = 0;
    work_nest(w);
    for (const struct node *p = macro->node->a; p != NULL; p = p->next)
        bind_parameter(w, frame, p, count++, given, used);
    const struct value more = list_new(w, VALUE_TUPLE, 0), named = dict_new(w, VALUE_DICT, 0);
    for (size_t i = 0; i < given->count; i++) {
        const struct argument *argument = &given->item[i];
        if (argument->name == NULL && i >= count)
            list_add(w, more, argument->value);
        else if (argument->name != NULL && text_is(argument->name, "caller"))
            frame_set(w, frame, argument->name, argument->value);
        else if (argument->name != NULL && !used[i])
            dict_set(w, named, value_text(argument->name), argument->value);
    }
    frame_set(w, frame, text_of(w, "varargs"), more);
    frame_set(w, frame, text_of(w, "kwargs"), named);
    struct builder out = {0};
    run_statements(w, frame, macro->node->d, &out);
    return value_text(builder_text(w, &out));
}

static struct value new_macro(struct work *w, struct frame *frame, const struct node *node)
{
    struct macro *macro = work_take(w, sizeof *macro);
    *macro = (struct macro){.node = node, .frame = frame};
    return (struct value){.kind = VALUE_MACRO, .macro = macro};
}

/* {% call f(...) %}: f gets the block as its "caller". The call's own arguments come from a node
 * that has one argument more, made here because the parsed template does not change. */
static struct value run_call_block(struct work *w, struct frame *frame, const struct node *node)
{
    static const char caller[] = "caller";
    struct frame *inner = frame_new(w, frame);
    frame_set(w, inner, text_of(w, BLOCK_NAME), new_macro(w, frame, node->c));
    struct node *name = work_take(w, sizeof *name), *argument = work_take(w, sizeof *argument);
    *name = (struct node){.kind = NODE_NAME, .name = text_of(w, BLOCK_NAME)};
    *argument = (struct node){.kind = NODE_ARGUMENT, .name = text_of(w, caller), .a = name};
    struct node call = *node->a, **last = &call.b;
    for (const struct node *old = node->a->b; old != NULL; old = old->next) {
        *last = work_take(w, sizeof **last);
        **last = *old;
        last = &(*last)->next;
    }
    *last = argument;
    return evaluate(w, inner, &call);
}

/* ---- loops ---- */

/* Those items for which the loop's condition holds. */
static struct value chosen_items(struct work *w, struct frame *frame, const struct node *node,
                                 struct value all)
{
    const struct value chosen = list_new(w, VALUE_LIST, 0);
    for (size_t i = 0; i < all.list->count; i++) {
        struct frame *inner = frame_new(w, frame);
        assign(w, inner, node->a, all.list->item[i]);
        if (evaluate_test(w, inner, node->c))
            list_add(w, chosen, all.list->item[i]);
    }
    return chosen;
}

enum flow run_loop(struct work *w, struct frame *frame, const struct node *node, struct value over,
                   size_t depth, struct builder *out)
{
    struct value items = value_items(w, over);
    if (node->c != NULL)
        items = chosen_items(w, frame, node, items);
    struct loop *loop = work_take(w, sizeof *loop);
    *loop = (struct loop){.items = items.list, .node = node, .frame = frame, .depth = depth};
    const struct text *name = text_of(w, "loop");
    bool completed = false; /* a round of it, without break or continue: jinja2 asks for that */
    for (; loop->index < items.list->count; loop->index++) {
        struct frame *inner = frame_new(w, frame);
        frame_set(w, inner, name, (struct value){.kind = VALUE_LOOP, .loop = loop});
        assign(w, inner, node->a, items.list->item[loop->index]);
        const enum flow flow = run_statements(w, inner, node->d, out);
        completed |= flow == FLOW_ON;
        if (flow == FLOW_BREAK)
            break;
    }
    if (completed || node->e == NULL)
        return FLOW_ON;
    return run_statements(w, frame_new(w, frame), node->e, out);
}

static enum flow run_if(struct work *w, struct frame *frame, const struct node *node,
                        struct builder *out)
{
    while (node != NULL && node->kind == NODE_IF) {
        if (evaluate_test(w, frame, node->a))
            return run_statements(w, frame, node->d, out);
        if (node->e == NULL || node->e->kind != NODE_IF || node->e->next != NULL)
            return run_statements(w, frame, node->e, out);
        node = node->e; /* elif, without nesting */
    }
    return FLOW_ON;
}

static enum flow run_statement(struct work *w, struct frame *frame, const struct node *node,
                               struct builder *out)
{
    switch (node->kind) {
    case NODE_TEXT:
        builder_add(w, out, node->name);
        return FLOW_ON;
    case NODE_PRINT:
        value_write(w, out, evaluate(w, frame, node->a), false);
        return FLOW_ON;
    case NODE_FOR:
        return run_loop(w, frame, node, evaluate(w, frame, node->b), 0, out);
    case NODE_IF:
        return run_if(w, frame, node, out);
    case NODE_SET:
        assign(w, frame, node->a,
               node->b == NULL ? filtered_block(w, frame, node) : evaluate(w, frame, node->b));
        return FLOW_ON;
    case NODE_MACRO:
        frame_set(w, frame, node->name, new_macro(w, frame, node));
        return FLOW_ON;
    case NODE_CALL_BLOCK:
        value_write(w, out, run_call_block(w, frame, node), false);
        return FLOW_ON;
    case NODE_FILTER_BLOCK:
        value_write(w, out, filtered_block(w, frame, node), false);
        return FLOW_ON;
    case NODE_WITH:
        return run_with(w, frame, node, out);
    case NODE_GROUP:
        return run_statements(w, frame_new(w, frame), node->d, out);
    default:
        return node->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
    }
}

enum flow run_statements(struct work *w, struct frame *frame, const struct node *first,
                         struct builder *out)
{
    work_nest(w);
    for (const struct node *node = first; node != NULL; node = node->next) {
        at(w, node);
        work_spend(w, 1);
        const enum flow flow = run_statement(w, frame, node, out);
        if (flow != FLOW_ON)
            return flow;
    }
    return FLOW_ON;
}
