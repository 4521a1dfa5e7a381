#include "proto/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What travels in front of the message; the descriptor is ancillary data. */
struct wire {
    uint32_t version, kind, segment, bytes;
    uint64_t id, size;
};

enum { WIRE_VERSION = 1 };

enum tern_status tern_channel_pair(int ends[2], struct tern_error *error)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0)
        return TERN_OK;
    return tern_fail(error, TERN_FAILED, "cannot create a socket pair: %s", strerror(errno));
}

enum tern_status tern_channel_send(int channel, const struct tern_parcel *parcel,
                                   const void *message, struct tern_error *error)
{
    if (parcel->bytes > TERN_CHANNEL_MAX)
        return tern_fail(error, TERN_FAILED, "a message of %zu bytes is too long for a channel",
                         parcel->bytes);
    struct wire wire = {
        .version = WIRE_VERSION,
        .kind = parcel->kind,
        .segment = parcel->segment,
        .bytes = (uint32_t)parcel->bytes,
        .id = parcel->id,
        .size = parcel->size,
    };
    struct iovec parts[2] = {
        {.iov_base = &wire, .iov_len = sizeof wire},
        {.iov_base = (void *)(uintptr_t)message, .iov_len = parcel->bytes},
    };
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = parcel->bytes > 0 ? 2 : 1};
    if (parcel->fd >= 0) {
        header.msg_control = &control;
        header.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &parcel->fd, sizeof(int));
    }
    for (;;) {
        if (sendmsg(channel, &header, MSG_NOSIGNAL) >= 0)
            return TERN_OK;
        if (errno != EINTR)
            return tern_fail(error, TERN_FAILED, "cannot send to the process: %s", strerror(errno));
    }
}

/* Takes the descriptor out of the ancillary data and closes what should not be there. */
static int take_descriptor(struct msghdr *header)
{
    int taken = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (taken < 0)
                taken = fd;
            else
                close(fd);
        }
    }
    return taken;
}

static bool parcel_is_well_formed(const struct wire *wire, ssize_t received, int flags, int fd)
{
    if (received < (ssize_t)sizeof *wire || (flags & (MSG_TRUNC | MSG_CTRUNC)))
        return false;
    if (wire->version != WIRE_VERSION || wire->kind > TERN_PARCEL_EVENT ||
        wire->segment > TERN_SEGMENT_TABLES || wire->bytes != (size_t)received - sizeof *wire)
        return false;
    return (fd >= 0) == (wire->kind != TERN_PARCEL_MESSAGE);
}

enum tern_status tern_channel_receive(int channel, int timeout_ms, struct tern_parcel *parcel,
                                      void *buffer, struct tern_error *error)
{
    struct wire wire;
    struct iovec parts[2] = {
        {.iov_base = &wire, .iov_len = sizeof wire},
        {.iov_base = buffer, .iov_len = TERN_CHANNEL_MAX},
    };
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr header = {
        .msg_iov = parts,
        .msg_iovlen = 2,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    *parcel = (struct tern_parcel){.fd = -1};

    struct pollfd ready = {.fd = channel, .events = POLLIN};
    int polled;
    do
        polled = poll(&ready, 1, timeout_ms);
    while (polled < 0 && errno == EINTR && timeout_ms < 0);
    if (polled <= 0)
        return tern_fail(error, TERN_INTERRUPTED, "no message in time");

    const ssize_t received = recvmsg(channel, &header, MSG_CMSG_CLOEXEC);
    if (received == 0 || (received < 0 && errno == ECONNRESET))
        return tern_fail(error, TERN_NO_SERVICE, "the other side has closed the channel");
    if (received < 0)
        return tern_fail(error, errno == EINTR ? TERN_INTERRUPTED : TERN_FAILED,
                         "cannot receive: %s", strerror(errno));
    const int fd = take_descriptor(&header);
    if (!parcel_is_well_formed(&wire, received, header.msg_flags, fd)) {
        if (fd >= 0)
            close(fd);
        return tern_fail(error, TERN_FAILED, "malformed parcel on a channel");
    }
    *parcel = (struct tern_parcel){
        .kind = wire.kind,
        .segment = wire.segment,
        .id = wire.id,
        .size = wire.size,
        .fd = fd,
        .bytes = wire.bytes,
    };
    return TERN_OK;
}
