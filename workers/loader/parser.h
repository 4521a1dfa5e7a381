/* What the parts of the GGUF parser share: the place they read and the fields they read with. */
#ifndef TERN_LOADER_PARSER_H
#define TERN_LOADER_PARSER_H

#include "proto/catalog.h"
#include "workers/loader/source.h"

struct tern_parser {
    struct tern_source *source;
    struct tern_catalog_writer *writer;
    struct tern_error *error;
    char place[TERN_MAX_NAME + 64]; /* what is being read, for messages: "key 3 'general.name'" */
    uint64_t keys, tensors;
    uint64_t alignment;
    uint64_t split_count; /* 0 or 1: all in one file */
};

/* Reads a field; `field` is its name for the message when the file ends before it. */
enum tern_status tern_parser_read(struct tern_parser *parser, const char *field, void *to,
                                  size_t bytes);
enum tern_status tern_parser_u32(struct tern_parser *parser, const char *field, uint32_t *value);
enum tern_status tern_parser_u64(struct tern_parser *parser, const char *field, uint64_t *value);

/* TERN_OK if `count` records of at least `smallest` (> 0) bytes can be in the bytes left. */
enum tern_status tern_parser_fits(struct tern_parser *parser, const char *field, uint64_t count,
                                  uint64_t smallest);

/* Reads the name of a key or tensor: 1 to TERN_MAX_NAME bytes of UTF-8 without control characters,
 * NUL-terminated here. */
enum tern_status tern_parser_name(struct tern_parser *parser, char name[TERN_MAX_NAME + 1],
                                  size_t *length);

/* All metadata keys -> writer; sets alignment and split_count. */
enum tern_status tern_parser_metadata(struct tern_parser *parser);

/* The tensor directory -> writer, with places from the start of the file. */
enum tern_status tern_parser_directory(struct tern_parser *parser);

#endif
