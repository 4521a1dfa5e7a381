#include "parcels.h"

#include "proto/wait.h"
#include <string.h>
#include <unistd.h>

static void drop(struct tern_parcels *parcels, uint32_t index)
{
    parcels->count--;
    memmove(&parcels->held[index], &parcels->held[index + 1],
            (parcels->count - index) * sizeof parcels->held[0]);
}

enum tern_status tern_parcels_receive(struct tern_parcels *parcels, int timeout_ms,
                                      struct tern_error *error)
{
    struct tern_parcel parcel;
    const enum tern_status status =
        tern_channel_receive(parcels->channel, timeout_ms, &parcel, parcels->message, error);
    if (status != TERN_OK || parcel.fd < 0)
        return status;
    if (parcels->count == TERN_MAX_PARCELS) {
        close(parcels->held[0].fd);
        drop(parcels, 0);
    }
    parcels->held[parcels->count++] = parcel;
    return TERN_OK;
}

static bool take_held(struct tern_parcels *parcels, enum tern_parcel_kind kind,
                      enum tern_segment_kind segment, uint64_t id, int *fd, uint64_t *id_out)
{
    for (uint32_t i = 0; i < parcels->count; i++) {
        const struct tern_parcel *held = &parcels->held[i];
        const bool is_segment = kind != TERN_PARCEL_EVENT;
        if (held->kind != kind || (is_segment && held->segment != segment) ||
            (is_segment && id != 0 && held->id != id))
            continue;
        *fd = held->fd;
        *id_out = held->id;
        drop(parcels, i);
        return true;
    }
    return false;
}

enum tern_status tern_parcels_take(struct tern_parcels *parcels, enum tern_parcel_kind kind,
                                   enum tern_segment_kind segment, uint64_t id, int *fd,
                                   uint64_t *id_out, struct tern_error *error)
{
    const uint64_t until = tern_now_ns() + TERN_PARCEL_WAIT_MS * 1000000ull;
    while (!take_held(parcels, kind, segment, id, fd, id_out)) {
        const uint64_t now = tern_now_ns();
        enum tern_status status = TERN_INTERRUPTED;
        if (now < until)
            status = tern_parcels_receive(parcels, (int)((until - now) / 1000000) + 1, error);
        if (status == TERN_INTERRUPTED && tern_now_ns() >= until)
            return tern_fail(error, TERN_FAILED,
                             "no descriptor of segment %llu (kind %u) came within %d ms",
                             (unsigned long long)id, segment, TERN_PARCEL_WAIT_MS);
        if (status != TERN_OK && status != TERN_INTERRUPTED)
            return status;
    }
    return TERN_OK;
}

void tern_parcels_discard(struct tern_parcels *parcels, uint64_t id)
{
    /* Whatever ends the channel is found again by the next receive. */
    struct tern_error ignored;
    while (tern_parcels_receive(parcels, 0, &ignored) == TERN_OK)
        ;
    for (uint32_t i = parcels->count; i-- > 0;) {
        if (parcels->held[i].kind == TERN_PARCEL_EVENT || parcels->held[i].id != id)
            continue;
        close(parcels->held[i].fd);
        drop(parcels, i);
    }
}
