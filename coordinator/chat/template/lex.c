/*
 * What lies between tags, where white space is dropped beside them, and the tags' words.
 * With trim_blocks a line end after %} and #} is dropped; with lstrip_blocks the blanks before {%
 * and {# on their line are; a dash drops all white space on its side, a plus keeps it.
 */
#include "coordinator/chat/template/lex.h"

#include "coordinator/tokenizer/unicode.h"
#include "proto/utf8.h"

#include <string.h>

void lex_begin(struct work *w, struct lexer *lexer, const char *text, size_t length)
{
    char *copy = work_take(w, length + 1);
    size_t to = 0;
    work_spend_bytes(w, length);
    if (!tern_utf8_valid(text, length))
        work_fail(w, TERN_BAD_MODEL, "the template is not valid UTF-8");
    for (size_t i = 0; i < length; i++) {
        copy[to++] = text[i] == '\r' ? '\n' : text[i];
        if (text[i] == '\r' && i + 1 < length && text[i + 1] == '\n')
            i++;
    }
    if (to > 0 && copy[to - 1] == '\n')
        to--;
    *lexer = (struct lexer){.source = copy, .length = to, .inside = TOKEN_TEXT, .line = 1};
}

/* Sets the work's line and column to the lexer's place. */
static void place(struct work *w, struct lexer *x)
{
    for (; x->counted < x->at; x->counted++)
        if (x->source[x->counted] == '\n') {
            x->line++;
            x->line_start = x->counted + 1;
        }
    w->line = x->line;
    w->column = (uint32_t)(x->at - x->line_start) + 1;
}

static bool sees(const struct lexer *x, size_t at, const char *what)
{
    const size_t length = strlen(what);
    return x->length - at >= length && memcmp(x->source + at, what, length) == 0;
}

static void skip_space(struct lexer *x)
{
    while (x->at < x->length) {
        unsigned bytes;
        if (!text_is_space(unicode_point(x->source + x->at, &bytes)))
            return;
        x->at += bytes;
    }
}

/* Position of the next "{{", "{%" or "{#", or the end. */
static size_t find_tag(const struct lexer *x)
{
    size_t at = x->at;
    while (at + 1 < x->length) {
        const char *brace = memchr(x->source + at, '{', x->length - at - 1);
        if (brace == NULL)
            break;
        at = (size_t)(brace - x->source);
        if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#')
            return at;
        at++;
    }
    return x->length;
}

/* The text from x->at to the tag at `tag`, without the white space that the tag drops. */
static const struct text *text_before_tag(struct work *w, const struct lexer *x, size_t tag)
{
    const struct text *text = text_borrow(w, x->source + x->at, tag - x->at);
    if (tag == x->length)
        return text;
    const char sign = tag + 2 < x->length ? x->source[tag + 2] : '\0';
    if (sign == '-')
        return text_strip(w, text, NULL, TEXT_RIGHT);
    if (sign == '+' || x->source[tag + 1] == '{')
        return text;
    size_t line = text->length;
    while (line > 0 && text->bytes[line - 1] != '\n')
        line--;
    if (line == 0 && x->at > 0 && x->source[x->at - 1] != '\n')
        return text;
    const struct text *blanks = text_slice(w, text, line, text->length);
    return text_strip(w, blanks, NULL, TEXT_LEFT)->length == 0 ? text_slice(w, text, 0, line)
                                                               : text;
}

/* Past the end of a tag of one of the forms "%}", "-%}" and "+%}"; false if there is none here. */
static bool skip_end(struct lexer *x, const char *end)
{
    size_t at = x->at;
    const char sign =
        at < x->length && (x->source[at] == '-' || x->source[at] == '+') ? x->source[at++] : '\0';
    if (!sees(x, at, end) || (sign == '+' && end[0] == '}'))
        return false;
    x->at = at + 2;
    if (sign == '-')
        skip_space(x);
    else if (sign == '\0' && end[0] != '}' && sees(x, x->at, "\n"))
        x->at++;
    return true;
}

static void skip_comment(struct work *w, struct lexer *x)
{
    place(w, x);
    x->at += 2;
    if (x->at < x->length && (x->source[x->at] == '-' || x->source[x->at] == '+'))
        x->at++;
    for (; x->at < x->length; x->at++)
        if (skip_end(x, "#}"))
            return;
    work_fail(w, TERN_BAD_MODEL, "the comment has no end");
}

/* The word alone in the tag at `at`: position after it, or 0. */
static size_t only_word(const struct lexer *x, size_t at, const char *word)
{
    struct lexer y = *x;
    y.at = at + 2;
    if (y.at < y.length && (y.source[y.at] == '-' || y.source[y.at] == '+'))
        y.at++;
    skip_space(&y);
    if (!sees(&y, y.at, word))
        return 0;
    y.at += strlen(word);
    skip_space(&y);
    return y.at;
}

