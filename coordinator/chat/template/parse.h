/* What the two halves of the parser, for expressions and statements, share. */
#ifndef TERN_TEMPLATE_PARSE_H
#define TERN_TEMPLATE_PARSE_H

#include "coordinator/chat/template/lex.h"
#include "coordinator/chat/template/node.h"

struct parser {
    struct work *work;
    struct lexer lexer;
    struct token token; /* the next one */
    unsigned loops;     /* around the place */
};

void parse_advance(struct parser *p);
/* At the next token, which is not what there should be. */
_Noreturn void parse_unexpected(struct parser *p, const char *wanted);
struct node *parse_node(struct parser *p, enum node_kind kind);
bool parse_sees(const struct parser *p, char operation);
bool parse_sees_word(const struct parser *p, const char *word);
/* Takes it if it is there. */
bool parse_take(struct parser *p, char operation);
bool parse_take_word(struct parser *p, const char *word);
void parse_expect(struct parser *p, char operation);
/* Is there another item of a list, after a comma if it is not the `first`? Takes `end` if not. */
bool parse_another(struct parser *p, bool first, char end);
const struct text *parse_name(struct parser *p);

struct node *parse_expression(struct parser *p);
/* Without "x if y". */
struct node *parse_or(struct parser *p);
/* A value with its signs and indices, and (if `filters`) its filters and tests. */
struct node *parse_unary(struct parser *p, bool filters);
/* An expression, or several with commas between; `choices`: each may be "x if y". */
struct node *parse_tuple(struct parser *p, bool choices);
/* Names to assign to: one, an attribute of one (if `attribute`), or several. */
struct node *parse_target(struct parser *p, bool attribute);
/* ( ... ) */
struct node *parse_arguments(struct parser *p);
/* | filter | filter ... over `node`. */
struct node *parse_filters(struct parser *p, struct node *node);
/* name(arguments) after a bar. */
struct node *parse_filter(struct parser *p, struct node *node);

#endif
