/* Finding filters and tests by name. */
#include "coordinator/chat/template/functions.h"

static const struct function *find(const struct function *table, const struct text *name)
{
    for (; table->name != NULL; table++)
        if (text_is(name, table->name))
            return table;
    return NULL;
}

const struct function *find_filter(const struct text *name)
{
    const struct function *const tables[] = {text_filters, number_filters, list_filters,
                                             choice_filters};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const struct function *found = find(tables[i], name);
        if (found != NULL)
            return found;
    }
    return NULL;
}

const struct function *find_test(const struct text *name)
{
    return find(all_tests, name);
}

const struct function *find_global(const struct text *name)
{
    return find(all_globals, name);
}

const struct function *find_method(enum value_kind kind, const struct text *name)
{
    const struct function *found = NULL;
    if (kind == VALUE_STRING) {
        found = find(text_methods, name);
        return found != NULL ? found : find(text_search_methods, name);
    }
    /* The methods of one kind follow an entry with its name (see methods_collection.c). */
    if (kind == VALUE_LIST || kind == VALUE_TUPLE || kind == VALUE_DICT)
        for (const struct function *f = collection_methods; f->name != NULL; f++)
            if (text_is(name, f->name + 1) && f->name[0] == (kind == VALUE_LIST    ? 'l'
                                                             : kind == VALUE_TUPLE ? 't'
                                                                                   : 'd'))
                return f;
    return kind == VALUE_LOOP || kind == VALUE_CYCLER ? find(loop_methods, name) : NULL;
}

static _Noreturn void not_there(struct work *w, const char *what, const struct text *name)
{
    work_fail(w, TERN_UNSUPPORTED, "there is no %s '%.*s'; use --raw", what,
              (int)(name->length < 100 ? name->length : 100), name->bytes);
}

struct value apply_filter(struct work *w, const struct text *name, struct value v,
                          const struct arguments *arguments)
{
    const struct function *filter = find_filter(name);
    if (filter == NULL)
        not_there(w, "filter", name);
    work_nest(w);
    return filter->call(w, v, arguments);
}

bool apply_test(struct work *w, const struct text *name, struct value v,
                const struct arguments *arguments)
{
    const struct function *test = find_test(name);
    if (test == NULL)
        not_there(w, "test", name);
    work_nest(w);
    return value_truth(test->call(w, v, arguments));
}
