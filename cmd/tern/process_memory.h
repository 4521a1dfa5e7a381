/* How much memory a process has, read from /proc. */
#ifndef TERN_CMD_PROCESS_MEMORY_H
#define TERN_CMD_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct process_memory {
    uint64_t rss; /* bytes in RAM */
    uint64_t pss; /* the same, shared pages divided by the number of processes that share them */
};

/* False if the process is gone or may not be looked at. */
bool process_memory(int pid, struct process_memory *memory);

#endif
