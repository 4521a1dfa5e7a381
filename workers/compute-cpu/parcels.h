/*
 * Descriptors that came over the channel and wait for the message that names them.
 */
#ifndef TERN_CPU_PARCELS_H
#define TERN_CPU_PARCELS_H

#include "proto/channel.h"

enum { TERN_MAX_PARCELS = 64, TERN_PARCEL_WAIT_MS = 2000 };

struct tern_parcels {
    int channel;
    uint32_t count;
    struct tern_parcel held[TERN_MAX_PARCELS]; /* the oldest first */
    uint8_t message[TERN_CHANNEL_MAX];
};

/* Receives one parcel. TERN_NO_SERVICE: the channel has ended; TERN_INTERRUPTED: nothing came
 * within timeout_ms; TERN_FAILED: malformed. When too many wait, the oldest is closed. */
enum tern_status tern_parcels_receive(struct tern_parcels *parcels, int timeout_ms,
                                      struct tern_error *error);

/* Takes the descriptor of the segment `id` (0: any of that kind), or of the event (segment NONE),
 * receiving for up to TERN_PARCEL_WAIT_MS. The caller owns *fd. */
enum tern_status tern_parcels_take(struct tern_parcels *parcels, enum tern_parcel_kind kind,
                                   enum tern_segment_kind segment, uint64_t id, int *fd,
                                   uint64_t *id_out, struct tern_error *error);

/* Closes the descriptor of the segment `id` if it has come: nobody will take it. */
void tern_parcels_discard(struct tern_parcels *parcels, uint64_t id);

#endif
