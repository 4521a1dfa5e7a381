#include "proto/cgroup.h"

#include <stdlib.h>

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

uint32_t tern_cgroup_cores(const char *root)
{
    uint64_t tightest = 0;
    for (int version1 = 0; version1 < 2; version1++) {
        struct tern_cgroup group;
        bool more = tern_cgroup_find(root, version1 ? "cpu" : NULL, &group);
        for (; more; more = tern_cgroup_up(&group)) {
            const uint64_t quota = quota_of(&group, version1);
            if (quota != 0 && (tightest == 0 || quota < tightest))
                tightest = quota;
        }
    }
    return tightest < UINT32_MAX ? (uint32_t)tightest : UINT32_MAX;
}
