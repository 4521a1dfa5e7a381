#include "topology.h"

#include <hwloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool allowed(const cpu_set_t *mask, unsigned cpu)
{
    return cpu < CPU_SETSIZE && CPU_ISSET(cpu, mask);
}

static void add_core(struct tern_cores *cores, unsigned cpu)
{
    if (cores->count < TERN_MAX_THREADS)
        cores->cpu[cores->count++] = cpu;
}

/* The first processor of every core that the affinity mask lets us use. */
static void add_physical_cores(hwloc_topology_t topology, const cpu_set_t *mask,
                               struct tern_cores *cores)
{
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != NULL) {
        unsigned cpu;
        hwloc_bitmap_foreach_begin(cpu, core->cpuset) if (allowed(mask, cpu))
        {
            add_core(cores, cpu);
            break;
        }
        hwloc_bitmap_foreach_end();
    }
}

static void ask_hwloc(const char *xml, const cpu_set_t *mask, struct tern_cores *cores)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return;
    const bool set = xml == NULL || hwloc_topology_set_xml(topology, xml) == 0;
    if (set && hwloc_topology_load(topology) == 0)
        add_physical_cores(topology, mask, cores);
    hwloc_topology_destroy(topology);
}

static void add_processors(const cpu_set_t *mask, struct tern_cores *cores)
{
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, mask))
            add_core(cores, cpu);
}

/* cpu.max holds "QUOTA PERIOD" or "max PERIOD"; cgroup v1 splits it over two files. 0: no limit. */
static uint32_t quota_in(const char *folder)
{
    char path[4200];
    double quota = -1, period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%lf %lf", &quota, &period) != 2)
            quota = -1;
        fclose(file);
    }
    if (quota <= 0 || period <= 0)
        return 0;
    return quota < period ? 1 : (uint32_t)(quota / period);
}

static uint32_t quota_v1(const char *group)
{
    char path[4200];
    double value[2] = {-1, 0};
    static const char *const names[2] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/%s", group, names[i]);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            return 0;
        if (fscanf(file, "%lf", &value[i]) != 1)
            value[i] = -1;
        fclose(file);
    }
    if (value[0] <= 0 || value[1] <= 0)
        return 0;
    return value[0] < value[1] ? 1 : (uint32_t)(value[0] / value[1]);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The tightest quota from this process's cgroup up to the root, in whole cores; 0: none. */
static uint32_t quota(void)
{
    char line[4096];
    uint32_t tightest = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL)
        return quota_in("/sys/fs/cgroup");
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *group = strrchr(line, ':');
        if (group == NULL || *++group != '/')
            continue;
        const bool second = strncmp(line, "0::", 3) == 0;
        for (;;) {
            char folder[4160];
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", group);
            tightest = least(tightest, second ? quota_in(folder) : quota_v1(group));
            char *slash = strrchr(group, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
    fclose(file);
    return tightest;
}

void tern_cores_find(const char *xml, struct tern_cores *cores)
{
    cpu_set_t mask;
    *cores = (struct tern_cores){0};
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
        CPU_ZERO(&mask);
        CPU_SET(0, &mask);
    }
    ask_hwloc(xml, &mask, cores);
    if (cores->count == 0)
        add_processors(&mask, cores);
    const uint32_t limit = quota();
    cores->usable = limit != 0 && limit < cores->count ? limit : cores->count;
}
