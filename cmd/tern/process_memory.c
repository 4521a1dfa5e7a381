#include "cmd/tern/process_memory.h"

#include <stdio.h>

bool process_memory(int pid, struct process_memory *memory)
{
    char path[64], line[256];
    unsigned long long kib;
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "Rss: %llu", &kib) == 1) {
            memory->rss = kib * 1024;
            found++;
        } else if (sscanf(line, "Pss: %llu", &kib) == 1) {
            memory->pss = kib * 1024;
            found++;
        }
    }
    fclose(file);
    return found == 2;
}
