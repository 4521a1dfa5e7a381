/* Template text to tokens, one at a time. A lexer is a small value: copying it looks ahead. */
#ifndef TERN_TEMPLATE_LEX_H
#define TERN_TEMPLATE_LEX_H

#include "coordinator/chat/template/value.h"

enum token_kind {
    TOKEN_END,
    TOKEN_TEXT, /* what is written as it stands */
    TOKEN_OPEN_PRINT,
    TOKEN_CLOSE_PRINT,
    TOKEN_OPEN_BLOCK,
    TOKEN_CLOSE_BLOCK,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_NUMBER,
    TOKEN_OPERATOR,
};

/* Operators are their own character, two-character ones these. */
enum {
    OPERATOR_POWER = 'p',
    OPERATOR_FLOOR = 'f',
    OPERATOR_EQUAL = 'e',
    OPERATOR_UNEQUAL = 'u',
    OPERATOR_LESS_EQUAL = 'l',
    OPERATOR_GREATER_EQUAL = 'g',
};

struct token {
    enum token_kind kind;
    char operation;
    uint32_t line, column;
    const struct text *text; /* TEXT, NAME, STRING */
    struct value number;
};

struct lexer {
    const char *source; /* line ends are \n */
    size_t length, at;
    enum token_kind inside; /* TOKEN_TEXT (outside), TOKEN_OPEN_PRINT or TOKEN_OPEN_BLOCK */
    uint32_t brackets;      /* open within the tag */
    uint32_t line;
    size_t line_start; /* position up to which lines are counted, at a line's start */
    size_t counted;
};

/* Copies the text with its line ends made \n, its last one dropped. Fails if it is not UTF-8. */
void lex_begin(struct work *w, struct lexer *lexer, const char *text, size_t length);
struct token lex_next(struct work *w, struct lexer *lexer);

/* The parts that lex.c hands over (lex_literal.c). `at` is at the literal's first byte. */
const struct text *lex_string(struct work *w, struct lexer *lexer);
struct value lex_number(struct work *w, struct lexer *lexer);

#endif
