#include "cmd/tern/doctor/run_program.h"

#include "proto/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 5000 };

extern char **environ;

/* The environment and one more variable, malloc'ed; the strings are borrowed. */
static char **environment_with(const char *extra)
{
    size_t count = 0;
    while (environ != NULL && environ[count] != NULL)
        count++;
    char **all = calloc(count + 2, sizeof *all);
    if (all == NULL)
        return NULL;
    if (count > 0)
        memcpy(all, environ, count * sizeof *all);
    all[count] = (char *)(uintptr_t)extra;
    return all;
}

/* 0 or an errno. */
static int spawn(const char *program, bool only_libraries, int output, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    char **variables = environment_with(only_libraries ? "LD_TRACE_LOADED_OBJECTS=1" : NULL);
    if (variables == NULL || posix_spawn_file_actions_init(&files) != 0) {
        free(variables);
        return ENOMEM;
    }
    const char *const arguments[] = {program, "--version", NULL};
    int failure = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) |
                  posix_spawn_file_actions_adddup2(&files, output, 1) |
                  posix_spawn_file_actions_adddup2(&files, output, 2);
    if (failure == 0)
        failure =
            posix_spawn(pid, program, &files, NULL, (char *const *)(uintptr_t)arguments, variables);
    posix_spawn_file_actions_destroy(&files);
    free(variables);
    return failure;
}

/* Until the program closes its output; false if that takes too long. What does not fit is lost. */
static bool read_output(int fd, char *text, size_t room)
{
    const uint64_t deadline = tern_now_ns() + LIMIT_MS * 1000000ull;
    size_t used = 0;
    char rest[512];
    text[0] = '\0';
    while (tern_now_ns() < deadline) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        if (poll(&item, 1, 100) <= 0)
            continue;
        const bool full = used + 1 >= room;
        const ssize_t got =
            read(fd, full ? rest : text + used, full ? sizeof rest : room - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        if (!full)
            text[used += (size_t)got] = '\0';
    }
    return false;
}

bool run_version(const char *program, bool only_libraries, char *text, size_t room)
{
    int ends[2], how = 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        snprintf(text, room, "no pipe: %s", strerror(errno));
        return false;
    }
    const int failure = spawn(program, only_libraries, ends[1], &pid);
    close(ends[1]);
    if (failure != 0) {
        snprintf(text, room, "cannot be run: %s", strerror(failure));
        close(ends[0]);
        return false;
    }
    if (!read_output(ends[0], text, room)) {
        kill(pid, SIGKILL);
        snprintf(text, room, "does not answer");
    }
    close(ends[0]);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(how) && text[0] == '\0')
        snprintf(text, room, "dies of signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}
