/*
 * ternd: the coordinator's process. Only glue: takes the runtime folder's lock, makes loop,
 * supervisor, scheduler and service, and runs until a client says stop or a signal comes.
 *
 * Programs it starts are its neighbours (tern-loader, tern-cpu). Its log is stderr, or a file.
 */
#include "coordinator/door.h"
#include "coordinator/log_file.h"
#include "coordinator/log_stderr.h"
#include "coordinator/loop.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/service/service.h"
#include "coordinator/supervise.h"
#include "proto/runtime.h"
#include "proto/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

struct daemon {
    struct tern_runtime runtime;
    int lock, signals, folder; /* folder: tells when the lock's file is taken away, or -1 */
    struct tern_loop *loop;
    void *zmq;
    struct tern_scheduler *scheduler;
    struct tern_supervisor *supervisor;
    struct tern_service *service;
};

/* Whoever started this may have closed the standard descriptors; nothing of the daemon's own may
 * take their numbers, or log lines would go there. */
static void fill_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Signals that end the daemon come through a descriptor; must run before any thread exists, so that
 * all threads have them blocked. */
static int take_signals(void)
{
    sigset_t ends;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* what is too large fails, and is told */
    signal(SIGCHLD, SIG_DFL); /* ignored, it would reap the workers before their ends are read */
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    return signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void on_signal(void *context)
{
    struct daemon *daemon = context;
    struct signalfd_siginfo info;
    if (read(daemon->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    tern_log("info", "ending: signal %u", info.ssi_signo);
    tern_loop_stop(daemon->loop);
}

/* Without its lock's file nobody finds this service, and another one may start: it would keep its
 * memory for nothing (what cleans /tmp takes files that are some days old). */
static void on_folder(void *context)
{
    struct daemon *daemon = context;
    char events[1024];
    struct stat mine, there;
    while (read(daemon->folder, events, sizeof events) > 0)
        ;
    if (fstat(daemon->lock, &mine) == 0 && stat(daemon->runtime.lock, &there) == 0 &&
        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
        return;
    tern_log("warning", "ending: %s was removed", daemon->runtime.lock);
    tern_loop_stop(daemon->loop);
}

/* The kernel may have no watch left: then the service stays. */
static void watch_folder(struct daemon *daemon)
{
    daemon->folder = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (daemon->folder >= 0 &&
        inotify_add_watch(daemon->folder, daemon->runtime.lock, IN_ATTRIB | IN_MOVE_SELF) >= 0)
        tern_loop_watch_fd(daemon->loop, daemon->folder, on_folder, daemon);
}

/* The folder of this program. */
static enum tern_status find_libexec(char *folder, size_t room, struct tern_error *error)
{
    const ssize_t length = readlink("/proc/self/exe", folder, room - 1);
    if (length <= 0)
        return tern_fail(error, TERN_FAILED, "cannot read /proc/self/exe: %s", strerror(errno));
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
    return TERN_OK;
}

static enum tern_status start(struct daemon *daemon, struct tern_error *error)
{
    const struct tern_runtime *const runtime = &daemon->runtime;
    char libexec[PATH_MAX];
    daemon->signals = take_signals();
    if (daemon->signals < 0)
        return tern_fail(error, TERN_FAILED, "cannot wait for signals: %s", strerror(errno));
    enum tern_status status = tern_runtime_open(&daemon->runtime, error);
    if (status != TERN_OK)
        return status;
    daemon->lock = tern_runtime_lock(runtime, error);
    if (daemon->lock < 0)
        return error->status;
    status = find_libexec(libexec, sizeof libexec, error);
    if (status != TERN_OK)
        return status;
    status = tern_threads_fit(error);
    if (status != TERN_OK)
        return status;
    daemon->zmq = zmq_ctx_new();
    daemon->loop = tern_loop_new();
    daemon->scheduler = daemon->loop != NULL ? tern_scheduler_new(daemon->loop) : NULL;
    if (daemon->zmq == NULL || daemon->scheduler == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    const struct tern_supervisor_events events = tern_scheduler_events(daemon->scheduler);
    status = tern_supervisor_new(daemon->loop, daemon->zmq, runtime->workers, libexec, &events,
                                 &daemon->supervisor, error);
    if (status != TERN_OK)
        return status;
    tern_scheduler_attach(daemon->scheduler, daemon->supervisor);
    status = tern_service_new(daemon->loop, daemon->zmq, runtime->clients, daemon->supervisor,
                              daemon->scheduler, &daemon->service, error);
    if (status == TERN_OK &&
        tern_loop_watch_fd(daemon->loop, daemon->signals, on_signal, daemon) == 0)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory");
    watch_folder(daemon);
    if (status == TERN_OK)
        tern_log("info", "version %s serves at %s", TERN_VERSION, runtime->clients);
    return status;
}

static void finish(struct daemon *daemon)
{
    tern_service_free(daemon->service);
    if (daemon->supervisor != NULL)
        tern_supervisor_free(daemon->supervisor);
    tern_scheduler_free(daemon->scheduler);
    if (daemon->loop != NULL)
        tern_loop_free(daemon->loop);
    if (daemon->zmq != NULL)
        zmq_ctx_term(daemon->zmq);
    if (daemon->lock >= 0)
        close(daemon->lock);
    if (daemon->signals >= 0)
        close(daemon->signals);
    if (daemon->folder >= 0)
        close(daemon->folder);
}

static enum tern_status read_arguments(int argc, char **argv, const char **log,
                                       struct tern_error *error)
{
    enum tern_log_level level;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--log") == 0 && value[0] == '/')
            *log = value;
        else if (strcmp(argv[i], "--log-level") == 0 &&
                 tern_log_level_find(value, strlen(value), &level))
            setenv(TERN_LOG_LEVEL, value, 1);
        else
            return tern_fail(error, TERN_USAGE,
                             "usage: ternd [--version] [--log /PATH] [--log-level "
                             "error|warning|info|debug]; `tern serve` starts it");
    }
    return TERN_OK;
}

int main(int argc, char **argv)
{
    struct daemon daemon = {.lock = -1, .signals = -1, .folder = -1};
    struct tern_error error;
    const char *log = NULL;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("ternd %s\n", TERN_VERSION);
        return TERN_OK;
    }
    fill_standard_files();
    umask(umask(0) & ~(mode_t)S_IRWXU); /* this user can use what is made, whatever the caller's */
    if (read_arguments(argc, argv, &log, &error) != TERN_OK) {
        fprintf(stderr, "%s\n", error.message);
        return error.status;
    }
    tern_log_name("ternd");
    tern_log_stderr();
    if (log != NULL && tern_log_file(log, TERN_LOG_FILE_BYTES, &error) != TERN_OK)
        tern_log("error", "%s", error.message);
    enum tern_status status = tern_door_open(&error);
    if (status == TERN_OK)
        status = start(&daemon, &error);
    if (status == TERN_OK && !tern_loop_run(daemon.loop))
        status = tern_fail(&error, TERN_FAILED, "cannot wait for events: %s", zmq_strerror(errno));
    if (status != TERN_OK)
        tern_log("error", "%s", error.message);
    finish(&daemon);
    return status;
}