/* At {% raw %}: its text up to {% endraw %}. */
static struct token raw(struct work *w, struct lexer *x, size_t after)
{
    struct token token = {.kind = TOKEN_TEXT, .line = w->line, .column = w->column};
    x->at = after;
    if (sees(x, x->at, "-")) {
        x->at += 3;
        skip_space(x);
    } else {
        x->at += 2;
    }
    for (size_t at = x->at; at < x->length; at++) {
        const size_t word_end = sees(x, at, "{%") ? only_word(x, at, "endraw") : 0;
        struct lexer end = *x;
        end.at = word_end;
        if (word_end == 0 || !skip_end(&end, "%}"))
            continue;
        token.text = text_before_tag(w, x, at);
        x->at = end.at;
        return token;
    }
    work_fail(w, TERN_BAD_MODEL, "{%% raw %%} has no end");
}

/* Outside of tags. */
static struct token next_outside(struct work *w, struct lexer *x)
{
    for (;;) {
        place(w, x);
        struct token token = {.kind = TOKEN_END, .line = w->line, .column = w->column};
        if (x->at == x->length)
            return token;
        const size_t tag = find_tag(x);
        const struct text *text = text_before_tag(w, x, tag);
        x->at = tag;
        if (text->length > 0) {
            token.kind = TOKEN_TEXT;
            token.text = text;
            return token;
        }
        if (tag == x->length)
            continue;
        if (x->source[tag + 1] == '#') {
            skip_comment(w, x);
            continue;
        }
        place(w, x);
        token = (struct token){.line = w->line, .column = w->column};
        const size_t after = x->source[tag + 1] == '%' ? only_word(x, tag, "raw") : 0;
        if (after != 0 && (sees(x, after, "%}") || sees(x, after, "-%}")))
            return raw(w, x, after);
        token.kind = x->source[tag + 1] == '%' ? TOKEN_OPEN_BLOCK : TOKEN_OPEN_PRINT;
        x->inside = token.kind;
        x->brackets = 0;
        x->at += 2;
        if (x->at < x->length && (x->source[x->at] == '-' || x->source[x->at] == '+'))
            x->at++;
        return token;
    }
}

static bool in_name(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (unsigned char)c >= 0x80;
}

static char operation(struct work *w, struct lexer *x)
{
    static const struct {
        char text[3], operation;
    } doubles[] = {
        {"**", OPERATOR_POWER},   {"//", OPERATOR_FLOOR},      {"==", OPERATOR_EQUAL},
        {"!=", OPERATOR_UNEQUAL}, {"<=", OPERATOR_LESS_EQUAL}, {">=", OPERATOR_GREATER_EQUAL},
    };
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++)
        if (sees(x, x->at, doubles[i].text)) {
            x->at += 2;
            return doubles[i].operation;
        }
    const char c = x->source[x->at];
    if (c == '\0' || strchr("+-*/%~[](){}<>=.:|,;", c) == NULL)
        work_fail(w, TERN_BAD_MODEL, "unexpected character '%c'",
                  (unsigned char)c < 0x80 ? c : '?');
    if (strchr("([{", c) != NULL)
        x->brackets++;
    if (strchr(")]}", c) != NULL && x->brackets > 0)
        x->brackets--;
    x->at++;
    return c;
}

/* Inside of a tag. */
static struct token next_inside(struct work *w, struct lexer *x)
{
    skip_space(x);
    place(w, x);
    struct token token = {.line = w->line, .column = w->column};
    if (x->at == x->length)
        work_fail(w, TERN_BAD_MODEL, "the template ends within a tag");
    const bool block = x->inside == TOKEN_OPEN_BLOCK;
    if (x->brackets == 0 && skip_end(x, block ? "%}" : "}}")) {
        token.kind = block ? TOKEN_CLOSE_BLOCK : TOKEN_CLOSE_PRINT;
        x->inside = TOKEN_TEXT;
        return token;
    }
    const char c = x->source[x->at];
    if (c >= '0' && c <= '9') {
        token.kind = TOKEN_NUMBER;
        token.number = lex_number(w, x);
    } else if (in_name(c)) {
        const size_t from = x->at;
        while (x->at < x->length && in_name(x->source[x->at]))
            x->at++;
        token.kind = TOKEN_NAME;
        token.text = text_borrow(w, x->source + from, x->at - from);
    } else if (c == '\'' || c == '"') {
        token.kind = TOKEN_STRING;
        token.text = lex_string(w, x);
    } else {
        token.kind = TOKEN_OPERATOR;
        token.operation = operation(w, x);
    }
    return token;
}

struct token lex_next(struct work *w, struct lexer *lexer)
{
    work_spend(w, 1);
    return lexer->inside == TOKEN_TEXT ? next_outside(w, lexer) : next_inside(w, lexer);
}
