/* What memory there is, what control groups leave of it, and its pages. */
#include "coordinator/memory.h"
#include "cmd/tern/doctor/checks.h"
#include "proto/cgroup.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, LITTLE_ROOM = 512 * MIB };

void check_memory(struct finding *finding)
{
    struct tern_memory memory;
    struct tern_error error;
    uint64_t room;
    enum tern_status status = tern_memory_read("", &memory, &error);
    if (status == TERN_OK)
        status = tern_memory_room(&room, &error);
    if (status != TERN_OK) {
        finding_say(finding, "%s", error.message);
        finding_raise(finding, FINDING_PROBLEM,
                      status == TERN_USAGE ? "correct it: until then the service loads no model"
                                           : "mount /proc: without it the service loads no model");
        return;
    }
    finding_number(finding, "total_bytes", memory.total);
    finding_number(finding, "available_bytes", memory.available);
    finding_number(finding, "usable_bytes", room);
    finding_say(finding,
                "%" PRIu64 " MiB, %" PRIu64 " MiB available, of which models may use %" PRIu64
                " MiB now",
                memory.total / MIB, memory.available / MIB, room / MIB);
    if (room == 0)
        finding_raise(finding, FINDING_PROBLEM,
                      "no model can be loaded: end other programs, raise the container's limit, or "
                      "start the service with a smaller TERN_RESERVE_MIB");
    else if (room < LITTLE_ROOM)
        finding_raise(finding, FINDING_NOTE,
                      "only the smallest models fit; end other programs or raise the limit");
}

/* The tightest limit on memory at any level, with the bytes used there; false if there is none.
 * Version 1 says "no limit" with a number near 2^63. */
static bool tightest(bool version1, uint64_t *limit, uint64_t *used)
{
    struct tern_cgroup group;
    uint64_t value;
    *limit = UINT64_MAX / 4;
    bool more = tern_cgroup_find("", version1 ? "memory" : NULL, &group);
    for (; more; more = tern_cgroup_up(&group)) {
        if (!tern_cgroup_number(&group, version1 ? "memory.limit_in_bytes" : "memory.max",
                                &value) ||
            value >= *limit)
            continue;
        *limit = value;
        if (!tern_cgroup_number(&group, version1 ? "memory.usage_in_bytes" : "memory.current",
                                used))
            *used = 0;
    }
    return *limit < UINT64_MAX / 4;
}

/* 0: no control groups are to be seen. */
static int find_version(void)
{
    static const char *const controllers[] = {"memory", "cpu", NULL};
    struct tern_cgroup group;
    for (size_t i = 0; i < 3; i++)
        if (tern_cgroup_find("", controllers[i], &group) && access(group.path, F_OK) == 0)
            return controllers[i] != NULL ? 1 : 2;
    return 0;
}

void check_cgroup(struct finding *finding)
{
    const int version = find_version();
    const uint32_t quota = tern_cgroup_cores("");
    uint64_t limit[2], used[2];
    const bool limited[2] = {tightest(false, &limit[0], &used[0]),
                             tightest(true, &limit[1], &used[1])};
    const int which = limited[1] && (!limited[0] || limit[1] < limit[0]);
    finding_number(finding, "version", (uint64_t)version);
    if (version == 0)
        finding_say(finding, "none to be seen, so no limits of a container are known");
    else
        finding_say(finding, "version %d", version);
    if (limited[which]) {
        finding_number(finding, "memory_limit_bytes", limit[which]);
        finding_number(finding, "memory_used_bytes", used[which]);
        finding_say(finding, "%" PRIu64 " of at most %" PRIu64 " MiB used", used[which] / MIB,
                    limit[which] / MIB);
    } else {
        finding_unknown(finding, "memory_limit_bytes");
        finding_unknown(finding, "memory_used_bytes");
        if (version != 0)
            finding_say(finding, "no limit of memory");
    }
    if (quota != 0) {
        finding_number(finding, "quota_cores", quota);
        finding_say(finding, "CPU time of %u cores", quota);
    } else {
        finding_unknown(finding, "quota_cores");
        if (version != 0)
            finding_say(finding, "no limit of CPU time");
    }
}

/* The word in brackets, of a file such as "always advise [never]". */
static bool chosen_word(char *text, const char **word)
{
    char *open = strchr(text, '['), *shut = open != NULL ? strchr(open, ']') : NULL;
    if (shut == NULL)
        return false;
    *shut = '\0';
    *word = open + 1;
    return true;
}

/* Segments are memfds that ask for nothing, so that "advise" gives them no huge pages. */
void check_huge_pages(struct finding *finding)
{
    static const char file[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    char text[256];
    const char *word;
    if (!tern_read_text(file, text, sizeof text) || !chosen_word(text, &word)) {
        finding_unknown(finding, "shmem_enabled");
        finding_say(finding, "unknown for shared memory (no %s)", file);
        return;
    }
    finding_text(finding, "shmem_enabled", word);
    const bool on = strcmp(word, "always") == 0 || strcmp(word, "within_size") == 0 ||
                    strcmp(word, "force") == 0;
    finding_say(finding, "%s for shared memory (shmem_enabled is %s)", on ? "used" : "not used",
                word);
    if (!on)
        finding_raise(finding, FINDING_NOTE,
                      "weights would lie in pages of 2 MiB in place of 4 KiB: fewer misses of the "
                      "page tables' cache, quicker loading. As root: echo within_size > %s, then "
                      "load models anew",
                      file);
}
