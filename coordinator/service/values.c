#include "coordinator/service/values.h"

#include "proto/utf8.h"
#include <stdlib.h>
#include <string.h>

/* NUL is valid UTF-8, but readers of JSON refuse it: each becomes a '?'. */
json_t *text_value(const char *bytes, size_t length)
{
    char *copy = tern_utf8_valid(bytes, length) ? malloc(length + 1) : NULL;
    if (copy == NULL)
        return json_string("?");
    memcpy(copy, bytes, length);
    for (size_t i = 0; i < length; i++)
        if (copy[i] == '\0')
            copy[i] = '?';
    json_t *value = json_stringn(copy, length);
    free(copy);
    return value;
}

void put_value(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

void put_text(json_t *object, const char *key, const char *text)
{
    put_value(object, key, text_value(text, strlen(text)));
}

void put_number(json_t *object, const char *key, uint64_t value)
{
    put_value(object, key, json_integer((json_int_t)value));
}

void put_flag(json_t *object, const char *key, bool value)
{
    put_value(object, key, json_boolean(value));
}

char *print_value(json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}
