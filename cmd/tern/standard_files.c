#include "cmd/tern/standard_files.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opened for the other direction only, so that its use is an error. All lower numbers are taken. */
static void fill(int fd)
{
    const bool closed = fcntl(fd, F_GETFD) < 0;
    if (closed && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
        _exit(1); /* anything opened later would take its place */
}

/* The flag belongs to the open file, which others share; so the file is opened once more where that
 * can be done (not for sockets). */
static void let_wait(int fd)
{
    char name[32];
    struct stat info;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_NONBLOCK) == 0 || fstat(fd, &info) != 0 || S_ISREG(info.st_mode))
        return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const int own = open(name, (flags & (O_ACCMODE | O_APPEND)) | O_NONBLOCK | O_NOCTTY);
    if (own >= 0) {
        dup2(own, fd);
        close(own);
    }
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

void standard_files_prepare(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        fill(fd);
        let_wait(fd);
    }
}
