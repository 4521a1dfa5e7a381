/*
 * The service's log file, bounded: when it would grow over its limit it becomes FILE.1 (the one
 * before is gone) and a new one begins. No line is lost by that, also when several services share
 * the file. A full disk costs lines, never the service; how many is said when there is room again.
 */
#ifndef TERN_LOG_FILE_H
#define TERN_LOG_FILE_H

#include "proto/status.h"
#include <stdint.h>

enum { TERN_LOG_FILE_BYTES = 4 << 20 };

/* From now on tern_log writes to `path` (a string that lives for ever), and so does whoever writes
 * to standard error. `most`: bytes of the file at most. For one thread. TERN_FAILED. */
enum tern_status tern_log_file(const char *path, uint64_t most, struct tern_error *error);

#endif
