/* The parts of expressions between operators: literals, indices, calls, filters, tests. */
#include "coordinator/chat/template/parse.h"

#include <stdio.h>

void parse_advance(struct parser *p)
{
    p->token = lex_next(p->work, &p->lexer);
}

void parse_unexpected(struct parser *p, const char *wanted)
{
    const struct token *t = &p->token;
    char seen[64] = "the end of the tag";
    if (t->kind == TOKEN_NAME)
        snprintf(seen, sizeof seen, "'%.*s'", (int)(t->text->length < 40 ? t->text->length : 40),
                 t->text->bytes);
    else if (t->kind == TOKEN_OPERATOR)
        snprintf(seen, sizeof seen, "the operator '%c'", t->operation);
    else if (t->kind == TOKEN_STRING)
        snprintf(seen, sizeof seen, "a string");
    else if (t->kind == TOKEN_NUMBER)
        snprintf(seen, sizeof seen, "a number");
    else if (t->kind == TOKEN_END)
        snprintf(seen, sizeof seen, "the end of the template");
    p->work->line = t->line;
    p->work->column = t->column;
    work_fail(p->work, TERN_BAD_MODEL, "%s where there should be %s", seen, wanted);
}

struct node *parse_node(struct parser *p, enum node_kind kind)
{
    struct node *node = work_take(p->work, sizeof *node);
    node->kind = kind;
    node->line = p->token.line;
    node->column = p->token.column;
    return node;
}

bool parse_sees(const struct parser *p, char operation)
{
    return p->token.kind == TOKEN_OPERATOR && p->token.operation == operation;
}

bool parse_sees_word(const struct parser *p, const char *word)
{
    return p->token.kind == TOKEN_NAME && text_is(p->token.text, word);
}

bool parse_take(struct parser *p, char operation)
{
    const bool sees = parse_sees(p, operation);
    if (sees)
        parse_advance(p);
    return sees;
}

bool parse_take_word(struct parser *p, const char *word)
{
    const bool sees = parse_sees_word(p, word);
    if (sees)
        parse_advance(p);
    return sees;
}

void parse_expect(struct parser *p, char operation)
{
    const char wanted[] = {'\'', operation, '\'', '\0'};
    if (!parse_take(p, operation))
        parse_unexpected(p, wanted);
}

const struct text *parse_name(struct parser *p)
{
    if (p->token.kind != TOKEN_NAME)
        parse_unexpected(p, "a name");
    const struct text *name = p->token.text;
    parse_advance(p);
    return name;
}

/* ---- lists of things ---- */

bool parse_another(struct parser *p, bool first, char end)
{
    if (parse_take(p, end))
        return false;
    if (first)
        return true;
    parse_expect(p, ',');
    return !parse_take(p, end);
}

/* The items of a list or dict literal up to `end`. */
static struct node *items(struct parser *p, char end, bool pairs)
{
    struct node *first = NULL, **last = &first;
    while (parse_another(p, first == NULL, end)) {
        *last = parse_expression(p);
        last = &(*last)->next;
        if (pairs) {
            parse_expect(p, ':');
            *last = parse_expression(p);
            last = &(*last)->next;
        }
    }
    return first;
}

static bool ends_tuple(const struct parser *p)
{
    return p->token.kind == TOKEN_CLOSE_BLOCK || p->token.kind == TOKEN_CLOSE_PRINT ||
           parse_sees(p, ')') || parse_sees(p, ']') || parse_sees(p, '=') ||
           parse_sees_word(p, "recursive");
}

struct node *parse_tuple(struct parser *p, bool choices)
{
    struct node *tuple = parse_node(p, NODE_TUPLE), **last = &tuple->a;
    if (parse_sees(p, ')'))
        return tuple;
    for (;;) {
        *last = choices ? parse_expression(p) : parse_or(p);
        last = &(*last)->next;
        if (!parse_take(p, ','))
            return tuple->a->next == NULL ? tuple->a : tuple;
        if (ends_tuple(p))
            return tuple;
    }
}

