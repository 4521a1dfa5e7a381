/* The list of reads that a model's tensors are cut into. */
#ifndef TERN_LOADER_PIECES_H
#define TERN_LOADER_PIECES_H

#include "proto/catalog.h"

/* At most this many bytes; measured: from 256 KiB to 4 MiB no difference while two threads read,
 * and 1 MiB stays in a core's second-level cache until it has been checked and written. */
enum { TERN_PIECE_BYTES = 1 << 20 };

/* A run of whole blocks of one tensor, or the part of a tensor behind its blocks. */
struct tern_piece {
    uint64_t file_offset;
    uint64_t segment_offset; /* in the weights segment's data */
    uint32_t bytes;          /* 1 .. TERN_PIECE_BYTES */
    uint32_t tensor;
};

/* All pieces of all tensors in the file's order, malloc'ed; *all = sum of their bytes. Fails if the
 * layout does not fit `weights_size` bytes. */
enum tern_status tern_pieces_cut(const struct tern_catalog *catalog, uint64_t weights_size,
                                 struct tern_piece **out, size_t *count, uint64_t *all,
                                 struct tern_error *error);

#endif
