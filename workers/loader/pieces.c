/* Cuts tensors at block borders, so that a piece can be checked by itself. */
#include "workers/loader/pieces.h"

#include "workers/loader/check.h"
#include <inttypes.h>
#include <stdlib.h>

static uint64_t piece_bytes(uint32_t type)
{
    return TERN_PIECE_BYTES - TERN_PIECE_BYTES % tern_check_unit(type);
}

static int compare_pieces(const void *a, const void *b)
{
    const struct tern_piece *left = a, *right = b;
    return (left->file_offset > right->file_offset) - (left->file_offset < right->file_offset);
}

static size_t count_pieces(const struct tern_catalog *catalog)
{
    size_t count = 0;
    for (uint32_t i = 0; i < tern_catalog_tensors(catalog); i++) {
        struct tern_tensor tensor;
        tern_catalog_tensor(catalog, i, &tensor);
        const uint64_t most = piece_bytes(tensor.type);
        count += tensor.bytes / most + (tensor.bytes % most != 0);
    }
    return count;
}

static size_t cut_tensor(const struct tern_catalog *catalog, uint32_t index, uint64_t to,
                         struct tern_piece *pieces)
{
    struct tern_tensor tensor;
    size_t count = 0;
    tern_catalog_tensor(catalog, index, &tensor);
    const uint64_t most = piece_bytes(tensor.type);
    for (uint64_t at = 0; at < tensor.bytes; at += most)
        pieces[count++] = (struct tern_piece){
            .file_offset = tensor.file_offset + at,
            .segment_offset = to + at,
            .bytes = (uint32_t)(tensor.bytes - at < most ? tensor.bytes - at : most),
            .tensor = index,
        };
    return count;
}

static enum tern_status cut_all(const struct tern_catalog *catalog, uint64_t weights_size,
                                uint64_t *offsets, struct tern_piece *pieces, size_t *count,
                                uint64_t *all, struct tern_error *error)
{
    uint64_t total;
    const enum tern_status status = tern_catalog_layout(catalog, offsets, &total, error);
    if (status != TERN_OK)
        return status;
    if (total > weights_size)
        return tern_fail(error, TERN_FAILED,
                         "the weights segment has %" PRIu64 " bytes, the tensors need %" PRIu64,
                         weights_size, total);
    *count = 0;
    for (uint32_t i = 0; i < tern_catalog_tensors(catalog); i++)
        *count += cut_tensor(catalog, i, offsets[i], pieces + *count);
    qsort(pieces, *count, sizeof *pieces, compare_pieces);
    *all = 0;
    for (size_t i = 0; i < *count; i++)
        *all += pieces[i].bytes;
    return TERN_OK;
}

enum tern_status tern_pieces_cut(const struct tern_catalog *catalog, uint64_t weights_size,
                                 struct tern_piece **out, size_t *count, uint64_t *all,
                                 struct tern_error *error)
{
    *out = NULL;
    uint64_t *offsets = malloc((tern_catalog_tensors(catalog) + 1) * sizeof *offsets);
    struct tern_piece *pieces = malloc((count_pieces(catalog) + 1) * sizeof *pieces);
    enum tern_status status = TERN_OK;
    if (offsets == NULL || pieces == NULL)
        status = tern_fail(error, TERN_NO_MEMORY, "no memory for the list of reads");
    else
        status = cut_all(catalog, weights_size, offsets, pieces, count, all, error);
    free(offsets);
    if (status != TERN_OK)
        free(pieces);
    else
        *out = pieces;
    return status;
}
