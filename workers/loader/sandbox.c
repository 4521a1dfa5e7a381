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

/* Free of arguments that could do harm. */
static const int allowed[] = {
    SCMP_SYS(pread64),      SCMP_SYS(pwrite64),        SCMP_SYS(fadvise64),
    SCMP_SYS(fstat),        SCMP_SYS(close),           SCMP_SYS(poll),
    SCMP_SYS(ppoll),        SCMP_SYS(munmap),          SCMP_SYS(mremap),
    SCMP_SYS(brk),          SCMP_SYS(madvise),         SCMP_SYS(futex),
    SCMP_SYS(sched_yield),  SCMP_SYS(clock_gettime),   SCMP_SYS(getrandom),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask),  SCMP_SYS(restart_syscall),
    SCMP_SYS(rseq),         SCMP_SYS(set_robust_list), SCMP_SYS(exit),
    SCMP_SYS(exit_group),   SCMP_SYS(sysinfo), /* qsort asks how much memory there is */
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

static int allow_some_arguments(scmp_filter_ctx filter, int channel)
{
    int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendmsg), 1,
                                  SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)channel));
    if (result == 0)
        result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(recvmsg), 1,
                                  SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)channel));
    if (result != 0 || SANITIZED)
        return result;
    result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                              SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS));
    if (result == 0)
        result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return result;
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
    if (result == 0)
        result = allow_some_arguments(filter, channel);
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
    /* Address space: program, libraries and thread stacks, then the catalog once and at most four
     * times the metadata's bytes for what is being parsed (an empty string of an array takes 8
     * bytes in the file and 16 in memory; buffers double). */
    const uint64_t metadata = file_bytes < TERN_MAX_METADATA ? file_bytes : TERN_MAX_METADATA;
    const uint64_t memory = (UINT64_C(256) << 20) + tern_catalog_bound(file_bytes) + 4 * metadata;
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
