/* The values of a template, as Python has them, and what all functions on them share. */
#ifndef TERN_TEMPLATE_VALUE_H
#define TERN_TEMPLATE_VALUE_H

#include "coordinator/chat/template/text.h"

enum value_kind {
    VALUE_ABSENT, /* no value: an argument that was not given */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_RANGE,     /* a list that prints otherwise */
    VALUE_VIEW,      /* keys(), values(), items() of a dict: no indices */
    VALUE_GENERATOR, /* what map, select, items ... give: no length, to be gone through once */
    VALUE_DICT,
    VALUE_NAMESPACE, /* a dict whose attributes can be set */
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION,
    VALUE_METHOD, /* a function with its object */
    VALUE_CYCLER,
    VALUE_JOINER,
};

struct list;
struct dict;

struct value {
    enum value_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        const struct text *text; /* VALUE_STRING; VALUE_UNDEFINED: its name */
        struct list *list;       /* LIST to GENERATOR; CYCLER (`next` is its place); JOINER */
        struct dict *dict;
        struct loop *loop;
        const struct macro *macro;
        const struct function *function;
        const struct method *method;
    };
};

struct list {
    struct value *item;
    size_t count, room, next;
};

struct pair {
    struct value key, value;
};

struct dict {
    struct pair *pair; /* in the order of insertion */
    size_t count, room;
};

struct argument {
    const struct text *name; /* NULL: by position; those come first */
    struct value value;
};

struct arguments {
    struct argument *item;
    size_t count, positional;
};

/* A filter, test or method gets the value that it is applied to as `self`. */
struct function {
    const char *name;
    struct value (*call)(struct work *w, struct value self, const struct arguments *arguments);
};

struct method {
    struct value self;
    const struct function *function;
};

static inline struct value value_of(enum value_kind kind)
{
    return (struct value){.kind = kind};
}
static inline struct value value_bool(bool truth)
{
    return (struct value){.kind = VALUE_BOOL, .truth = truth};
}
static inline struct value value_int(int64_t integer)
{
    return (struct value){.kind = VALUE_INT, .integer = integer};
}
static inline struct value value_float(double real)
{
    return (struct value){.kind = VALUE_FLOAT, .real = real};
}
static inline struct value value_text(const struct text *text)
{
    return (struct value){.kind = VALUE_STRING, .text = text};
}
static inline struct value value_undefined(const struct text *name)
{
    return (struct value){.kind = VALUE_UNDEFINED, .text = name};
}
struct value value_literal(struct work *w, const char *literal);

/* Kinds that hold a struct list of items. */
static inline bool has_items(struct value v)
{
    return v.kind >= VALUE_LIST && v.kind <= VALUE_GENERATOR;
}
static inline bool is_number(struct value v)
{
    return v.kind == VALUE_BOOL || v.kind == VALUE_INT || v.kind == VALUE_FLOAT;
}
/* BOOL or INT; its value. */
static inline bool is_whole(struct value v)
{
    return v.kind == VALUE_BOOL || v.kind == VALUE_INT;
}
static inline int64_t whole_of(struct value v)
{
    return v.kind == VALUE_BOOL ? v.truth : v.integer;
}
/* Of a number. */
static inline double real_of(struct value v)
{
    return v.kind == VALUE_FLOAT ? v.real : (double)whole_of(v);
}

struct value list_new(struct work *w, enum value_kind kind, size_t room);
void list_add(struct work *w, struct value list, struct value item);

struct value dict_new(struct work *w, enum value_kind kind, size_t room);
/* NULL: not there. Fails for a key that cannot be one (a list, a dict). */
struct value *dict_find(struct work *w, const struct dict *dict, struct value key);
void dict_set(struct work *w, struct value dict, struct value key, struct value value);
/* For a key that is known not to be there. */
void dict_add(struct work *w, struct value dict, struct value key, struct value value);
/* A list of its keys, values or (key, value) tuples. */
enum dict_part { DICT_KEYS, DICT_VALUES, DICT_ITEMS };
struct value dict_list(struct work *w, const struct dict *dict, enum value_kind kind,
                       enum dict_part part);

/* "list", "str", ... for errors. */
const char *value_kind_name(struct value v);
bool value_truth(struct value v);
bool value_equal(struct work *w, struct value a, struct value b);
/* <0, 0, >0; fails for values without an order. */
int value_compare(struct work *w, struct value a, struct value b);
/* `item in container`. */
bool value_contains(struct work *w, struct value container, struct value item);
/* Fails for values without one. */
int64_t value_length(struct work *w, struct value v);
/* What a loop goes through, as a list; fails for what is not iterable. Uses a generator up. */
struct value value_items(struct work *w, struct value v);
bool value_is_iterable(struct value v);

/* Python's str() and, within lists, repr(). */
const struct text *value_string(struct work *w, struct value v);
void value_write(struct work *w, struct builder *b, struct value v, bool quoted);
void float_write(struct work *w, struct builder *b, double real);

/* obj.name and obj[key]; undefined if there is none. */
struct value value_attribute(struct work *w, struct value v, const struct text *name);
struct value value_item(struct work *w, struct value v, struct value key);
/* A list of values for obj[from:to:step]; absent or none: left out. */
struct value value_slice(struct work *w, struct value v, const struct value part[3]);

/* Fails with what is wrong with v, if it is undefined. */
void check_defined(struct work *w, struct value v);

/* Operators: one of + - * / % ~ < > and 'f' (//), 'p' (**). */
struct value value_binary(struct work *w, char operation, struct value a, struct value b);

/* Puts the arguments to their names (NULL-terminated); those not given are VALUE_ABSENT. Fails if
 * one of the first `required` is not given, or there are others. */
void arguments_bind(struct work *w, const char *function, const struct arguments *arguments,
                    const char *const *names, size_t required, struct value *out);

/* Arguments of a kind: `otherwise` if absent; fail if it is another kind. */
int64_t argument_int(struct work *w, struct value v, int64_t otherwise);
const struct text *argument_text(struct work *w, struct value v, const struct text *otherwise);

#endif