static struct node *target_name(struct parser *p, bool attribute)
{
    if (parse_take(p, '(')) {
        work_nest(p->work);
        struct node *inner = parse_target(p, false);
        parse_expect(p, ')');
        return inner;
    }
    struct node *node = parse_node(p, NODE_NAME);
    node->name = parse_name(p);
    if (!attribute || !parse_take(p, '.'))
        return node;
    struct node *whole = parse_node(p, NODE_ATTRIBUTE);
    whole->a = node;
    whole->name = parse_name(p);
    return whole;
}

struct node *parse_target(struct parser *p, bool attribute)
{
    struct node *first = target_name(p, attribute);
    if (!parse_sees(p, ','))
        return first;
    struct node *tuple = parse_node(p, NODE_TUPLE), **last = &first->next;
    tuple->a = first;
    while (parse_take(p, ',') && (p->token.kind == TOKEN_NAME || parse_sees(p, '(')) &&
           !parse_sees_word(p, "in")) {
        *last = target_name(p, attribute);
        last = &(*last)->next;
    }
    return tuple;
}

/* Is the token after the next one '='? */
static bool sees_keyword(const struct parser *p)
{
    struct lexer ahead = p->lexer;
    if (p->token.kind != TOKEN_NAME)
        return false;
    const struct token after = lex_next(p->work, &ahead);
    return after.kind == TOKEN_OPERATOR && after.operation == '=';
}

struct node *parse_arguments(struct parser *p)
{
    struct node *first = NULL, **last = &first;
    bool named = false;
    parse_expect(p, '(');
    while (parse_another(p, first == NULL, ')')) {
        struct node *argument = parse_node(p, NODE_ARGUMENT);
        if (parse_sees(p, '*') || parse_sees(p, OPERATOR_POWER)) {
            argument->operation = p->token.operation;
            parse_advance(p);
        } else if (sees_keyword(p)) {
            argument->name = parse_name(p);
            parse_advance(p);
        } else if (named) {
            parse_unexpected(p, "an argument with its name");
        }
        named |= argument->name != NULL || argument->operation == OPERATOR_POWER;
        argument->a = parse_expression(p);
        *last = argument;
        last = &argument->next;
    }
    return first;
}

/* ---- the tightest: literals, what follows them, filters, tests ---- */

static struct node *literal(struct parser *p, struct value value)
{
    struct node *node = parse_node(p, NODE_CONST);
    node->value = value;
    parse_advance(p);
    return node;
}

static struct node *strings(struct parser *p)
{
    struct node *node = parse_node(p, NODE_CONST);
    const struct text *text = p->token.text;
    parse_advance(p);
    if (p->token.kind == TOKEN_STRING) { /* strings side by side are one */
        struct builder b = {0};
        builder_add(p->work, &b, text);
        for (; p->token.kind == TOKEN_STRING; parse_advance(p))
            builder_add(p->work, &b, p->token.text);
        text = builder_text(p->work, &b);
    }
    node->value = value_text(text);
    return node;
}

static struct node *name_or_constant(struct parser *p)
{
    if (parse_sees_word(p, "true") || parse_sees_word(p, "True"))
        return literal(p, value_bool(true));
    if (parse_sees_word(p, "false") || parse_sees_word(p, "False"))
        return literal(p, value_bool(false));
    if (parse_sees_word(p, "none") || parse_sees_word(p, "None"))
        return literal(p, value_of(VALUE_NONE));
    struct node *node = parse_node(p, NODE_NAME);
    node->name = parse_name(p);
    return node;
}

static struct node *primary(struct parser *p)
{
    if (p->token.kind == TOKEN_NAME)
        return name_or_constant(p);
    if (p->token.kind == TOKEN_STRING)
        return strings(p);
    if (p->token.kind == TOKEN_NUMBER)
        return literal(p, p->token.number);
    struct node *node = parse_node(p, parse_sees(p, '{') ? NODE_DICT : NODE_LIST);
    if (parse_take(p, '(')) {
        node = parse_tuple(p, true);
        parse_expect(p, ')');
    } else if (parse_take(p, '[')) {
        node->a = items(p, ']', false);
    } else if (parse_take(p, '{')) {
        node->a = items(p, '}', true);
    } else {
        parse_unexpected(p, "a value");
    }
    return node;
}

