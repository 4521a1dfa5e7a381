/* Statements. */
#include "coordinator/chat/template/parse.h"

#include <string.h>

static struct node *body(struct parser *p, const char *const *ends);

/* A colon may stand there as in Python. */
static void close_block(struct parser *p)
{
    parse_take(p, ':');
    if (p->token.kind != TOKEN_CLOSE_BLOCK)
        parse_unexpected(p, "the end of the tag");
    parse_advance(p);
}

/* Statements up to {% end %}, which is taken. */
static struct node *body_to(struct parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    close_block(p);
    struct node *statements = body(p, ends);
    parse_advance(p);
    return statements;
}

static struct node *for_statement(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    node->kind = NODE_FOR;
    node->a = parse_target(p, false);
    if (!parse_take_word(p, "in"))
        parse_unexpected(p, "'in'");
    node->b = parse_tuple(p, false);
    if (parse_take_word(p, "if"))
        node->c = parse_expression(p);
    node->operation = parse_take_word(p, "recursive") ? 'r' : '\0';
    close_block(p);
    p->loops++;
    node->d = body(p, ends);
    p->loops--;
    if (parse_take_word(p, "else"))
        node->e = body_to(p, "endfor");
    else
        parse_advance(p);
    return node;
}

/* "elif" is an if in the else of the one before, in a loop so that many do not nest here. */
static struct node *if_statement(struct parser *p, struct node *first)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node *node = first;
    for (;;) {
        node->kind = NODE_IF;
        node->a = parse_tuple(p, true);
        close_block(p);
        node->d = body(p, ends);
        if (!parse_sees_word(p, "elif"))
            break;
        node->e = parse_node(p, NODE_IF);
        node = node->e;
        parse_advance(p);
    }
    if (parse_take_word(p, "else"))
        node->e = body_to(p, "endif");
    else
        parse_advance(p);
    return first;
}

static struct node *block_name(struct parser *p)
{
    struct node *name = parse_node(p, NODE_NAME);
    name->name = text_of(p->work, BLOCK_NAME);
    return name;
}

static struct node *set_statement(struct parser *p, struct node *node)
{
    node->kind = NODE_SET;
    node->a = parse_target(p, true);
    if (parse_take(p, '=')) {
        node->b = parse_tuple(p, true);
        return node;
    }
    node->c = parse_filters(p, block_name(p));
    node->d = body_to(p, "endset");
    return node;
}

/* ( name, name = default ) */
static struct node *parameters(struct parser *p)
{
    struct node *first = NULL, **last = &first;
    bool defaults = false;
    parse_expect(p, '(');
    while (parse_another(p, first == NULL, ')')) {
        struct node *parameter = parse_node(p, NODE_PARAMETER);
        parameter->name = parse_name(p);
        if (parse_take(p, '='))
            parameter->a = parse_expression(p);
        else if (defaults)
            parse_unexpected(p, "a default");
        defaults = parameter->a != NULL;
        *last = parameter;
        last = &parameter->next;
    }
    return first;
}

/* Loops around a macro are not loops of its body. */
static struct node *macro_body(struct parser *p, const char *end)
{
    const unsigned loops = p->loops;
    p->loops = 0;
    struct node *statements = body_to(p, end);
    p->loops = loops;
    return statements;
}

static struct node *macro(struct parser *p, struct node *node)
{
    node->kind = NODE_MACRO;
    node->name = parse_name(p);
    node->a = parameters(p);
    node->d = macro_body(p, "endmacro");
    return node;
}

static struct node *call_block(struct parser *p, struct node *node)
{
    node->kind = NODE_CALL_BLOCK;
    node->c = parse_node(p, NODE_MACRO);
    node->c->name = text_of(p->work, "caller");
    if (parse_sees(p, '('))
        node->c->a = parameters(p);
    node->a = parse_expression(p);
    if (node->a->kind != NODE_CALL)
        parse_unexpected(p, "a call before the end of the tag");
    node->c->d = macro_body(p, "endcall");
    return node;
}

