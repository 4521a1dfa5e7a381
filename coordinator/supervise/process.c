/*
 * Starting, killing and reaping processes. A process is known by its pidfd, which is opened before
 * anybody can reap the pid, so that no signal ever reaches a stranger who got the same number.
 */
#include "coordinator/supervise/process.h"

#include "proto/channel.h"
#include "proto/worker.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A process that is still there so long after SIGKILL is stuck inside the kernel. */
static const uint64_t overdue_ns = 5000000000u;

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0); /* always CLOEXEC */
}

enum tern_status process_check_kernel(struct tern_error *error)
{
    const int fd = open_pidfd(getpid());
    if (fd < 0)
        return tern_fail(error, TERN_NO_SERVICE,
                         "this kernel has no pidfd_open (%s): Tern needs Linux 5.3 or later",
                         strerror(errno));
    close(fd);
    return TERN_OK;
}

void process_init(struct process *process, struct tern_loop *loop, const char *role,
                  void (*ended)(void *owner, const struct process_end *end), void *owner)
{
    *process = (struct process){.loop = loop,
                                .role = role,
                                .pidfd = -1,
                                .channel = -1,
                                .words.fd = -1,
                                .ended = ended,
                                .owner = owner};
}

/* Takes the exit status, closes what belonged to the process. */
static struct process_end reap(struct process *process)
{
    siginfo_t info = {0};
    struct process_end end = {.by_signal = true, .code = SIGKILL};
    while (waitid(P_PID, (id_t)process->pid, &info, WEXITED) < 0 && errno == EINTR)
        ;
    if (info.si_pid == process->pid)
        end = (struct process_end){.by_signal = info.si_code != CLD_EXITED, .code = info.si_status};
    tern_loop_unwatch(process->loop, process->watch);
    tern_loop_cancel(process->loop, process->overdue);
    last_words_close(&process->words);
    close(process->pidfd);
    if (process->channel >= 0)
        close(process->channel);
    process->pid = 0;
    process->pidfd = process->channel = -1;
    process->watch = process->overdue = 0;
    return end;
}

static void on_pidfd(void *context)
{
    struct process *process = context;
    if (process->ending != NULL)
        process->ending(process->owner);
    const struct process_end end = reap(process);
    process->ended(process->owner, &end);
}

/* The environment plus `extra`, in one allocated array; the strings are borrowed. */
static char **extend_environment(const char *const *extra)
{
    size_t inherited = 0, added = 0;
    while (environ != NULL && environ[inherited] != NULL)
        inherited++;
    while (extra[added] != NULL)
        added++;
    char **all = calloc(inherited + added + 1, sizeof *all);
    if (all == NULL)
        return NULL;
    for (size_t i = 0; i < added; i++)
        all[i] = (char *)(uintptr_t)extra[i];
    for (size_t i = 0; i < inherited; i++)
        all[added + i] = environ[i];
    return all;
}

/* Standard input from /dev/null, output and errors to the pipe for its words, the channel at 3;
 * every other descriptor is CLOEXEC. A process group of its own, so that the terminal's Ctrl-C
 * reaches the coordinator only, which ends its workers in order. */
