/*
 * The parser of GGUF files, versions 2 and 3, little-endian. Every number of the file is hostile:
 * counts are held against the bytes left before anything is allocated, sizes are computed with
 * checked arithmetic, nothing recurses. Source of the format: the public GGUF specification.
 */
#ifndef TERN_LOADER_GGUF_H
#define TERN_LOADER_GGUF_H

#include "proto/catalog.h"
#include "workers/loader/source.h"

/* Parses header, metadata and tensor directory from the source's start and writes the catalog into
 * `segment` (mapped writable, data size tern_catalog_bound(source->size) or more). Tensor data are
 * not read. TERN_BAD_MODEL: malformed or truncated; TERN_UNSUPPORTED: version 1, a version to come,
 * big-endian, split over files, or a tensor type nobody knows. The message names the part of the
 * file, the field, its value and a remedy. */
enum tern_status tern_gguf_parse(struct tern_source *source, const struct tern_segment *segment,
                                 struct tern_error *error);

#endif
