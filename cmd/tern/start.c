/*
 * Starting the service: a session of its own that holds none of the caller's files and does not die
 * with the terminal; its log goes to the state folder.
 */
#include "cmd/tern/client.h"
#include "proto/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/tern/models.h"

extern char **environ;

enum { START_MS = 10000 };

/* In the build tree the programs are neighbours; installed, the service is in libexec. */
enum tern_status service_program(char *path, size_t room, struct tern_error *error)
{
    char self[1024];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = '\0';
        char *slash = strrchr(self, '/');
        static const char *const places[] = {"ternd", "../ternd", "../libexec/tern/ternd"};
        for (size_t i = 0; slash != NULL && i < sizeof places / sizeof places[0]; i++) {
            snprintf(path, room, "%.*s/%s", (int)(slash - self), self, places[i]);
            if (access(path, X_OK) == 0)
                return TERN_OK;
        }
    }
    snprintf(path, room, "%s/ternd", TERN_LIBEXEC);
    if (access(path, X_OK) == 0)
        return TERN_OK;
    return tern_fail(error, TERN_NO_SERVICE, "cannot find the program ternd; install Tern again");
}

static enum tern_status spawn_service(const char *program, const char *log, pid_t *pid,
                                      struct tern_error *error)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    posix_spawn_file_actions_addchdir_np(&files, "/");
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    char *arguments[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "--log",
                         (char *)(uintptr_t)log, NULL};
    const int failure = posix_spawn(pid, program, &files, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failure != 0)
        return tern_fail(error, TERN_NO_SERVICE, "cannot start %s: %s", program, strerror(failure));
    return TERN_OK;
}

static void choose_log(const struct tern_runtime *runtime, char *path, size_t room)
{
    struct tern_error error;
    int fd = -1;
    if (state_file("ternd.log", path, room, &error) == TERN_OK)
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        snprintf(path, room, "%s/ternd.log", runtime->folder);
    else
        close(fd);
}

void service_log(const struct tern_runtime *runtime, char *path, size_t room)
{
    struct tern_error error;
    if (state_file("ternd.log", path, room, &error) != TERN_OK || access(path, R_OK) != 0)
        snprintf(path, room, "%s/ternd.log", runtime->folder);
}

static off_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? info.st_size : 0;
}

/* Why it ended: the last line it wrote, if it could write one, without time, level and program. */
static enum tern_status tell_why(const char *log, off_t before, struct tern_error *error)
{
    char text[400];
    const int fd = open(log, O_RDONLY | O_CLOEXEC);
    const off_t size = size_of(log), room = (off_t)sizeof text - 1;
    if (before > size) /* the file before this one was full */
        before = 0;
    const off_t from = size - before > room ? size - room : before;
    const ssize_t got = fd >= 0 ? pread(fd, text, sizeof text - 1, from) : 0;
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return tern_fail(error, TERN_NO_SERVICE,
                         "the service could not start, and could not write its log %s (is the disk "
                         "full?)",
                         log);
    text[got - (text[got - 1] == '\n')] = '\0';
    const char *line = strrchr(text, '\n');
    line = line != NULL ? line + 1 : text;
    const char *words = strstr(line, " ternd: ");
    return tern_fail(error, TERN_NO_SERVICE, "the service could not start: %s; see %s",
                     words != NULL ? words + strlen(" ternd: ") : line, log);
}

enum tern_status service_start(const struct tern_runtime *runtime, struct tern_error *error)
{
    char program[1200], log[1200];
    off_t before = 0;
    pid_t pid;
    enum tern_status status = service_program(program, sizeof program, error);
    if (status == TERN_OK) {
        choose_log(runtime, log, sizeof log);
        before = size_of(log);
        status = spawn_service(program, log, &pid, error);
    }
    if (status != TERN_OK)
        return status;

    const uint64_t deadline = tern_now_ns() + START_MS * 1000000ull;
    while (tern_runtime_holder(runtime) == 0) {
        int how;
        /* Ended: of itself, or because another one was quicker (then the lock is held). */
        if (waitpid(pid, &how, WNOHANG) == pid && tern_runtime_holder(runtime) == 0)
            return tell_why(log, before, error);
        if (client_interrupted())
            return tern_fail(error, TERN_INTERRUPTED, "interrupted");
        if (tern_now_ns() > deadline)
            return tern_fail(error, TERN_NO_SERVICE, "the service does not start; see %s", log);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return TERN_OK;
}
