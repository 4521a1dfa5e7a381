/*
 * Free memory, as the machine and every control group above this process see it. Each of them is a
 * limit with a reserve of its own; the one that leaves least decides.
 */
#include "coordinator/memory.h"

#include "proto/cgroup.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t MIN_RESERVE = (uint64_t)1 << 30;

/* Version 1 and 2 of the same three facts. */
struct group_files {
    const char *controller; /* NULL: version 2 */
    const char *limit[2];   /* the second may be NULL */
    const char *usage;
    const char *inactive; /* in memory.stat: page cache that is given back on demand */
};

static const struct group_files versions[] = {
    {NULL, {"memory.max", "memory.high"}, "memory.current", "inactive_file"},
    {"memory", {"memory.limit_in_bytes", NULL}, "memory.usage_in_bytes", "total_inactive_file"},
};

/* What may be used after the reserve. */
static uint64_t usable(const struct tern_memory *memory)
{
    return memory->available > memory->reserve ? memory->available - memory->reserve : 0;
}

/* Keeps the tighter of the two. */
static void tighten(struct tern_memory *memory, const struct tern_memory *other)
{
    if (usable(other) < usable(memory))
        *memory = *other;
}

static enum tern_status read_machine(const char *root, struct tern_memory *memory,
                                     struct tern_error *error)
{
    char path[PATH_MAX], text[8192];
    uint64_t total, available;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!tern_read_text(path, text, sizeof text) || !tern_find_number(text, "MemTotal", &total))
        return tern_fail(error, TERN_FAILED, "cannot read the size of RAM from %s", path);
    if (!tern_find_number(text, "MemAvailable", &available) &&
        !tern_find_number(text, "MemFree", &available))
        return tern_fail(error, TERN_FAILED, "cannot read what memory is free from %s", path);
    if (total > UINT64_MAX / 1024)
        return tern_fail(error, TERN_FAILED, "%s makes no sense", path);
    if (available > total) /* a container's view, patched together from two sources */
        available = total;
    *memory = (struct tern_memory){.total = total * 1024, .available = available * 1024};
    memory->reserve = memory->total / 10;
    if (memory->reserve < MIN_RESERVE)
        memory->reserve = MIN_RESERVE;
    return TERN_OK;
}

/* One level of a hierarchy: false if it sets no limit. Nobody else lives under the limit, so the
 * reserve has no lower bound there. */
static bool read_group(const struct tern_cgroup *group, const struct group_files *files,
                       struct tern_memory *memory)
{
    uint64_t limit = UINT64_MAX, usage, inactive = 0, found;
    for (int i = 0; i < 2; i++)
        if (files->limit[i] != NULL && tern_cgroup_number(group, files->limit[i], &found) &&
            found < limit)
            limit = found;
    if (limit == UINT64_MAX)
        return false;
    if (!tern_cgroup_number(group, files->usage, &usage))
        usage = 0; /* not to be known; the limit still holds */
    (void)tern_cgroup_stat(group, "memory.stat", files->inactive, &inactive);
    usage = usage > inactive ? usage - inactive : 0;
    *memory = (struct tern_memory){
        .total = limit, .available = limit > usage ? limit - usage : 0, .reserve = limit / 10};
    return true;
}

enum tern_status tern_memory_read(const char *root, struct tern_memory *memory,
                                  struct tern_error *error)
{
    const enum tern_status status = read_machine(root, memory, error);
    if (status != TERN_OK)
        return status;
    const uint64_t ram = memory->total;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct tern_cgroup group;
        struct tern_memory limit;
        bool more = tern_cgroup_find(root, versions[i].controller, &group);
        for (; more; more = tern_cgroup_up(&group))
            if (read_group(&group, &versions[i], &limit) && limit.total < ram)
                tighten(memory, &limit);
    }
    return TERN_OK;
}

/* What a person set instead of the usual reserve. What is no number must not pass for none. */
static enum tern_status override_reserve(uint64_t *reserve, struct tern_error *error)
{
    const char *text = getenv("TERN_RESERVE_MIB");
    char *end;
    if (text == NULL || text[0] == '\0')
        return TERN_OK;
    errno = 0;
    const unsigned long long mib = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || mib > UINT64_MAX >> 20)
        return tern_fail(error, TERN_USAGE,
                         "TERN_RESERVE_MIB is '%s' in the service's environment; it must be a "
                         "number of MiB",
                         text);
    *reserve = (uint64_t)mib << 20;
    return TERN_OK;
}

enum tern_status tern_memory_room(uint64_t *room, struct tern_error *error)
{
    struct tern_memory memory;
    *room = 0;
    enum tern_status status = tern_memory_read("", &memory, error);
    if (status == TERN_OK)
        status = override_reserve(&memory.reserve, error);
    if (status == TERN_OK)
        *room = usable(&memory);
    return status;
}
