/*
 * How many threads can really run: the processor's own list of siblings (two hardware threads of a
 * core share its arithmetic units), the affinity mask, and CPU quotas of the control groups, under
 * which more threads only wait for each other.
 */
#include "coordinator/cores.h"

#include "proto/board.h"
#include "proto/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CPUS = 4096 };

/* Marks the CPUs of a list such as "0-3,8,10-11". False if the text is no such list. */
static bool parse_list(const char *text, bool cpu[MAX_CPUS])
{
    memset(cpu, 0, MAX_CPUS * sizeof *cpu);
    text += strspn(text, " \t");
    bool any = false;
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < MAX_CPUS; first++)
            any = cpu[first] = true;
        text = end + (*end == ',');
    }
    return any;
}

static bool read_affinity(const char *root, bool cpu[MAX_CPUS])
{
    static const char key[] = "\nCpus_allowed_list:";
    char path[PATH_MAX], text[16384];
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    if (!tern_read_text(path, text, sizeof text))
        return false;
    const char *line = strstr(text, key);
    return line != NULL && parse_list(line + sizeof key - 1, cpu);
}

/* True if no allowed CPU with a lower number is on the same core. Containers may lack /sys: then
 * every CPU counts. */
static bool is_first_of_core(const char *root, uint32_t index, const bool allowed[MAX_CPUS])
{
    static const char *const files[] = {"core_cpus_list", "thread_siblings_list"};
    bool sibling[MAX_CPUS];
    char path[PATH_MAX], text[4096];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/topology/%s", root, index,
                 files[i]);
        if (!tern_read_text(path, text, sizeof text) || !parse_list(text, sibling))
            continue;
        for (uint32_t other = 0; other < index; other++)
            if (sibling[other] && allowed[other])
                return false;
        return true;
    }
    return true;
}

static uint32_t allowed_cores(const char *root)
{
    bool allowed[MAX_CPUS];
    if (!read_affinity(root, allowed))
        return 1;
    uint32_t cores = 0;
    for (uint32_t i = 0; i < MAX_CPUS; i++)
        cores += allowed[i] && is_first_of_core(root, i, allowed);
    return cores;
}

uint32_t tern_usable_cores(const char *root)
{
    const uint32_t cores = allowed_cores(root), quota = tern_cgroup_cores(root);
    const uint32_t usable = quota != 0 && quota < cores ? quota : cores;
    return usable < TERN_MAX_THREADS ? usable : TERN_MAX_THREADS;
}
