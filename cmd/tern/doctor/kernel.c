/* What the kernel, or a container's rules for it, allows. */
#include "cmd/tern/doctor/checks.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    FEW_FILES = 256, /* below, few clients and models fit: coordinator/door.c */
    SMALL_STACK = 512 << 10,
};

void check_kernel(struct finding *finding)
{
    struct utsname name;
    if (uname(&name) == 0) {
        finding_text(finding, "release", name.release);
        finding_text(finding, "machine", name.machine);
        finding_say(finding, "%s %s, %s", name.sysname, name.release, name.machine);
    }
    const int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    finding_flag(finding, "pidfd", fd >= 0);
    if (fd < 0) {
        finding_say(finding, "no pidfd_open: %s", strerror(errno));
        finding_raise(finding, FINDING_PROBLEM,
                      "the service needs it: Linux 5.3 or later, and a container whose seccomp "
                      "rules allow it");
    } else {
        close(fd);
    }
}

/* A limit as a figure (null: unlimited) and in words. */
static void tell_limit(struct finding *finding, const char *key, const char *what, rlim_t value)
{
    if (value == RLIM_INFINITY) {
        finding_unknown(finding, key);
        finding_say(finding, "%s unlimited", what);
    } else {
        finding_number(finding, key, value);
        finding_say(finding, "%s %" PRIu64, what, (uint64_t)value);
    }
}

/* Zeros, hence problems, for a limit that does not exist: that cannot happen on Linux. */
static struct rlimit read_limit(int resource)
{
    struct rlimit limit = {0};
    getrlimit(resource, &limit);
    return limit;
}

void check_limits(struct finding *finding)
{
    const struct rlimit files = read_limit(RLIMIT_NOFILE);
    const rlim_t space = read_limit(RLIMIT_AS).rlim_cur, stack = read_limit(RLIMIT_STACK).rlim_cur;
    tell_limit(finding, "open_files", "open files", files.rlim_cur);
    tell_limit(finding, "open_files_most", "the service raises them to", files.rlim_max);
    tell_limit(finding, "locked_bytes", "locked bytes (not used)",
               read_limit(RLIMIT_MEMLOCK).rlim_cur);
    tell_limit(finding, "address_bytes", "address space", space);
    tell_limit(finding, "stack_bytes", "stack", stack);
    if (files.rlim_max < FEW_FILES)
        finding_raise(finding, FINDING_PROBLEM,
                      "few clients and models can be open: raise ulimit -Hn to %d or more (as "
                      "root, in /etc/security/limits.conf, or --ulimit nofile of a container)",
                      4 * FEW_FILES);
    if (space != RLIM_INFINITY)
        finding_raise(finding, FINDING_NOTE,
                      "each process maps whole models: ulimit -v unlimited for the service");
    if (stack < SMALL_STACK)
        finding_raise(finding, FINDING_PROBLEM,
                      "threads get this stack and may overrun it: ulimit -s 8192");
}

/* The kernel looks at the filter's address, here none, only where it has filters at all. */
void check_seccomp(struct finding *finding)
{
    const bool available =
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != 0 && errno == EFAULT;
    const int reason = errno;
    finding_flag(finding, "available", available);
    if (available) {
        finding_say(finding, "available: model files are read in a sandbox");
        return;
    }
    finding_say(finding, "no filters: %s", strerror(reason));
    finding_raise(finding, FINDING_PROBLEM,
                  "no model is loaded without the sandbox: a kernel with CONFIG_SECCOMP_FILTER, "
                  "and a container that allows prctl(PR_SET_SECCOMP)");
}

void check_io_uring(struct finding *finding)
{
    const long made = syscall(SYS_io_uring_setup, 0, NULL); /* refused for its arguments */
    const int reason = errno;
    const bool available = made >= 0 || reason == EFAULT || reason == EINVAL;
    if (made >= 0)
        close((int)made);
    finding_flag(finding, "available", available);
    if (available)
        finding_say(finding, "available (files are read with pread so far)");
    else
        finding_say(finding, "not available (%s); files are read with pread, nothing is missing",
                    strerror(reason));
}
