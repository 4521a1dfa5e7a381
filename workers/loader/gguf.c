/* The header of a GGUF file and the order of its parts; parser.h names who reads the others. */
#include "workers/loader/gguf.h"

#include "proto/utf8.h"
#include "workers/loader/parser.h"
#include <inttypes.h>
#include <string.h>

/* The formats on disk and in this process's memory are both little-endian. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields are read by memcpy");

enum {
    HEADER_BYTES = 24,
    SMALLEST_KEY = 8 + 1 + 4 + 1,            /* name length, name, type, value */
    SMALLEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, /* name, dimensions, one size, type, offset */
    DEFAULT_ALIGNMENT = 32,
};

enum tern_status tern_parser_read(struct tern_parser *parser, const char *field, void *to,
                                  size_t bytes)
{
    const uint64_t left = tern_source_left(parser->source);
    if (bytes <= left)
        return tern_source_read(parser->source, to, bytes, parser->error);
    return tern_fail(parser->error, TERN_BAD_MODEL,
                     "%s: %s needs %zu bytes at byte %" PRIu64
                     ", but the file ends at byte %" PRIu64 "; it is truncated, " TERN_REMEDY_AGAIN,
                     parser->place, field, bytes, parser->source->position, parser->source->size);
}

enum tern_status tern_parser_u32(struct tern_parser *parser, const char *field, uint32_t *value)
{
    return tern_parser_read(parser, field, value, sizeof *value);
}

enum tern_status tern_parser_u64(struct tern_parser *parser, const char *field, uint64_t *value)
{
    return tern_parser_read(parser, field, value, sizeof *value);
}

enum tern_status tern_parser_fits(struct tern_parser *parser, const char *field, uint64_t count,
                                  uint64_t smallest)
{
    const uint64_t left = tern_source_left(parser->source);
    if (count <= left / smallest)
        return TERN_OK;
    return tern_fail(parser->error, TERN_BAD_MODEL,
                     "%s: %s %" PRIu64 " cannot be right: the file has only %" PRIu64
                     " bytes left; it is truncated or malformed, " TERN_REMEDY_AGAIN,
                     parser->place, field, count, left);
}

static bool is_readable(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (tern_utf8_control(name + i) > 0)
            return false;
    return tern_utf8_valid(name, length);
}

enum tern_status tern_parser_name(struct tern_parser *parser, char name[TERN_MAX_NAME + 1],
                                  size_t *length)
{
    uint64_t bytes;
    enum tern_status status = tern_parser_u64(parser, "name length", &bytes);
    if (status != TERN_OK)
        return status;
    if (bytes == 0 || bytes > TERN_MAX_NAME)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: name length %" PRIu64 " is not in 1 to %d; " TERN_REMEDY_CONVERT,
                         parser->place, bytes, TERN_MAX_NAME);
    status = tern_parser_read(parser, "name", name, bytes);
    if (status != TERN_OK)
        return status;
    name[bytes] = '\0';
    *length = bytes;
    if (is_readable(name, bytes))
        return TERN_OK;
    return tern_fail(parser->error, TERN_BAD_MODEL,
                     "%s: name '%s' is not readable UTF-8 text; " TERN_REMEDY_CONVERT,
                     parser->place, name);
}

static enum tern_status check_version(struct tern_parser *parser, uint32_t version)
{
    const uint32_t swapped = __builtin_bswap32(version);
    if (version == 2 || version == 3)
        return TERN_OK;
    if (swapped >= 1 && swapped <= 3)
        return tern_fail(parser->error, TERN_UNSUPPORTED,
                         "header: version 0x%08" PRIx32 " is %" PRIu32
                         " in big-endian byte order; big-endian files are not supported, get the "
                         "little-endian one",
                         version, swapped);
    if (version == 1)
        return tern_fail(parser->error, TERN_UNSUPPORTED,
                         "header: version 1 of GGUF is not supported; convert the model anew "
                         "(versions 2 and 3 are read)");
    if (version >= 4 && version <= 255)
        return tern_fail(
            parser->error, TERN_UNSUPPORTED,
            "header: version %" PRIu32
            " of GGUF is not supported (versions 2 and 3 are); a newer Tern may read it",
            version);
    return tern_fail(parser->error, TERN_BAD_MODEL,
                     "header: version %" PRIu32 " of GGUF does not exist; " TERN_REMEDY_CONVERT,
                     version);
}

static enum tern_status check_counts(struct tern_parser *parser)
{
    enum tern_status status =
        tern_parser_fits(parser, "tensor count", parser->tensors, SMALLEST_TENSOR);
    if (status == TERN_OK)
        status = tern_parser_fits(parser, "metadata key count", parser->keys, SMALLEST_KEY);
    if (status != TERN_OK)
        return status;
    if (parser->tensors > TERN_MAX_TENSORS)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "header: tensor count %" PRIu64
                         " is above the limit of %d; " TERN_REMEDY_CONVERT,
                         parser->tensors, TERN_MAX_TENSORS);
    if (parser->keys > TERN_MAX_KEYS)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "header: metadata key count %" PRIu64
                         " is above the limit of %d; " TERN_REMEDY_CONVERT,
                         parser->keys, TERN_MAX_KEYS);
    return TERN_OK;
}

static enum tern_status parse_header(struct tern_parser *parser)
{
    unsigned char magic[4];
    uint32_t version = 0;
    if (parser->source->size == 0)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "header: the file is empty; " TERN_REMEDY_AGAIN);
    enum tern_status status = tern_parser_read(parser, "magic", magic, sizeof magic);
    if (status != TERN_OK)
        return status;
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "header: magic is %02x %02x %02x %02x, not 'GGUF'; this is no GGUF model "
                         "file, get the model in that format",
                         magic[0], magic[1], magic[2], magic[3]);
    status = tern_parser_u32(parser, "version", &version);
    if (status == TERN_OK)
        status = check_version(parser, version);
    if (status == TERN_OK)
        status = tern_parser_u64(parser, "tensor count", &parser->tensors);
    if (status == TERN_OK)
        status = tern_parser_u64(parser, "metadata key count", &parser->keys);
    return status == TERN_OK ? check_counts(parser) : status;
}

static enum tern_status check_split(struct tern_parser *parser)
{
    if (parser->split_count <= 1)
        return TERN_OK;
    return tern_fail(parser->error, TERN_UNSUPPORTED,
                     "key 'split.count' is %" PRIu64
                     ": the model is split over several files, which is not supported; merge them "
                     "into one file first",
                     parser->split_count);
}

enum tern_status tern_gguf_parse(struct tern_source *source, const struct tern_segment *segment,
                                 struct tern_error *error)
{
    struct tern_parser parser = {
        .source = source, .error = error, .place = "header", .alignment = DEFAULT_ALIGNMENT};
    enum tern_status status = parse_header(&parser);
    if (status == TERN_OK)
        status = tern_catalog_begin(segment, (uint32_t)parser.keys, (uint32_t)parser.tensors,
                                    &parser.writer, error);
    if (status == TERN_OK)
        status = tern_parser_metadata(&parser);
    if (status == TERN_OK)
        status = check_split(&parser);
    if (status == TERN_OK)
        status = tern_parser_directory(&parser);
    if (status == TERN_OK)
        return tern_catalog_end(parser.writer, source->size, error);
    tern_catalog_abandon(parser.writer);
    return status;
}
