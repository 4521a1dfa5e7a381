/*
 * The control groups this process is in, of either version, from its own group up to the top of
 * what is mounted: in a container that may be less than all, and then no more can be known.
 */
#ifndef TERN_CGROUP_H
#define TERN_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A group: its folder. */
struct tern_cgroup {
    char path[PATH_MAX];
    size_t top; /* length of path at the mount point, the last level */
};

/* The group that `controller` ("memory", "cpu") of version 1 has this process in, or the group of
 * version 2 (controller NULL). `root` is "" in programs; tests pass a folder that holds proc/ and
 * sys/. Where /proc does not tell the path, the top of the mount. False if there is none. */
bool tern_cgroup_find(const char *root, const char *controller, struct tern_cgroup *group);

/* Goes one level up; false at the top. */
bool tern_cgroup_up(struct tern_cgroup *group);

/* A file of the group as text, NUL-terminated, cut at size - 1. False if it cannot be read. */
bool tern_cgroup_read(const struct tern_cgroup *group, const char *file, char *text, size_t size);
/* A file that holds one number. False if it cannot be read or holds something else ("max"). */
bool tern_cgroup_number(const struct tern_cgroup *group, const char *file, uint64_t *value);
/* The number after `key` in a file of lines "key number". */
bool tern_cgroup_stat(const struct tern_cgroup *group, const char *file, const char *key,
                      uint64_t *value);

/* CPU time that quotas (cpu.max, or cpu.cfs_quota_us over cpu.cfs_period_us) leave this process at
 * every level up, in whole cores, at least 1; 0: no quota. */
uint32_t tern_cgroup_cores(const char *root);

/* Reads a small file as text. For what else lies in proc and sys. */
bool tern_read_text(const char *path, char *text, size_t size);
/* The number after `key` and white space at the start of a line of `text`. */
bool tern_find_number(const char *text, const char *key, uint64_t *value);

#endif
