#include "cmd/tern/json_output.h"

#include "cmd/tern/output.h"
#include "proto/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

json_t *json_of_bytes(const char *bytes, size_t length)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *text = malloc(3 * length + 1);
    size_t out = 0;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < length;) {
        const int character = tern_utf8_character(bytes + i, length - i);
        const bool good = character > 0;
        const size_t step = good ? (size_t)character : character < 0 ? length - i : 1;
        memcpy(text + out, good ? bytes + i : replacement, good ? step : 3);
        out += good ? step : 3;
        i += step;
    }
    json_t *json = json_stringn(text, out);
    free(text);
    return json;
}

json_t *json_of_text(const char *text)
{
    return text != NULL ? json_of_bytes(text, strlen(text)) : json_null();
}

json_t *json_of_count(uint64_t count)
{
    return count <= INT64_MAX ? json_integer((json_int_t)count) : json_sprintf("%" PRIu64, count);
}

static bool print(const json_t *value, size_t flags)
{
    struct screen screen = {0};
    char *text = json_dumps(value, flags | JSON_PRESERVE_ORDER | JSON_ENCODE_ANY);
    if (text == NULL) {
        output_failed(ENOMEM);
        return false;
    }
    const bool printed = write_answer(&screen, text, strlen(text)) && end_answer();
    free(text);
    return printed;
}

bool print_json(const json_t *value)
{
    return print(value, JSON_INDENT(2));
}

bool print_json_line(const json_t *value)
{
    return print(value, JSON_COMPACT);
}
