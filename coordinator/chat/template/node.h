/* A parsed template: nodes of expressions and statements. Immutable once parsed. */
#ifndef TERN_TEMPLATE_NODE_H
#define TERN_TEMPLATE_NODE_H

#include "coordinator/chat/template/value.h"

enum node_kind {
    /* expressions */
    NODE_CONST,     /* value */
    NODE_NAME,      /* name */
    NODE_LIST,      /* a: items */
    NODE_TUPLE,     /* a: items */
    NODE_DICT,      /* a: keys and values in turn */
    NODE_ATTRIBUTE, /* a.name */
    NODE_ITEM,      /* a[b] */
    NODE_SLICE,     /* a[b:c:d], those left out NULL */
    NODE_CALL,      /* a(b: arguments) */
    NODE_ARGUMENT,  /* a; name, or NULL; operation '*' or 'p' unpacks */
    NODE_FILTER,    /* a | name(b: arguments) */
    NODE_TEST,      /* a is name(b: arguments) */
    NODE_NOT,       /* a */
    NODE_SIGN,      /* operation + or -, a */
    NODE_AND,       /* a, b */
    NODE_OR,        /* a, b */
    NODE_CHOICE,    /* a if b else c (or NULL) */
    NODE_BINARY,    /* a operation b */
    NODE_COMPARE,   /* a, then b: list of NODE_OPERAND */
    NODE_OPERAND,   /* operation (also 'i': in, 'n': not in), a */
    /* statements */
    NODE_TEXT,         /* name: the text */
    NODE_PRINT,        /* a */
    NODE_FOR,          /* for a in b if c: d, else e; operation 'r': recursive */
    NODE_IF,           /* if a: d, else e */
    NODE_SET,          /* set a = b; without b: block d, through filters c */
    NODE_MACRO,        /* name(a: parameters): d */
    NODE_PARAMETER,    /* name, default a or NULL */
    NODE_CALL_BLOCK,   /* call(c: the block as NODE_MACRO) a */
    NODE_FILTER_BLOCK, /* filters c over d */
    NODE_WITH,         /* a: list of NODE_SET; d */
    NODE_GROUP,        /* d */
    NODE_BREAK,
    NODE_CONTINUE,
};

struct node {
    enum node_kind kind;
    char operation;
    uint32_t line, column;
    struct node *next; /* in a list */
    const struct text *name;
    struct value value;
    struct node *a, *b, *c, *d, *e;
};

/* The name under which filters of a block see its text: one that no template can write. */
#define BLOCK_NAME " block"

/* The statements of a whole template. */
struct node *parse_template(struct work *w, const char *text, size_t length);

#endif
