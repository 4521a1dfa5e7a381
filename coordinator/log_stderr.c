/* The flag that forbids waiting belongs to the open file, which others share; so it is opened once
 * more. Sockets (the journal's) cannot be, but take the flag with each call. Regular files never
 * make anybody wait, and those who share one share its end. */
#include "coordinator/log_stderr.h"

#include "proto/log.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    int fd; /* -1: a socket */
    uint64_t lost;
    bool torn; /* the last write ended inside a line */
} out = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static bool put(const char *bytes, size_t length)
{
    ssize_t written;
    do
        written = out.fd >= 0 ? write(out.fd, bytes, length)
                              : send(STDERR_FILENO, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (written < 0 && errno == EINTR);
    if (written > 0)
        out.torn = (size_t)written < length;
    return written >= 0 && (size_t)written == length;
}

static void write_line(const char *line, size_t length)
{
    char note[80];
    pthread_mutex_lock(&out.lock);
    if (out.lost > 0) {
        const int bytes = snprintf(note, sizeof note, "%s(%" PRIu64 " lines lost: nobody read)\n",
                                   out.torn ? "\n" : "", out.lost);
        if (put(note, (size_t)bytes))
            out.lost = 0;
    }
    if (out.lost > 0 || !put(line, length))
        out.lost++;
    pthread_mutex_unlock(&out.lock);
}

void tern_log_stderr(void)
{
    struct stat info;
    const bool known = fstat(STDERR_FILENO, &info) == 0;
    const bool is_socket = known && S_ISSOCK(info.st_mode);
    if (known && S_ISREG(info.st_mode))
        out.fd = STDERR_FILENO;
    else if (!is_socket)
        out.fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (is_socket || out.fd >= 0)
        tern_log_to(write_line, false);
}
