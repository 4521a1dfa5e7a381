/* Reading the service's JSON replies for tables; absent fields are 0 or "-". */
#ifndef TERN_CMD_FIELDS_H
#define TERN_CMD_FIELDS_H

#include <jansson.h>

static inline const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "-";
}

static inline long long number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static inline double real_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* Bytes as MiB. */
static inline double mib_of(const json_t *object, const char *name)
{
    return (double)number_of(object, name) / (1 << 20);
}

#endif
