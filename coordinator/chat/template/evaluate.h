/* Running a parsed template: scopes, expressions, statements, calls. */
#ifndef TERN_TEMPLATE_EVALUATE_H
#define TERN_TEMPLATE_EVALUATE_H

#include "coordinator/chat/template/node.h"

struct variable {
    struct variable *older;
    const struct text *name;
    struct value value;
};

/* A scope. Names that are not set in it are looked for in the one around it. */
struct frame {
    struct frame *around;
    struct variable *newest;
};

struct macro {
    const struct node *node; /* NODE_MACRO */
    struct frame *frame;     /* the scope it was defined in */
};

struct loop {
    const struct list *items;
    const struct node *node; /* NODE_FOR */
    struct frame *frame;     /* the scope around it */
    size_t index, depth;
    struct value before; /* what changed() saw last, as a tuple */
};

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

void frame_set(struct work *w, struct frame *frame, const struct text *name, struct value value);
/* The value of a name, of a global function if it is not set; undefined if there is none. */
struct value frame_get(struct work *w, const struct frame *frame, const struct text *name);
struct frame *frame_new(struct work *w, struct frame *around);

struct value evaluate(struct work *w, struct frame *frame, const struct node *node);
bool evaluate_test(struct work *w, struct frame *frame, const struct node *node);
enum flow run_statements(struct work *w, struct frame *frame, const struct node *first,
                         struct builder *out);
/* The text of statements in a scope of their own. */
struct value run_block(struct work *w, struct frame *around, const struct node *first);

/* A loop over `items`; `depth` is 0 for one that is in no other. */
enum flow run_loop(struct work *w, struct frame *frame, const struct node *node, struct value items,
                   size_t depth, struct builder *out);

struct value call_value(struct work *w, struct value callee, const struct arguments *arguments);
struct value call_macro(struct work *w, const struct macro *macro,
                        const struct arguments *arguments);

#endif
