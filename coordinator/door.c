#include "coordinator/door.h"

#include "proto/log.h"
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    FILES = 65536,   /* wanted */
    MOST = 1024,     /* descriptors in use when connections are refused; a connection is memory */
    KEPT_MOST = 256, /* left to the service itself: five for each loaded model, worker, loader */
    FEW = 256,       /* worth a warning */
    LEAST = 48,      /* with fewer no model is loaded, with still fewer nobody is let in */
    UNLIMITED = 1 << 30 /* until the door is opened: nobody is refused */
};

static int most = UNLIMITED; /* a connection's descriptor is below it */

enum tern_status tern_door_open(struct tern_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return TERN_OK;
    const rlim_t wanted = limit.rlim_max < FILES ? limit.rlim_max : FILES;
    if (limit.rlim_cur < wanted) {
        const struct rlimit raised = {.rlim_cur = wanted, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
        else
            tern_log("warning", "cannot raise the limit of open files: %s", strerror(errno));
    }
    if (limit.rlim_cur < LEAST)
        return tern_fail(error, TERN_NO_SERVICE,
                         "only %d files may be open (ulimit -n); the service needs %d or more",
                         (int)limit.rlim_cur, LEAST);
    const rlim_t kept = limit.rlim_cur / 3 < KEPT_MOST ? limit.rlim_cur / 3 : KEPT_MOST;
    most = limit.rlim_cur - kept < MOST ? (int)(limit.rlim_cur - kept) : MOST;
    if (most < FEW)
        tern_log("warning", "only %d files may be open (ulimit -n): few clients and models fit",
                 (int)limit.rlim_cur);
    return TERN_OK;
}

/* The kernel gives the lowest free number, so that a high one says how many are in use. */
static int admit(int fd)
{
    if (fd >= 0 && fd < most)
        return fd;
    if (fd >= 0) {
        close(fd);
        errno = ECONNABORTED;
    } else if (errno == EMFILE) {
        errno = ENFILE; /* the one that libzmq survives */
    }
    return -1;
}

/* Found by libzmq in place of the C library's. */
int accept4(int socket, struct sockaddr *address, socklen_t *length, int flags)
{
    return admit((int)syscall(SYS_accept4, socket, address, length, flags));
}

int accept(int socket, struct sockaddr *address, socklen_t *length)
{
    return accept4(socket, address, length, 0);
}
