/*
 * The socketpair between the coordinator and each process it starts: carries descriptors of
 * segments (SCM_RIGHTS), each with the id, kind and size by which messages name them, and for the
 * loader, which has no ZeroMQ inside its sandbox, the messages too. SOCK_SEQPACKET, so that one
 * send is one receive.
 */
#ifndef TERN_PROTO_CHANNEL_H
#define TERN_PROTO_CHANNEL_H

#include "proto/segment.h"

enum { TERN_CHANNEL_FD = 3 }; /* where a started process finds its end */

/* Largest message on a channel. */
enum { TERN_CHANNEL_MAX = 64 * 1024 };

/* What a parcel's descriptor is. */
enum tern_parcel_kind {
    TERN_PARCEL_MESSAGE = 0,   /* no descriptor: a packed message (proto/message.h) follows */
    TERN_PARCEL_SEGMENT,       /* read-only descriptor of a segment */
    TERN_PARCEL_SEGMENT_WRITE, /* writable descriptor of a segment: the receiver is its writer */
    TERN_PARCEL_MODEL_FILE,    /* the model file, read-only (loader) */
    TERN_PARCEL_EVENT,         /* eventfd that wakes the coordinator */
};

struct tern_parcel {
    enum tern_parcel_kind kind;
    enum tern_segment_kind segment; /* for segments */
    uint64_t id;                    /* of the segment */
    uint64_t size;                  /* data bytes of the segment, or bytes of the file */
    int fd;                         /* -1 if none; the receiver owns it */
    size_t bytes;                   /* of the message that came with it */
};

/* Makes the pair; both ends CLOEXEC. */
enum tern_status tern_channel_pair(int ends[2], struct tern_error *error);

/* Sends a parcel; `message` of parcel->bytes bytes may be NULL when that is 0. The descriptor stays
 * the caller's. TERN_FAILED when the peer is gone, or reads nothing and this end does not block. */
enum tern_status tern_channel_send(int channel, const struct tern_parcel *parcel,
                                   const void *message, struct tern_error *error);

/* Receives one parcel into *parcel and its message into buffer[TERN_CHANNEL_MAX]. timeout_ms < 0:
 * waits for ever. Returns TERN_OK, TERN_NO_SERVICE on end of file, TERN_INTERRUPTED on time-out (a
 * signal may end the wait early), TERN_FAILED on a malformed parcel. */
enum tern_status tern_channel_receive(int channel, int timeout_ms, struct tern_parcel *parcel,
                                      void *buffer, struct tern_error *error);

#endif