/* After '[': an index, several, or a slice. */
static struct node *subscript(struct parser *p, struct node *of)
{
    struct node *node = parse_node(p, NODE_ITEM), **part[] = {&node->b, &node->c, &node->d};
    node->a = of;
    for (size_t i = 0; i < 3 && !parse_sees(p, ']'); i++) {
        if (!parse_sees(p, ':'))
            *part[i] = parse_tuple(p, true);
        if (!parse_take(p, ':'))
            break;
        node->kind = NODE_SLICE;
    }
    parse_expect(p, ']');
    if (node->kind == NODE_ITEM && node->b == NULL)
        parse_unexpected(p, "an index");
    return node;
}

static struct node *postfix(struct parser *p, struct node *node)
{
    for (;;) {
        struct node *outer = parse_node(p, NODE_ATTRIBUTE);
        outer->a = node;
        if (parse_take(p, '.')) {
            if (p->token.kind == TOKEN_NUMBER) {
                outer->kind = NODE_ITEM;
                outer->b = literal(p, p->token.number);
            } else {
                outer->name = parse_name(p);
            }
        } else if (parse_take(p, '[')) {
            outer = subscript(p, node);
        } else if (parse_sees(p, '(')) {
            outer->kind = NODE_CALL;
            outer->b = parse_arguments(p);
        } else {
            return node;
        }
        node = outer;
    }
}

struct node *parse_filter(struct parser *p, struct node *node)
{
    struct node *filter = parse_node(p, NODE_FILTER);
    filter->a = node;
    filter->name = parse_name(p);
    if (parse_sees(p, '('))
        filter->b = parse_arguments(p);
    return filter;
}

static bool begins_argument(const struct parser *p)
{
    if (p->token.kind == TOKEN_NAME)
        return !parse_sees_word(p, "else") && !parse_sees_word(p, "or") &&
               !parse_sees_word(p, "and") && !parse_sees_word(p, "if") &&
               !parse_sees_word(p, "not") && !parse_sees_word(p, "in") &&
               !parse_sees_word(p, "is") && !parse_sees_word(p, "recursive");
    return p->token.kind == TOKEN_STRING || p->token.kind == TOKEN_NUMBER || parse_sees(p, '[') ||
           parse_sees(p, '{');
}

/* After "is". */
static struct node *test(struct parser *p, struct node *node)
{
    const bool negated = parse_take_word(p, "not");
    struct node *whole = parse_node(p, NODE_TEST);
    whole->a = node;
    whole->name = parse_name(p);
    if (parse_sees(p, '(')) {
        whole->b = parse_arguments(p);
    } else if (begins_argument(p)) {
        whole->b = parse_node(p, NODE_ARGUMENT);
        whole->b->a = postfix(p, primary(p));
    }
    if (!negated)
        return whole;
    struct node *opposite = parse_node(p, NODE_NOT);
    opposite->a = whole;
    return opposite;
}

struct node *parse_filters(struct parser *p, struct node *node)
{
    for (;;) {
        if (parse_take(p, '|')) {
            node = parse_filter(p, node);
        } else if (parse_take_word(p, "is")) {
            node = test(p, node);
        } else if (parse_sees(p, '(')) {
            struct node *call = parse_node(p, NODE_CALL);
            call->a = node;
            call->b = parse_arguments(p);
            node = call;
        } else {
            return node;
        }
    }
}

struct node *parse_unary(struct parser *p, bool filters)
{
    work_nest(p->work);
    struct node *node;
    if (parse_sees(p, '-') || parse_sees(p, '+')) {
        node = parse_node(p, NODE_SIGN);
        node->operation = p->token.operation;
        parse_advance(p);
        node->a = parse_unary(p, false);
    } else {
        node = primary(p);
    }
    node = postfix(p, node);
    return filters ? parse_filters(p, node) : node;
}
