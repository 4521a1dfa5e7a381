/*
 * How many threads can really run: the processor's own list of siblings (two hardware threads of a
 * core share its arithmetic units), the affinity mask, and CPU quotas of the control groups, under
 * which more threads only wait for each other.
 */
#include "coordinator/cgroup.h"
#include "coordinator/memory.h"

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

/* Whole cores of one group's quota, or 0 if it has none. */
static uint64_t quota_of(const struct tern_cgroup *group, bool version1)
{
    uint64_t quota, period;
    char text[128], *end;
    if (version1) {
        if (!tern_cgroup_number(group, "cpu.cfs_quota_us", &quota) ||
            !tern_cgroup_number(group, "cpu.cfs_period_us", &period))
            return 0;
    } else {
        if (!tern_cgroup_read(group, "cpu.max", text, sizeof text) || text[0] < '0' ||
            text[0] > '9')
            return 0;
        quota = strtoull(text, &end, 10);
        period = strtoull(end, NULL, 10);
    }
    if (period == 0)
        return 0;
    return quota / period > 0 ? quota / period : 1;
}

uint32_t tern_usable_cores(const char *root)
{
    uint64_t cores = allowed_cores(root);
    for (int version1 = 0; version1 < 2; version1++) {
        struct tern_cgroup group;
        bool more = tern_cgroup_find(root, version1 ? "cpu" : NULL, &group);
        for (; more; more = tern_cgroup_up(&group)) {
            const uint64_t quota = quota_of(&group, version1);
            if (quota != 0 && quota < cores)
                cores = quota;
        }
    }
    return (uint32_t)cores;
}
