/*
 * The metadata of a GGUF file: keys with scalars, strings and flat arrays, read straight into the
 * catalog. Memory follows the bytes that the file really has: an array's elements are counted
 * against the bytes left first.
 */
#include "workers/loader/parser.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A key's value: its shape, then where its numbers lie in the catalog. */
struct value {
    struct tern_string name;
    enum tern_value_type type; /* of the elements */
    bool is_array;
    uint64_t count;
    void *numbers; /* packed elements, unless they are strings */
};

static enum tern_status begin(struct tern_parser *parser, struct value *value)
{
    return tern_catalog_begin_key(parser->writer, value->name, value->type, value->is_array,
                                  value->count, &value->numbers, parser->error);
}

static enum tern_status read_string(struct tern_parser *parser)
{
    uint64_t length;
    char *to;
    enum tern_status status = tern_parser_u64(parser, "string length", &length);
    if (status == TERN_OK)
        status = tern_parser_fits(parser, "string length", length, 1);
    if (status != TERN_OK)
        return status;
    if (length > TERN_MAX_STRING)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: a string of %" PRIu64
                         " bytes is above the limit of %d; " TERN_REMEDY_CONVERT,
                         parser->place, length, TERN_MAX_STRING);
    status = tern_catalog_add_string(parser->writer, length, &to, parser->error);
    return status == TERN_OK ? tern_parser_read(parser, "string", to, length) : status;
}

static enum tern_status read_strings(struct tern_parser *parser, struct value *value)
{
    enum tern_status status = tern_parser_fits(parser, value->is_array ? "array length" : "string",
                                               value->count, sizeof(uint64_t));
    if (status != TERN_OK)
        return status;
    if (value->count > TERN_MAX_STRINGS)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: array length %" PRIu64
                         " is above the limit of %d strings; " TERN_REMEDY_CONVERT,
                         parser->place, value->count, TERN_MAX_STRINGS);
    status = begin(parser, value);
    for (uint64_t i = 0; i < value->count && status == TERN_OK; i++)
        status = read_string(parser);
    return status;
}

static enum tern_status check_bools(struct tern_parser *parser, const struct value *value)
{
    const uint8_t *bools = value->numbers;
    for (uint64_t i = 0; i < value->count; i++)
        if (bools[i] > 1)
            return tern_fail(parser->error, TERN_BAD_MODEL,
                             "%s: boolean %" PRIu64 " is %u, not 0 or 1; " TERN_REMEDY_CONVERT,
                             parser->place, i, bools[i]);
    return TERN_OK;
}

static enum tern_status read_numbers(struct tern_parser *parser, struct value *value)
{
    const size_t each = tern_value_bytes(value->type);
    enum tern_status status =
        tern_parser_fits(parser, value->is_array ? "array length" : "value", value->count, each);
    if (status == TERN_OK)
        status = begin(parser, value);
    if (status == TERN_OK)
        status = tern_parser_read(parser, "value", value->numbers, value->count * each);
    if (status == TERN_OK && value->type == TERN_V_BOOL)
        status = check_bools(parser, value);
    return status;
}

/* Reads the type and, for an array, the elements' type and number. */
static enum tern_status read_shape(struct tern_parser *parser, struct value *value)
{
    uint32_t type;
    enum tern_status status = tern_parser_u32(parser, "value type", &type);
    if (status == TERN_OK && type == TERN_V_ARRAY) {
        value->is_array = true;
        status = tern_parser_u32(parser, "element type", &type);
        if (status == TERN_OK)
            status = tern_parser_u64(parser, "array length", &value->count);
    }
    if (status != TERN_OK)
        return status;
    if (type == TERN_V_ARRAY)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: element type is array; arrays of arrays are not read, "
                         "no known model needs one; " TERN_REMEDY_CONVERT,
                         parser->place);
    if (type != TERN_V_STRING && tern_value_bytes(type) == 0)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: value type %" PRIu32 " does not exist; " TERN_REMEDY_CONVERT,
                         parser->place, type);
    value->type = type;
    return TERN_OK;
}

/* An unsigned number of a key the parser itself needs. */
static enum tern_status take_number(struct tern_parser *parser, const struct value *value,
                                    uint64_t *number)
{
    *number = 0;
    switch (value->is_array ? TERN_V_ARRAY : value->type) {
    case TERN_V_U8:
    case TERN_V_U16:
    case TERN_V_U32:
    case TERN_V_U64:
        memcpy(number, value->numbers, tern_value_bytes(value->type));
        return TERN_OK;
    default:
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: value type %d is no unsigned integer; " TERN_REMEDY_CONVERT,
                         parser->place, (int)value->type);
    }
}

static enum tern_status take_alignment(struct tern_parser *parser, const struct value *value)
{
    const enum tern_status status = take_number(parser, value, &parser->alignment);
    if (status != TERN_OK)
        return status;
    if (parser->alignment != 0 && (parser->alignment & (parser->alignment - 1)) == 0)
        return TERN_OK;
    return tern_fail(parser->error, TERN_BAD_MODEL,
                     "%s is %" PRIu64 ", not a power of two; " TERN_REMEDY_CONVERT, parser->place,
                     parser->alignment);
}

static enum tern_status read_value(struct tern_parser *parser, struct value *value)
{
    const enum tern_status status = read_shape(parser, value);
    if (status != TERN_OK)
        return status;
    return value->type == TERN_V_STRING ? read_strings(parser, value) : read_numbers(parser, value);
}

static enum tern_status parse_key(struct tern_parser *parser, uint64_t index)
{
    char name[TERN_MAX_NAME + 1];
    size_t length;
    snprintf(parser->place, sizeof parser->place, "metadata key %" PRIu64, index);
    enum tern_status status = tern_parser_name(parser, name, &length);
    if (status != TERN_OK)
        return status;
    snprintf(parser->place, sizeof parser->place, "metadata key '%s'", name);

    struct value value = {.name = {name, length}, .count = 1};
    status = read_value(parser, &value);
    if (status == TERN_OK && strcmp(name, "general.alignment") == 0)
        status = take_alignment(parser, &value);
    if (status == TERN_OK && strcmp(name, "split.count") == 0)
        status = take_number(parser, &value, &parser->split_count);
    return status;
}

enum tern_status tern_parser_metadata(struct tern_parser *parser)
{
    enum tern_status status = TERN_OK;
    for (uint64_t i = 0; i < parser->keys && status == TERN_OK; i++)
        status = parse_key(parser, i);
    return status;
}
