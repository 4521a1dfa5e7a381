/* Tables of what a template can call by name. NULL: there is no such function. */
#ifndef TERN_TEMPLATE_FUNCTIONS_H
#define TERN_TEMPLATE_FUNCTIONS_H

#include "coordinator/chat/template/value.h"

const struct function *find_filter(const struct text *name);
const struct function *find_test(const struct text *name);
const struct function *find_global(const struct text *name);
/* Methods of a value of this kind. */
const struct function *find_method(enum value_kind kind, const struct text *name);

/* The tables behind them, ended by an entry without name. */
extern const struct function text_filters[], number_filters[], list_filters[], choice_filters[],
    all_tests[], all_globals[], text_methods[], text_search_methods[], collection_methods[],
    loop_methods[];

/* By name, for filters that apply another; fail with TERN_UNSUPPORTED. */
struct value apply_filter(struct work *w, const struct text *name, struct value v,
                          const struct arguments *arguments);
bool apply_test(struct work *w, const struct text *name, struct value v,
                const struct arguments *arguments);

/* Python's json.dumps with ensure_ascii false; `indent` < 0: on one line. */
struct json_style {
    int64_t indent;
    const struct text *item_separator, *key_separator; /* NULL: ", " and ": " */
    bool sort_keys, ascii;
};
const struct text *json_text(struct work *w, struct value v, const struct json_style *style);

/* printf-style formatting: text % arguments (a tuple, or one value). */
const struct text *text_format(struct work *w, const struct text *format, struct value arguments);

/* `items` sorted by the value of a key; stable. */
typedef struct value sort_key(struct work *w, struct value item, const void *context);
struct value sorted(struct work *w, struct value items, sort_key *key, const void *context,
                    bool reverse);

/* "a.b.0" as attributes one after the other; an integer as index. */
struct value dotted_attribute(struct work *w, struct value item, struct value path);

#endif
