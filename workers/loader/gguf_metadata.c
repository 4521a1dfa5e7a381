/*
 * The metadata of a GGUF file: keys with scalars, strings and flat arrays. Memory follows the bytes
 * that the file really has: an array's elements are counted against the bytes left first.
 */
#include "workers/loader/parser.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key's value while it is on its way from the file to the catalog. */
struct value {
    enum tern_value_type type; /* of the elements */
    bool is_array;
    uint64_t count;
    void *numbers;               /* packed elements */
    struct tern_string *strings; /* pointing into `text` once all are read */
    char *text;
    size_t text_bytes, text_room;
};

static void free_value(struct value *value)
{
    free(value->numbers);
    free(value->strings);
    free(value->text);
}

static enum tern_status no_memory(struct tern_parser *parser, uint64_t bytes)
{
    return tern_fail(parser->error, TERN_NO_MEMORY,
                     "%s: no memory for a value of %" PRIu64 " bytes", parser->place, bytes);
}

static bool make_room(struct value *value, size_t bytes)
{
    if (bytes <= value->text_room - value->text_bytes)
        return true;
    size_t room = value->text_room < 4096 ? 4096 : value->text_room;
    while (room - value->text_bytes < bytes)
        room *= 2;
    char *text = realloc(value->text, room);
    if (text == NULL)
        return false;
    value->text = text;
    value->text_room = room;
    return true;
}

/* Appends one string to value->text. */
static enum tern_status read_string(struct tern_parser *parser, struct value *value,
                                    struct tern_string *string)
{
    uint64_t length;
    enum tern_status status = tern_parser_u64(parser, "string length", &length);
    if (status != TERN_OK)
        return status;
    status = tern_parser_fits(parser, "string length", length, 1);
    if (status != TERN_OK)
        return status;
    if (length > TERN_MAX_STRING)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: a string of %" PRIu64
                         " bytes is above the limit of %d; " TERN_REMEDY_CONVERT,
                         parser->place, length, TERN_MAX_STRING);
    if (!make_room(value, length))
        return no_memory(parser, length);
    string->length = length;
    status = length == 0
                 ? TERN_OK
                 : tern_parser_read(parser, "string", value->text + value->text_bytes, length);
    value->text_bytes += length;
    return status;
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
    value->strings = malloc((value->count + 1) * sizeof *value->strings);
    if (value->strings == NULL)
        return no_memory(parser, value->count * sizeof *value->strings);
    for (uint64_t i = 0; i < value->count && status == TERN_OK; i++)
        status = read_string(parser, value, &value->strings[i]);
    if (status != TERN_OK)
        return status;
    /* Only now: the text does not move any more. */
    const char *at = value->text != NULL ? value->text : "";
    for (uint64_t i = 0; i < value->count; i++) {
        value->strings[i].bytes = at;
        at += value->strings[i].length;
    }
    return TERN_OK;
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
    if (status != TERN_OK)
        return status;
    if (value->count > TERN_MAX_METADATA / each)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: array length %" PRIu64
                         " is above the limit of %d bytes; " TERN_REMEDY_CONVERT,
                         parser->place, value->count, TERN_MAX_METADATA);
    value->numbers = malloc(value->count * each + 1);
    if (value->numbers == NULL)
        return no_memory(parser, value->count * each);
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
                         "no known model needs one",
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

    struct value value = {.count = 1};
    status = read_value(parser, &value);
    if (status == TERN_OK && strcmp(name, "general.alignment") == 0)
        status = take_alignment(parser, &value);
    if (status == TERN_OK && strcmp(name, "split.count") == 0)
        status = take_number(parser, &value, &parser->split_count);
    const void *elements = value.type == TERN_V_STRING ? (void *)value.strings : value.numbers;
    if (status == TERN_OK)
        status =
            tern_catalog_put_key(parser->writer, (struct tern_string){name, length}, value.type,
                                 value.is_array, elements, value.count, parser->error);
    free_value(&value);
    return status;
}

enum tern_status tern_parser_metadata(struct tern_parser *parser)
{
    enum tern_status status = TERN_OK;
    for (uint64_t i = 0; i < parser->keys && status == TERN_OK; i++)
        status = parse_key(parser, i);
    return status;
}
