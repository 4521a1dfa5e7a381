/*
 * A file that comes into being whole or not at all: it is written under another name beside it and
 * then renamed, so that a full disk, a signal or a crash leaves what was there before. A link
 * stays: what it points to is replaced. Devices, pipes and the like are written to as they are.
 */
#ifndef TERN_CMD_NEW_FILE_H
#define TERN_CMD_NEW_FILE_H

#include "proto/status.h"
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct new_file {
    FILE *out;
    const char *name;       /* as the caller knows it, for messages */
    char *path, *temporary; /* NULL: written to as it is */
    int failure;            /* errno of the first new_file_write that failed */
};

/* `path` must outlive the file; `mode` is lessened by the umask. TERN_USAGE (it cannot be written),
 * TERN_NO_MEMORY. */
enum tern_status new_file_open(struct new_file *file, const char *path, mode_t mode,
                               struct tern_error *error);

/* Writes more; `out` will do as well, but for the reason of a failure. */
bool new_file_write(struct new_file *file, const void *bytes, size_t length);

/* Puts it in its place if `status` is TERN_OK and all was written, else removes it. Returns
 * `status`, or TERN_FAILED with a message where that was TERN_OK. */
enum tern_status new_file_close(struct new_file *file, enum tern_status status,
                                struct tern_error *error);

#endif