static int spawn(pid_t *pid, const char *program, int words, int channel, char **environment)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    int failed =
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) |
        posix_spawn_file_actions_adddup2(&actions, words, 1) |
        posix_spawn_file_actions_adddup2(&actions, words, 2) |
        posix_spawn_file_actions_adddup2(&actions, channel, TERN_CHANNEL_FD) |
        posix_spawnattr_setsigmask(&attributes, &none) |
        posix_spawnattr_setsigdefault(&attributes, &all) |
        posix_spawnattr_setpgroup(&attributes, 0) |
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETPGROUP);
    const char *const argv[] = {program, NULL};
    if (failed == 0)
        failed = posix_spawn(pid, program, &actions, &attributes, (char *const *)(uintptr_t)argv,
                             environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Kills and reaps a child that cannot be watched. */
static void undo_spawn(pid_t pid)
{
    kill(pid, SIGKILL); /* not reaped yet, so the number is still its own */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static enum tern_status watch_child(struct process *process, pid_t pid, struct tern_error *error)
{
    const int pidfd = open_pidfd(pid);
    if (pidfd < 0)
        return tern_fail(error, TERN_FAILED, "cannot watch the %s process: %s", process->role,
                         strerror(errno));
    process->watch = tern_loop_watch_fd(process->loop, pidfd, on_pidfd, process);
    if (process->watch == 0) {
        close(pidfd);
        return tern_fail(error, TERN_NO_MEMORY, "cannot watch the %s process: out of memory",
                         process->role);
    }
    process->pid = pid;
    process->pidfd = pidfd;
    return TERN_OK;
}

enum tern_status process_start(struct process *process, const char *program,
                               const char *const *extra, struct tern_error *error)
{
    int ends[2], words;
    enum tern_status status = tern_channel_pair(ends, error);
    if (status != TERN_OK)
        return status;
    status = last_words_open(&process->words, process->loop, process->role, &words, error);
    if (status != TERN_OK) {
        close(ends[0]);
        close(ends[1]);
        return status;
    }
    char **environment = extend_environment(extra);
    pid_t pid;
    const int failed =
        environment == NULL ? ENOMEM : spawn(&pid, program, words, ends[1], environment);
    free(environment);
    close(words);
    close(ends[1]);
    if (failed != 0)
        status = tern_fail(error, TERN_FAILED, "cannot start %s: %s", program, strerror(failed));
    else
        status = watch_child(process, pid, error);
    if (status != TERN_OK) {
        if (failed == 0)
            undo_spawn(pid);
        last_words_close(&process->words);
        close(ends[0]);
        return status;
    }
    tern_log("debug", "started the %s process %d", process->role, (int)pid);
    /* A process that does not read must not block the coordinator. */
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    process->channel = ends[0];
    process->killed = false;
    return TERN_OK;
}

static void on_overdue(void *context)
{
    struct process *process = context;
    process->overdue = 0;
    tern_log("error", "%s process %d is still there 5 s after SIGKILL: waiting in the kernel",
             process->role, (int)process->pid);
}

void process_kill(struct process *process)
{
    if (process->pid == 0 || process->killed)
        return;
    process->killed = true;
    syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0);
    process->overdue =
        tern_loop_timer(process->loop, tern_now_ns() + overdue_ns, on_overdue, process);
}

static bool has_ended(const struct process *process, int timeout_ms)
{
    struct pollfd ended = {.fd = process->pidfd, .events = POLLIN};
    return poll(&ended, 1, timeout_ms) > 0;
}

size_t process_wait_all(struct process *list, uint64_t until_ns)
{
    size_t left = 0;
    for (struct process *p = list; p != NULL; p = p->next) {
        if (p->pid == 0)
            continue;
        const uint64_t now = tern_now_ns();
        const int wait_ms = now < until_ns ? (int)((until_ns - now) / 1000000) + 1 : 0;
        if (has_ended(p, wait_ms))
            reap(p);
        else
            left++;
    }
    return left;
}

enum tern_death process_death(const struct process_end *end)
{
    if (!end->by_signal)
        return TERN_DEATH_FAULT;
    switch (end->code) {
    case SIGKILL:
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
        return TERN_DEATH_KILLED;
    default:
        return TERN_DEATH_FAULT;
    }
}

/* What a worker's exit code says (proto/worker.h), or NULL. */
static const char *exit_meaning(int code)
{
    switch (code) {
    case TERN_WORKER_RETRY:
        return "something it needs failed";
    case TERN_WORKER_FATAL:
        return "it cannot work here";
    case TERN_WORKER_NO_MEMORY:
        return "out of memory";
    case TERN_WORKER_BAD_INPUT:
        return "a step or message it refused";
    default:
        return NULL;
    }
}

void process_describe_end(const struct process_end *end, char *text, size_t size)
{
    const char *signal = end->by_signal ? sigabbrev_np(end->code) : NULL;
    const char *meaning = end->by_signal ? NULL : exit_meaning(end->code);
    if (signal != NULL)
        snprintf(text, size, "killed by SIG%s", signal);
    else if (end->by_signal)
        snprintf(text, size, "killed by signal %d", end->code);
    else if (meaning != NULL)
        snprintf(text, size, "exited with code %d: %s", end->code, meaning);
    else
        snprintf(text, size, "exited with code %d", end->code);
}
