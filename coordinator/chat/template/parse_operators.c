/* Expressions with operators, which bind as in Python; filters and tests bind more tightly. */
#include "coordinator/chat/template/parse.h"

enum {
    BIND_OR = 1,
    BIND_AND,
    BIND_NOT,
    BIND_COMPARE,
    BIND_ADD,
    BIND_CONCAT,
    BIND_MULTIPLY,
    BIND_POWER
};

/* Of the operator that is next; 0 if none is. */
static int binding(const struct parser *p)
{
    if (p->token.kind == TOKEN_NAME)
        return text_is(p->token.text, "or")                                    ? BIND_OR
               : text_is(p->token.text, "and")                                 ? BIND_AND
               : text_is(p->token.text, "in") || text_is(p->token.text, "not") ? BIND_COMPARE
                                                                               : 0;
    if (p->token.kind != TOKEN_OPERATOR)
        return 0;
    switch (p->token.operation) {
    case '<':
    case '>':
    case OPERATOR_EQUAL:
    case OPERATOR_UNEQUAL:
    case OPERATOR_LESS_EQUAL:
    case OPERATOR_GREATER_EQUAL:
        return BIND_COMPARE;
    case '+':
    case '-':
        return BIND_ADD;
    case '~':
        return BIND_CONCAT;
    case '*':
    case '/':
    case '%':
    case OPERATOR_FLOOR:
        return BIND_MULTIPLY;
    case OPERATOR_POWER:
        return BIND_POWER;
    default:
        return 0;
    }
}

static struct node *operators(struct parser *p, int least);

/* a < b < c ... */
static struct node *comparison(struct parser *p, struct node *left)
{
    struct node *node = parse_node(p, NODE_COMPARE), **last = &node->b;
    node->a = left;
    while (binding(p) == BIND_COMPARE) {
        struct node *operand = parse_node(p, NODE_OPERAND);
        operand->operation = p->token.operation;
        if (parse_take_word(p, "not")) {
            operand->operation = 'n';
            if (!parse_sees_word(p, "in"))
                parse_unexpected(p, "'in'");
        } else if (p->token.kind == TOKEN_NAME) {
            operand->operation = 'i';
        }
        parse_advance(p);
        operand->a = operators(p, BIND_ADD);
        *last = operand;
        last = &operand->next;
    }
    return node;
}

static struct node *operators(struct parser *p, int least)
{
    struct node *left = NULL;
    work_nest(p->work);
    if (least <= BIND_NOT && parse_sees_word(p, "not")) {
        left = parse_node(p, NODE_NOT);
        parse_advance(p);
        left->a = operators(p, BIND_NOT);
    } else {
        left = parse_unary(p, true);
    }
    for (int now; (now = binding(p)) >= least && now > 0;) {
        if (now == BIND_COMPARE) {
            left = comparison(p, left);
            continue;
        }
        struct node *node = parse_node(p, now == BIND_OR    ? NODE_OR
                                          : now == BIND_AND ? NODE_AND
                                                            : NODE_BINARY);
        node->operation = p->token.operation;
        parse_advance(p);
        node->a = left;
        node->b = operators(p, now + 1);
        left = node;
    }
    return left;
}

struct node *parse_or(struct parser *p)
{
    return operators(p, BIND_OR);
}

struct node *parse_expression(struct parser *p)
{
    struct node *node = parse_or(p);
    while (parse_sees_word(p, "if")) {
        struct node *choice = parse_node(p, NODE_CHOICE);
        parse_advance(p);
        choice->a = node;
        choice->b = parse_or(p);
        if (parse_take_word(p, "else"))
            choice->c = parse_expression(p);
        node = choice;
    }
    return node;
}
