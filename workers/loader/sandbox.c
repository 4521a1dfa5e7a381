/*
 * seccomp by allowlist, plus resource limits. Calls whose arguments matter are admitted only with
 * harmless ones: memory never executable and never backed by a file, messages only on the channel.
 */
#include "workers/loader/sandbox.h"

#include "proto/catalog.h"
#include <errno.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Free of arguments that could do harm. (glibc's qsort asks sysinfo how much memory there is.) */
static const int allowed[] = {
    SCMP_SYS(pread64),      SCMP_SYS(pwrite64),        SCMP_SYS(fadvise64),
    SCMP_SYS(fstat),        SCMP_SYS(close),           SCMP_SYS(poll),
    SCMP_SYS(ppoll),        SCMP_SYS(munmap),          SCMP_SYS(mremap),
    SCMP_SYS(brk),          SCMP_SYS(madvise),         SCMP_SYS(futex),
    SCMP_SYS(sched_yield),  SCMP_SYS(clock_gettime),   SCMP_SYS(getrandom),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask),  SCMP_SYS(restart_syscall),
    SCMP_SYS(rseq),         SCMP_SYS(set_robust_list), SCMP_SYS(exit),
    SCMP_SYS(exit_group),   SCMP_SYS(sysinfo),
};

/* What the runtimes of AddressSanitizer and ThreadSanitizer need to check, report and end. */
static const int allowed_sanitized[] = {
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(openat),
    SCMP_SYS(open),
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(stat),
    SCMP_SYS(lseek),
    SCMP_SYS(getdents64),
    SCMP_SYS(getdents),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getppid),
    SCMP_SYS(getuid),
    SCMP_SYS(tgkill),
    SCMP_SYS(kill),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(getrlimit),
    SCMP_SYS(prlimit64),
    SCMP_SYS(prctl),
    SCMP_SYS(clone),
    SCMP_SYS(clone3),
    SCMP_SYS(ptrace),
    SCMP_SYS(wait4),
    SCMP_SYS(pipe2),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(uname),
    SCMP_SYS(gettimeofday),
};

static int allow_all(scmp_filter_ctx filter, const int *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
        if (result != 0)
            return result;
    }
    return 0;
}

/* Only with this descriptor as the first argument. */
static int allow_on(scmp_filter_ctx filter, int call, int fd)
{
    const struct scmp_arg_cmp is_fd = {
        .arg = 0, .op = SCMP_CMP_EQ, .datum_a = (scmp_datum_t)fd, .datum_b = 0};
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &is_fd);
}

static int allow_memory(scmp_filter_ctx filter)
{
    /* mmap and mprotect both take the protection third; mmap takes the flags fourth. */
    const struct scmp_arg_cmp harmless[] = {
        {.arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = PROT_EXEC, .datum_b = 0},
        {.arg = 3, .op = SCMP_CMP_MASKED_EQ, .datum_a = MAP_ANONYMOUS, .datum_b = MAP_ANONYMOUS},
    };
    const int result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2, harmless);
    if (result != 0)
        return result;
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, harmless);
}

/* Returns 0 or a negative errno. */
static int load_filter(int channel)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (filter == NULL)
        return -ENOMEM;
    /* All threads, not only the caller. */
    int result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (result == 0)
        result = allow_all(filter, allowed, sizeof allowed / sizeof allowed[0]);
    if (result == 0 && SANITIZED)
        result = allow_all(filter, allowed_sanitized,
                           sizeof allowed_sanitized / sizeof allowed_sanitized[0]);
    else if (result == 0)
        result = allow_memory(filter);
    if (result == 0)
        result = allow_on(filter, SCMP_SYS(sendmsg), channel);
    if (result == 0)
        result = allow_on(filter, SCMP_SYS(recvmsg), channel);
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    return result;
}

static bool limit(__rlimit_resource_t resource, uint64_t most)
{
    struct rlimit now;
    if (getrlimit(resource, &now) != 0)
        return false;
    if (now.rlim_max < most)
        most = now.rlim_max;
    const struct rlimit next = {.rlim_cur = most, .rlim_max = most};
    return setrlimit(resource, &next) == 0;
}

enum tern_status tern_sandbox_enter(int channel, uint64_t file_bytes, struct tern_error *error)
{
    /* Address space: program, libraries, thread stacks and read buffers, then the catalog, and as
     * much again for what is sorted while it is checked. */
    const uint64_t memory = (UINT64_C(256) << 20) + 2 * tern_catalog_bound(file_bytes);
    if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_NOFILE, 16) ||
        (!SANITIZED && !limit(RLIMIT_AS, memory)))
        return tern_fail(error, TERN_FAILED, "the loader cannot limit its resources: %s",
                         strerror(errno));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return tern_fail(error, TERN_FAILED, "the loader cannot give up privileges: %s",
                         strerror(errno));
    const int result = load_filter(channel);
    if (result == 0)
        return TERN_OK;
    return tern_fail(error, TERN_FAILED,
                     "the loader cannot enter its sandbox (seccomp): %s; this kernel must allow "
                     "seccomp filters",
                     strerror(-result));
}