static struct node *filter_block(struct parser *p, struct node *node)
{
    node->kind = NODE_FILTER_BLOCK;
    node->c = parse_filters(p, parse_filter(p, block_name(p)));
    node->d = body_to(p, "endfilter");
    return node;
}

static struct node *with_statement(struct parser *p, struct node *node)
{
    node->kind = NODE_WITH;
    struct node **last = &node->a;
    while (p->token.kind != TOKEN_CLOSE_BLOCK) {
        if (node->a != NULL)
            parse_expect(p, ',');
        struct node *set = parse_node(p, NODE_SET);
        set->a = parse_node(p, NODE_NAME);
        set->a->name = parse_name(p);
        parse_expect(p, '=');
        set->b = parse_expression(p);
        *last = set;
        last = &set->next;
    }
    node->d = body_to(p, "endwith");
    return node;
}

static struct node *generation(struct parser *p, struct node *node)
{
    node->kind = NODE_GROUP;
    node->d = body_to(p, "endgeneration");
    return node;
}

static struct node *leave_loop(struct parser *p, struct node *node, enum node_kind kind)
{
    if (p->loops == 0)
        work_fail(p->work, TERN_BAD_MODEL, "break or continue outside of a loop");
    node->kind = kind;
    return node;
}

static struct node *statement(struct parser *p)
{
    static const struct {
        const char *word;
        struct node *(*parse)(struct parser *, struct node *);
    } statements[] = {
        {"for", for_statement},   {"if", if_statement},       {"set", set_statement},
        {"macro", macro},         {"call", call_block},       {"filter", filter_block},
        {"with", with_statement}, {"generation", generation},
    };
    struct node *node = parse_node(p, NODE_GROUP);
    const struct text *word = parse_name(p);
    if (text_is(word, "break") || text_is(word, "continue"))
        return leave_loop(p, node, text_is(word, "break") ? NODE_BREAK : NODE_CONTINUE);
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        if (text_is(word, statements[i].word))
            return statements[i].parse(p, node);
    p->work->line = node->line;
    p->work->column = node->column;
    const bool end = word->length >= 3 && memcmp(word->bytes, "end", 3) == 0;
    const bool branch = text_is(word, "else") || text_is(word, "elif");
    work_fail(p->work, end || branch ? TERN_BAD_MODEL : TERN_UNSUPPORTED,
              end || branch ? "'%.*s' ends nothing"
                            : "the statement '%.*s' is not supported; use --raw",
              (int)(word->length < 40 ? word->length : 40), word->bytes);
}

static bool is_end(const struct parser *p, const char *const *ends)
{
    for (; *ends != NULL; ends++)
        if (parse_sees_word(p, *ends))
            return true;
    return false;
}

/* Statements up to one of `ends` (NULL: the end of the template), which is the next token then. */
static struct node *body(struct parser *p, const char *const *ends)
{
    struct node *first = NULL, **last = &first;
    const uint32_t line = p->token.line, column = p->token.column;
    work_nest(p->work);
    while (p->token.kind != TOKEN_END) {
        struct node *node = parse_node(p, NODE_TEXT);
        if (p->token.kind == TOKEN_TEXT) {
            node->name = p->token.text;
            parse_advance(p);
        } else if (p->token.kind == TOKEN_OPEN_PRINT) {
            node->kind = NODE_PRINT;
            parse_advance(p);
            node->a = parse_tuple(p, true);
            if (p->token.kind != TOKEN_CLOSE_PRINT)
                parse_unexpected(p, "'}}'");
            parse_advance(p);
        } else {
            parse_advance(p);
            if (ends != NULL && is_end(p, ends))
                return first;
            node = statement(p);
            close_block(p);
        }
        *last = node;
        last = &node->next;
    }
    if (ends != NULL) {
        while (ends[1] != NULL)
            ends++;
        p->work->line = line;
        p->work->column = column;
        work_fail(p->work, TERN_BAD_MODEL, "the block that begins here has no '%s'", *ends);
    }
    return first;
}

struct node *parse_template(struct work *w, const char *text, size_t length)
{
    struct parser p = {.work = w};
    lex_begin(w, &p.lexer, text, length);
    parse_advance(&p);
    return body(&p, NULL);
}
