#include "coordinator/service/values.h"

#include "proto/utf8.h"
#include <string.h>

json_t *text_value(const char *bytes, size_t length)
{
    return tern_utf8_valid(bytes, length) ? json_stringn(bytes, length) : json_string("?");
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
