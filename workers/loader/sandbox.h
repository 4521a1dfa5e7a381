/*
 * The loader's cage. After tern_sandbox_enter the process can read the model file it was given,
 * write segments it was given, talk on its channel, and use memory in proportion to the file; it
 * cannot open, connect, start or signal anything. Any other system call kills it (SIGSYS), which
 * the coordinator sees as the death of a loader.
 */
#ifndef TERN_LOADER_SANDBOX_H
#define TERN_LOADER_SANDBOX_H

#include "proto/status.h"
#include <stdint.h>

/* Closes the cage for good, for all threads. `channel`: the only socket that stays usable;
 * `file_bytes`: size of the model file, which bounds memory. Call once everything that needs more
 * is done: threads started, segments mapped. TERN_FAILED: this kernel cannot do it, do not go on.
 */
enum tern_status tern_sandbox_enter(int channel, uint64_t file_bytes, struct tern_error *error);

#endif
