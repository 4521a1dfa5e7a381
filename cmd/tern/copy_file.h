/* Bringing a file into a folder: a second name for it where that is possible, else a copy. */
#ifndef TERN_CMD_COPY_FILE_H
#define TERN_CMD_COPY_FILE_H

#include "proto/status.h"
#include <stdbool.h>
#include <stdint.h>

/* Makes `name`, which does not exist, in `folder`: a hard link to the open file, or a copy of it
 * (sharing its blocks where the file system can), on disk when this returns. *linked says which.
 * Progress on terminals; Ctrl-C ends it (TERN_INTERRUPTED). Removes what it made when it fails. */
enum tern_status bring_file(int file, int folder, const char *name, bool *linked,
                            struct tern_error *error);

/* Do the two hold the same bytes? */
enum tern_status same_content(int a, int b, bool *same, struct tern_error *error);

#endif
