/*
 * The tensor directory of a GGUF file: names, types, shapes and places, checked so that whoever
 * reads a tensor stays inside the file and no two tensors share bytes.
 */
#include "workers/loader/parser.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct entry {
    struct tern_tensor
        tensor; /* file_offset counts from the start of the data until all are read */
    char name[TERN_MAX_NAME + 1];
};

static enum tern_status read_sizes(struct tern_parser *parser, struct tern_tensor *tensor)
{
    enum tern_status status = tern_parser_u32(parser, "number of dimensions", &tensor->dimensions);
    if (status != TERN_OK)
        return status;
    if (tensor->dimensions < 1 || tensor->dimensions > TERN_MAX_DIMENSIONS)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: number of dimensions %" PRIu32
                         " is not in 1 to %d; " TERN_REMEDY_CONVERT,
                         parser->place, tensor->dimensions, TERN_MAX_DIMENSIONS);
    for (uint32_t i = 0; i < TERN_MAX_DIMENSIONS; i++) {
        tensor->size[i] = 1;
        if (i >= tensor->dimensions)
            continue;
        status = tern_parser_u64(parser, "dimension", &tensor->size[i]);
        if (status != TERN_OK)
            return status;
        if (tensor->size[i] == 0)
            return tern_fail(parser->error, TERN_BAD_MODEL,
                             "%s: dimension %" PRIu32 " is 0; " TERN_REMEDY_CONVERT, parser->place,
                             i);
    }
    return TERN_OK;
}

static enum tern_status measure(struct tern_parser *parser, struct tern_tensor *tensor)
{
    const struct tern_type_info *info = tern_type_info(tensor->type);
    if (info == NULL)
        return tern_fail(parser->error, TERN_UNSUPPORTED,
                         "%s: tensor type %" PRIu32
                         " is unknown; use a model file with another quantization",
                         parser->place, tensor->type);
    if (tensor->size[0] % info->block != 0)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: %" PRIu64 " columns are no multiple of the %" PRIu32
                         " elements of a %s block; " TERN_REMEDY_CONVERT,
                         parser->place, tensor->size[0], info->block, info->name);
    if (!tern_tensor_bytes(tensor->type, tensor->size, &tensor->bytes))
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "%s: dimensions %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                         " of type %s need more bytes than any file has; " TERN_REMEDY_CONVERT,
                         parser->place, tensor->size[0], tensor->size[1], tensor->size[2],
                         tensor->size[3], info->name);
    return TERN_OK;
}

static enum tern_status read_entry(struct tern_parser *parser, struct entry *entry, uint64_t index)
{
    struct tern_tensor *tensor = &entry->tensor;
    snprintf(parser->place, sizeof parser->place, "tensor %" PRIu64, index);
    enum tern_status status = tern_parser_name(parser, entry->name, &tensor->name.length);
    if (status != TERN_OK)
        return status;
    tensor->name.bytes = entry->name;
    snprintf(parser->place, sizeof parser->place, "tensor '%s'", entry->name);
    status = read_sizes(parser, tensor);
    if (status == TERN_OK)
        status = tern_parser_u32(parser, "type", &tensor->type);
    if (status == TERN_OK)
        status = tern_parser_u64(parser, "offset", &tensor->file_offset);
    return status == TERN_OK ? measure(parser, tensor) : status;
}

/* Turns an offset in the data into one in the file. */
static enum tern_status place(struct tern_parser *parser, struct tern_tensor *tensor,
                              uint64_t data_start)
{
    uint64_t start, end;
    const uint64_t offset = tensor->file_offset;
    if (offset % parser->alignment != 0)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "tensor '%s': offset %" PRIu64 " is no multiple of the alignment %" PRIu64
                         "; " TERN_REMEDY_CONVERT,
                         tensor->name.bytes, offset, parser->alignment);
    if (!tern_add(data_start, offset, &start) || !tern_add(start, tensor->bytes, &end) ||
        end > parser->source->size)
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "tensor '%s': %" PRIu64 " bytes at offset %" PRIu64
                         " of the data end after the file, which has %" PRIu64
                         " bytes; it is truncated or malformed, " TERN_REMEDY_AGAIN,
                         tensor->name.bytes, tensor->bytes, offset, parser->source->size);
    tensor->file_offset = start;
    return TERN_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct tern_tensor *left = *(const struct tern_tensor *const *)a;
    const struct tern_tensor *right = *(const struct tern_tensor *const *)b;
    return (left->file_offset > right->file_offset) - (left->file_offset < right->file_offset);
}

static enum tern_status check_overlaps(struct tern_parser *parser, const struct entry *entries)
{
    const struct tern_tensor **order = malloc((parser->tensors + 1) * sizeof *order);
    if (order == NULL)
        return tern_fail(parser->error, TERN_NO_MEMORY, "no memory to sort %" PRIu64 " tensors",
                         parser->tensors);
    for (uint64_t i = 0; i < parser->tensors; i++)
        order[i] = &entries[i].tensor;
    qsort(order, parser->tensors, sizeof *order, compare_places);
    enum tern_status status = TERN_OK;
    for (uint64_t i = 1; i < parser->tensors && status == TERN_OK; i++)
        if (order[i]->file_offset - order[i - 1]->file_offset < order[i - 1]->bytes)
            status =
                tern_fail(parser->error, TERN_BAD_MODEL,
                          "tensor '%s': overlaps tensor '%s' at byte %" PRIu64
                          " of the file; " TERN_REMEDY_CONVERT,
                          order[i]->name.bytes, order[i - 1]->name.bytes, order[i]->file_offset);
    free(order);
    return status;
}

static enum tern_status place_all(struct tern_parser *parser, struct entry *entries)
{
    uint64_t data_start;
    enum tern_status status = TERN_OK;
    if (!tern_align(parser->source->position, parser->alignment, &data_start))
        return tern_fail(parser->error, TERN_BAD_MODEL,
                         "metadata key 'general.alignment' is %" PRIu64
                         ", which no file can have; " TERN_REMEDY_CONVERT,
                         parser->alignment);
    for (uint64_t i = 0; i < parser->tensors && status == TERN_OK; i++)
        status = place(parser, &entries[i].tensor, data_start);
    return status == TERN_OK ? check_overlaps(parser, entries) : status;
}

enum tern_status tern_parser_directory(struct tern_parser *parser)
{
    struct entry *entries = malloc((parser->tensors + 1) * sizeof *entries);
    if (entries == NULL)
        return tern_fail(parser->error, TERN_NO_MEMORY, "no memory for %" PRIu64 " tensors",
                         parser->tensors);
    enum tern_status status = TERN_OK;
    for (uint64_t i = 0; i < parser->tensors && status == TERN_OK; i++)
        status = read_entry(parser, &entries[i], i);
    if (status == TERN_OK)
        status = place_all(parser, entries);
    for (uint64_t i = 0; i < parser->tensors && status == TERN_OK; i++)
        status = tern_catalog_put_tensor(parser->writer, &entries[i].tensor, parser->error);
    free(entries);
    return status;
}
