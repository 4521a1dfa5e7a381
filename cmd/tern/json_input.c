#include "cmd/tern/json_input.h"

#include "proto/board.h"
#include <stdlib.h>

bool json_within(const char *text, size_t length, size_t depth, size_t values)
{
    size_t inside = 0, seen = 1;
    bool string = false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (string) {
            i += c == '\\';
            string = c != '"';
        } else if (c == '"') {
            string = true;
        } else if (c == '[' || c == '{') {
            if (++inside > depth || ++seen > values)
                return false;
        } else if (c == ']' || c == '}') {
            inside -= inside > 0;
        } else if (c == ',' && ++seen > values) {
            return false;
        }
    }
    return true;
}

static enum tern_status take_ids(const char *name, const json_t *list, uint32_t *ids,
                                 struct tern_error *error)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > UINT32_MAX)
            return tern_fail(error, TERN_USAGE, "%s: element %zu is no token id", name, i);
        ids[i] = (uint32_t)id;
    }
    return TERN_OK;
}

enum tern_status ids_parse(const char *name, const char *text, size_t length, uint32_t **ids,
                           size_t *count, struct tern_error *error)
{
    json_error_t where = {0};
    enum tern_status status = TERN_OK;
    *ids = NULL;
    if (!json_within(text, length, 1, TERN_MAX_CONTEXT + 1))
        return tern_fail(error, TERN_USAGE,
                         "%s is no JSON list of at most %d token ids like [1, 2, 3]", name,
                         TERN_MAX_CONTEXT);
    json_t *list = json_loadb(text, length, 0, &where);
    if (list == NULL)
        return tern_fail(error, TERN_USAGE, "%s is no JSON list of token ids: line %d: %s", name,
                         where.line, where.text);
    *count = json_array_size(list);
    if (!json_is_array(list))
        status =
            tern_fail(error, TERN_USAGE, "%s is no JSON list of token ids like [1, 2, 3]", name);
    else if ((*ids = malloc((*count + 1) * sizeof **ids)) == NULL)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory for %zu ids", *count);
    else
        status = take_ids(name, list, *ids, error);
    if (status != TERN_OK) {
        free(*ids);
        *ids = NULL;
    }
    json_decref(list);
    return status;
}
