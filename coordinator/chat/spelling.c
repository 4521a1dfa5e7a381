/* A scanner of Jinja text that knows tags, strings and comments, and nothing else. */
#include "coordinator/chat/spelling.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct speller {
    const char *in, *end;
    char *out;
    char *start; /* of all output */
    char *text;  /* end of the last tag */
};

static bool at(const struct speller *s, const char *word)
{
    const size_t length = strlen(word);
    return (size_t)(s->end - s->in) >= length && memcmp(s->in, word, length) == 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* A string literal, from its quote on. */
static void spell_string(struct speller *s)
{
    const char quote = *s->in++;
    const char *close = s->in;
    bool holds_single = false;
    while (close < s->end && *close != quote) {
        holds_single = holds_single || *close == '\'';
        close += *close == '\\' && close + 1 < s->end ? 2 : 1;
    }
    if (close > s->end)
        close = s->end;
    *s->out++ = holds_single ? quote : '\'';
    for (; s->in < close; s->in++) {
        if (*s->in == '\n')
            *s->out++ = '\\';
        *s->out++ = *s->in == '\n' ? 'n' : *s->in == '\0' ? ' ' : *s->in;
    }
    if (s->in < s->end)
        s->in++;
    *s->out++ = holds_single ? quote : '\'';
}

/* ['name'] becomes .name; the string was just written. */
static void spell_index(struct speller *s)
{
    char *open = s->out - 1;
    if (open <= s->start || *open != '\'')
        return;
    for (open--; open > s->start && is_word(*open); open--)
        ;
    if (*open != '\'' || open == s->start || open[-1] != '[' || open + 2 == s->out)
        return;
    const size_t length = (size_t)(s->out - open) - 2;
    open[-1] = '.';
    memmove(open, open + 1, length);
    s->out = open + length;
    s->in++;
}

static void skip_space(struct speller *s)
{
    while (s->in < s->end && isspace((unsigned char)*s->in))
        s->in++;
}

/* White space before the tag that opens here: all of it before a dash, else that of a line which a
 * block tag begins. */
static void strip_before(struct speller *s, bool dash, bool block)
{
    char *end = s->out;
    while (end > s->text &&
           (dash ? isspace((unsigned char)end[-1]) : end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (dash || (block && (end == s->start || end[-1] == '\n')))
        s->out = end;
}

/* A tag from its "{{" or "{%" to its end. */
static void spell_tag(struct speller *s, bool block)
{
    const char *const close = block ? "%}" : "}}";
    bool dash = s->end - s->in > 2 && s->in[2] == '-';
    strip_before(s, dash, block);
    memcpy(s->out, s->in, 2);
    s->out += 2;
    s->in += dash ? 3 : 2;
    dash = false;
    while (s->in < s->end && !at(s, close)) {
        const char c = *s->in;
        if (c == '\'' || c == '"') {
            spell_string(s);
            skip_space(s);
            if (s->in < s->end && *s->in == ']')
                spell_index(s);
        } else if (isspace((unsigned char)c)) {
            skip_space(s);
            if (s->in < s->end && is_word(s->out[-1]) && is_word(*s->in))
                *s->out++ = ' ';
        } else {
            s->in++;
            dash = c == '-' && at(s, close);
            if (!dash)
                *s->out++ = c == '\0' ? ' ' : c;
        }
    }
    if (s->in >= s->end)
        return;
    memcpy(s->out, close, 2);
    s->out += 2;
    s->in += 2;
    if (dash)
        skip_space(s);
    else if (block && s->in < s->end && *s->in == '\n')
        s->in++;
    s->text = s->out;
}

static void skip_comment(struct speller *s)
{
    while (s->in < s->end && !at(s, "#}"))
        s->in++;
    s->in = s->end - s->in >= 2 ? s->in + 2 : s->end;
}

char *spell(struct tern_string template_text)
{
    /* A line end in a string takes two characters. */
    char *out = malloc(2 * template_text.length + 4);
    if (out == NULL)
        return NULL;
    struct speller s = {.in = template_text.bytes,
                        .end = template_text.bytes + template_text.length,
                        .out = out,
                        .start = out,
                        .text = out};
    while (s.in < s.end) {
        if (at(&s, "{#")) {
            skip_comment(&s);
        } else if (at(&s, "{{") || at(&s, "{%")) {
            spell_tag(&s, s.in[1] == '%');
        } else {
            *s.out++ = *s.in == '\0' ? ' ' : *s.in;
            s.in++;
        }
    }
    *s.out = '\0';
    return out;
}
