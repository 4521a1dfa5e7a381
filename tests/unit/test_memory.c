/* coordinator/memory: what is free and how many cores can run, over made-up proc and sys trees. */
#include "coordinator/cores.h"
#include "coordinator/memory.h"
#include "proto/board.h"
#include "proto/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static struct tern_error error;
static char root[64];

/* Writes a file of the tree, with the folders above it. */
static void put(const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void put_number(const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)value);
    put(name, text);
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/tern-test-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

/* A machine of 32 GiB with 20 GiB available, 4 cores of 2 threads. */
static void put_machine(void)
{
    put("proc/meminfo", "MemTotal:       33554432 kB\nMemFree:         1048576 kB\n"
                        "MemAvailable:   20971520 kB\nBuffers:            1000 kB\n");
    put("proc/self/status", "Name:\tternd\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
    for (int cpu = 0; cpu < 8; cpu++) {
        char name[100], list[16];
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        snprintf(list, sizeof list, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        put(name, list);
    }
}

static void put_version2(const char *path)
{
    char text[200];
    snprintf(text, sizeof text, "0::%s\n", path);
    put("proc/self/cgroup", text);
    put("proc/self/mountinfo", "24 1 0:20 / / rw - ext4 /dev/root rw\n"
                               "31 24 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n");
}

static struct tern_memory read_memory(void)
{
    struct tern_memory memory;
    if (tern_memory_read(root, &memory, &error) != TERN_OK)
        fail_msg("%s", error.message);
    return memory;
}

static void assert_memory(uint64_t total, uint64_t available, uint64_t reserve)
{
    const struct tern_memory memory = read_memory();
    assert_int_equal(memory.total, total);
    assert_int_equal(memory.available, available);
    assert_int_equal(memory.reserve, reserve);
}

static void machine_without_groups(void **state)
{
    (void)state;
    put_machine();
    assert_memory(32 * GIB, 20 * GIB, 32 * GIB / 10);
    put("proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n");
    assert_memory(4 * GIB, 2 * GIB, GIB);
    put("proc/meminfo", "MemTotal: 4194304 kB\nMemFree: 1048576 kB\n");
    assert_memory(4 * GIB, GIB, GIB);
    put("proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 8388608 kB\n");
    assert_memory(4 * GIB, 4 * GIB, GIB);
}

static void broken_meminfo(void **state)
{
    (void)state;
    struct tern_memory memory;
    assert_int_equal(tern_memory_read(root, &memory, &error), TERN_FAILED);
    put("proc/meminfo", "MemTotal: lots\n");
    assert_int_equal(tern_memory_read(root, &memory, &error), TERN_FAILED);
    put("proc/meminfo", "MemTotal: 18446744073709551615 kB\nMemAvailable: 5 kB\n");
    assert_int_equal(tern_memory_read(root, &memory, &error), TERN_FAILED);
}

/* Page cache inside the group counts as free, at whatever level the limit is. */
static void version2_limit(void **state)
{
    (void)state;
    put_machine();
    put_version2("/user.slice/tern.scope");
    put("sys/fs/cgroup/user.slice/tern.scope/memory.max", "max\n");
    put("sys/fs/cgroup/user.slice/tern.scope/memory.high", "max\n");
    assert_memory(32 * GIB, 20 * GIB, 32 * GIB / 10);

    put_number("sys/fs/cgroup/user.slice/tern.scope/memory.max", 200 * MIB);
    put_number("sys/fs/cgroup/user.slice/tern.scope/memory.current", 150 * MIB);
    put("sys/fs/cgroup/user.slice/tern.scope/memory.stat",
        "anon 52428800\nfile 104857600\ninactive_file 94371840\nactive_file 10485760\n");
    assert_memory(200 * MIB, 140 * MIB, 20 * MIB);

    put_number("sys/fs/cgroup/user.slice/tern.scope/memory.high", 100 * MIB);
    assert_memory(100 * MIB, 40 * MIB, 10 * MIB);
}

static void version2_limit_above(void **state)
{
    (void)state;
    put_machine();
    put_version2("/user.slice/tern.scope");
    put("sys/fs/cgroup/user.slice/tern.scope/memory.max", "max\n");
    put_number("sys/fs/cgroup/user.slice/memory.max", 4 * GIB);
    put_number("sys/fs/cgroup/user.slice/memory.current", 3 * GIB);
    assert_memory(4 * GIB, GIB, 4 * GIB / 10);
    /* A group that is over its limit has nothing. */
    put_number("sys/fs/cgroup/user.slice/memory.current", 5 * GIB);
    assert_memory(4 * GIB, 0, 4 * GIB / 10);
}

/* A limit that leaves more than the machine has changes nothing. */
static void loose_limit(void **state)
{
    (void)state;
    put_machine();
    put_version2("/");
    put_number("sys/fs/cgroup/memory.max", 31 * GIB);
    put_number("sys/fs/cgroup/memory.current", GIB);
    assert_memory(32 * GIB, 20 * GIB, 32 * GIB / 10);
}

static void version1_limit(void **state)
{
    (void)state;
    put_machine();
    put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/box/inner\n2:cpu,cpuacct:/box\n0::/\n");
    put("proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                               "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                               "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
    put("sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/box/inner/memory.usage_in_bytes", "1000\n");
    put_number("sys/fs/cgroup/memory/box/memory.limit_in_bytes", 2 * GIB);
    put_number("sys/fs/cgroup/memory/box/memory.usage_in_bytes", GIB);
    put("sys/fs/cgroup/memory/box/memory.stat",
        "cache 0\ninactive_file 1\ntotal_inactive_file 536870912\n");
    assert_memory(2 * GIB, 2 * GIB - GIB / 2, 2 * GIB / 10);

    put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
    assert_int_equal(tern_usable_cores(root), 4);
    put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(tern_usable_cores(root), 2);
    put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
    assert_int_equal(tern_usable_cores(root), 1);
    put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "399999\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(tern_usable_cores(root), 3);
}

/* A container without a namespace of its own: the path names the host's folders, the mount shows
 * only the container's. */
static void mount_of_a_part(void **state)
{
    (void)state;
    put_machine();
    put("proc/self/cgroup", "4:memory:/docker/abc/inner\n");
    put("proc/self/mountinfo",
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put_number("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", 3 * GIB);
    put_number("sys/fs/cgroup/memory/inner/memory.usage_in_bytes", GIB);
    put_number("sys/fs/cgroup/memory/memory.limit_in_bytes", 2 * GIB);
    put_number("sys/fs/cgroup/memory/memory.usage_in_bytes", GIB);
    assert_memory(2 * GIB, GIB, 2 * GIB / 10);
    put("proc/self/cgroup", "4:memory:/somewhere/else\n");
    assert_memory(2 * GIB, GIB, 2 * GIB / 10);
}

/* Names with spaces, colons and backslashes; the mount's are written in octal, the path is not. */
static void odd_names(void **state)
{
    (void)state;
    put_machine();
    put("proc/self/cgroup", "0::/a b:c\\d.scope/in ner\n");
    put("proc/self/mountinfo", "31 24 0:26 /a\\040b:c\\134d.scope /sys/fs/my\\040groups rw "
                               "shared:9 master:1 - cgroup2 none rw\n");
    put_number("sys/fs/my groups/in ner/memory.max", 2 * GIB);
    put_number("sys/fs/my groups/in ner/memory.current", GIB);
    put("sys/fs/my groups/in ner/cpu.max", "300000 100000\n");
    assert_memory(2 * GIB, GIB, 2 * GIB / 10);
    assert_int_equal(tern_usable_cores(root), 3);
    put("proc/self/cgroup", "no colons\n:\n::\n0:\n\n0::/a b:c\\d.scope/in ner (deleted)\n");
    assert_memory(32 * GIB, 20 * GIB, 32 * GIB / 10);
}

/* A path that leads out of the namespace: only the top of what is mounted can be known. */
static void outside_the_namespace(void **state)
{
    (void)state;
    put_machine();
    put_version2("/../../other");
    put_number("sys/other/memory.max", MIB);
    put_number("sys/fs/cgroup/memory.max", 3 * GIB);
    put_number("sys/fs/cgroup/memory.current", GIB);
    assert_memory(3 * GIB, 2 * GIB, 3 * GIB / 10);
}

/* Of several mounts the one that shows the group; behind more mounts than fit a page or two. */
static void several_mounts(void **state)
{
    (void)state;
    enum { MOUNTS = 3000, LINE = 100 };
    char *text = malloc(MOUNTS * LINE + 1000), *end = text;
    assert_non_null(text);
    put_machine();
    for (int i = 0; i < MOUNTS; i++)
        end += sprintf(end, "%d 1 0:50 / /var/lib/box/%d/merged rw - overlay overlay rw\n", i, i);
    strcpy(end, "31 24 0:26 /elsewhere /mnt/part rw - cgroup2 cgroup2 rw\n"
                "32 24 0:26 / /mnt/gone rw - cgroup2 cgroup2 rw\n"
                "33 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                "34 24 0:26 / /mnt/later rw - cgroup2 cgroup2 rw\n");
    put("proc/self/mountinfo", text);
    free(text);
    put("proc/self/cgroup", "0::/box\n");
    put_number("mnt/part/memory.max", MIB);
    put_number("sys/fs/cgroup/box/memory.max", 2 * GIB);
    put_number("sys/fs/cgroup/box/memory.current", GIB);
    assert_memory(2 * GIB, GIB, 2 * GIB / 10);
}

/* Version 1 for memory, version 2 for the CPU, as systemd's hybrid and some containers have it. */
static void both_versions(void **state)
{
    (void)state;
    put_machine();
    put("proc/self/cgroup", "3:memory:/m\n0::/u\n");
    put("proc/self/mountinfo", "31 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                               "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n");
    put_number("sys/fs/cgroup/memory/m/memory.limit_in_bytes", 2 * GIB);
    put_number("sys/fs/cgroup/memory/m/memory.usage_in_bytes", GIB);
    put("sys/fs/cgroup/unified/u/cpu.max", "250000 100000\n");
    assert_memory(2 * GIB, GIB, 2 * GIB / 10);
    assert_int_equal(tern_usable_cores(root), 2);
}

/* Without /proc/self/cgroup, mountinfo, or both: the usual places. */
static void little_of_proc(void **state)
{
    (void)state;
    put_machine();
    put_number("sys/fs/cgroup/memory.max", 2 * GIB);
    put_number("sys/fs/cgroup/memory.current", GIB);
    put("sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_memory(2 * GIB, GIB, 2 * GIB / 10);
    assert_int_equal(tern_usable_cores(root), 1);
    put("proc/self/mountinfo", "31 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    assert_memory(2 * GIB, GIB, 2 * GIB / 10);
    put_number("sys/fs/cgroup/memory/memory.limit_in_bytes", GIB);
    put("proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n");
    assert_memory(GIB, GIB, GIB / 10);
}

/* Folders stand for files that cannot be read, whoever runs the test. */
static void unreadable_files(void **state)
{
    (void)state;
    put_machine();
    put_version2("/a");
    put_number("sys/fs/cgroup/a/memory.max", 2 * GIB);
    put("sys/fs/cgroup/a/memory.current/x", "");
    put("sys/fs/cgroup/a/memory.stat/x", "");
    put("sys/fs/cgroup/a/cpu.max/x", "");
    assert_memory(2 * GIB, 2 * GIB, 2 * GIB / 10);
    assert_int_equal(tern_usable_cores(root), 4);
    put("sys/fs/cgroup/a/memory.max", "-5\n");
    put("sys/fs/cgroup/a/memory.high", "99999999999999999999999\n");
    assert_memory(32 * GIB, 20 * GIB, 32 * GIB / 10);
}

static void cores_of_the_machine(void **state)
{
    (void)state;
    put_machine();
    assert_int_equal(tern_usable_cores(root), 4);
    put("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0,4\n");
    assert_int_equal(tern_usable_cores(root), 1);
    put("proc/self/status", "Name:\tx\nCpus_allowed_list:\t3-5\n");
    assert_int_equal(tern_usable_cores(root), 3);
}

static void cores_without_sys(void **state)
{
    (void)state;
    assert_int_equal(tern_usable_cores(root), 1);
    put("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2,64-65\n");
    assert_int_equal(tern_usable_cores(root), 5);
    /* More than a plan can have threads. */
    put("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-767\n");
    assert_int_equal(tern_usable_cores(root), TERN_MAX_THREADS);
}

static void cores_under_a_quota(void **state)
{
    (void)state;
    put_machine();
    put("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3,8-15\n"); /* 8-15: no siblings */
    put_version2("/a/b");
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(tern_usable_cores(root), 12);
    put("sys/fs/cgroup/a/b/cpu.max", "765000 100000\n");
    assert_int_equal(tern_usable_cores(root), 7);
    put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(tern_usable_cores(root), 1);
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/a/cpu.max", "400000 100000\n");
    assert_int_equal(tern_usable_cores(root), 4);
    put("sys/fs/cgroup/a/cpu.max", "400000 0\n");
    assert_int_equal(tern_usable_cores(root), 12);
}

/* The real machine: whatever it is, the answers make sense. */
static void this_machine(void **state)
{
    (void)state;
    struct tern_memory memory;
    assert_int_equal(tern_memory_read("", &memory, &error), TERN_OK);
    assert_true(memory.total > 0 && memory.available <= memory.total);
    assert_true(memory.reserve > 0);
    const uint32_t cores = tern_usable_cores("");
    assert_true(cores >= 1 && cores <= (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
}

/* Nobody can know where such a group's files are; what is above the mount is not asked. */
static void paths_that_are_too_long(void **state)
{
    (void)state;
    char line[2 * PATH_MAX], path[PATH_MAX];
    struct tern_cgroup group = {0};
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[4000] = '\0';
    snprintf(line, sizeof line, "0::/%s\n", path);
    put("proc/self/cgroup", line);
    snprintf(line, sizeof line, "35 31 0:32 / %s rw - cgroup2 none rw\n", path);
    put("proc/self/mountinfo", line);
    assert_true(tern_cgroup_find(root, NULL, &group));
    assert_false(tern_cgroup_up(&group));
}

static void reserve_of_the_environment(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "-1", "1x", "x", " 1", "1 GiB", "17592186044416", "99999999999999999999"};
    uint64_t all, room;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("TERN_RESERVE_MIB", wrong[i], 1);
        assert_int_equal(tern_memory_room(&room, &error), TERN_USAGE);
        assert_non_null(strstr(error.message, "TERN_RESERVE_MIB"));
        assert_int_equal(room, 0);
    }
    setenv("TERN_RESERVE_MIB", "17592186044415", 1);
    assert_int_equal(tern_memory_room(&room, &error), TERN_OK);
    assert_int_equal(room, 0);
    setenv("TERN_RESERVE_MIB", "0", 1);
    assert_int_equal(tern_memory_room(&all, &error), TERN_OK);
    unsetenv("TERN_RESERVE_MIB");
    assert_int_equal(tern_memory_room(&room, &error), TERN_OK);
    assert_true(room < all);
}

#define in_tree(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_tree(machine_without_groups),
        in_tree(broken_meminfo),
        in_tree(version2_limit),
        in_tree(version2_limit_above),
        in_tree(loose_limit),
        in_tree(version1_limit),
        in_tree(odd_names),
        in_tree(paths_that_are_too_long),
        cmocka_unit_test(reserve_of_the_environment),
        in_tree(outside_the_namespace),
        in_tree(several_mounts),
        in_tree(both_versions),
        in_tree(little_of_proc),
        in_tree(unreadable_files),
        in_tree(mount_of_a_part),
        in_tree(cores_of_the_machine),
        in_tree(cores_without_sys),
        in_tree(cores_under_a_quota),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
