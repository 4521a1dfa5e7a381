/* Cores, instruction sets and the clock. */
#include "cmd/tern/doctor/checks.h"
#include "coordinator/cores.h"
#include "proto/cgroup.h"
#include "proto/tier.h"
#include "proto/wait.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_CPUS = 4096,
    CLOCK_READS = 10000,
    SLOW_CLOCK_NS = 300, /* a reading in user space takes some 20 to 50 */
};

/* The lowest number among the hardware threads of the core of this CPU; -1 if it is not online or
 * /sys is not there. */
static long first_of_core(int cpu)
{
    static const char *const files[] = {"core_cpus_list", "thread_siblings_list"};
    char path[128], text[4096];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, files[i]);
        if (tern_read_text(path, text, sizeof text) && text[0] >= '0' && text[0] <= '9')
            return strtol(text, NULL, 10);
    }
    return -1;
}

/* Physical cores that are online; 0 if /sys does not tell. */
static unsigned count_cores(void)
{
    unsigned cores = 0;
    for (int cpu = 0; cpu < MAX_CPUS; cpu++)
        cores += first_of_core(cpu) == cpu;
    return cores;
}

/* CPUs of the affinity mask; 0 if it cannot be read. */
static int count_allowed(void)
{
    cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
    const size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
    const bool known = set != NULL && sched_getaffinity(0, size, set) == 0;
    const int allowed = known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    return allowed;
}

void check_processors(struct finding *finding)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const unsigned cores = count_cores();
    const int allowed = count_allowed();
    const uint32_t quota = tern_cgroup_cores(""), threads = tern_usable_cores("");
    if (cores > 0)
        finding_say(finding, "%u cores with %.3g hardware threads each", cores,
                    (double)online / cores);
    else
        finding_say(finding, "%ld processors (cores unknown without /sys)", online);
    finding_say(finding, "%d may be used", allowed);
    if (quota != 0)
        finding_say(finding, "a quota of %u cores", quota);
    finding_say(finding, "%u threads compute by default", threads);
    finding_number(finding, "online", online > 0 ? (uint64_t)online : 0);
    if (cores > 0)
        finding_number(finding, "cores", cores);
    else
        finding_unknown(finding, "cores");
    finding_number(finding, "allowed", (uint64_t)allowed);
    if (quota != 0)
        finding_number(finding, "quota_cores", quota);
    else
        finding_unknown(finding, "quota_cores");
    finding_number(finding, "threads", threads);
}

void check_tiers(struct finding *finding)
{
    const enum tern_tier best = tern_best_tier();
    char text[128] = "";
    json_t *available = json_array();
    for (unsigned i = 0; i <= (unsigned)best; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ", " : "",
                 tern_tier_name((enum tern_tier)i));
        json_array_append_new(available, json_string(tern_tier_name((enum tern_tier)i)));
    }
    finding_say(finding, "%s; %s is used unless --tier says otherwise", text, tern_tier_name(best));
    json_object_set_new(finding->figures, "available", available);
    finding_text(finding, "chosen", tern_tier_name(best));
    if (best == TERN_SCALAR)
        finding_raise(finding, FINDING_NOTE,
                      "only slow scalar code runs here; on x86-64, AVX2 is needed for more (a "
                      "virtual machine must pass it through)");
}

void check_clock(struct finding *finding)
{
    char source[64] = "";
    const uint64_t begin = tern_now_ns();
    uint64_t end = begin;
    for (int i = 0; i < CLOCK_READS; i++)
        end = tern_now_ns();
    const double each = (double)(end - begin) / CLOCK_READS;
    if (tern_read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
                       sizeof source)) {
        source[strcspn(source, "\n")] = '\0';
        finding_text(finding, "source", source);
    } else {
        finding_unknown(finding, "source");
    }
    finding_real(finding, "read_ns", each);
    finding_say(finding, "%s, %.0f ns a reading", source[0] != '\0' ? source : "unknown source",
                each);
    if (each > SLOW_CLOCK_NS)
        finding_raise(finding, FINDING_NOTE,
                      "the kernel's parameter clocksource=tsc makes readings cheap where the "
                      "processor's counter is reliable");
}
