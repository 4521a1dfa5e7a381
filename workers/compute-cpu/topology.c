#include "topology.h"

#include "proto/cgroup.h"
#include <hwloc.h>
#include <sched.h>
#include <stdbool.h>

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
    const uint32_t processors = (uint32_t)CPU_COUNT(&mask), limit = tern_cgroup_cores("");
    cores->usable = limit != 0 && limit < cores->count ? limit : cores->count;
    cores->runnable = limit != 0 && limit < processors ? limit : processors;
}
