#include "coordinator/service/outbox.h"

#include "proto/log.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { COPIED = 64 << 10 }; /* larger messages are handed over as they are */

struct tern_outbox {
    struct tern_outbox *next;
    struct tern_client client;
    unsigned users;          /* of the loop */
    bool told;               /* in the log, that it does not read */
    _Atomic uint64_t unread; /* bytes */
    _Atomic unsigned held;   /* by the list, and by each message that was not freed yet */
};

/* What libzmq holds: freed from its threads. */
struct parcel {
    struct tern_outbox *outbox;
    size_t counted;
    struct tern_pack pack; /* if it was not copied */
    uint8_t copy[];
};

/* Of all outboxes; messages may outlive the service that sent them. */
static _Atomic uint64_t all_unread;

bool tern_same_client(const struct tern_client *a, const struct tern_client *b)
{
    return a->bytes == b->bytes && memcmp(a->id, b->id, a->bytes) == 0;
}

/* From any thread. */
static void let_go(struct tern_outbox *outbox)
{
    if (atomic_fetch_sub(&outbox->held, 1) == 1)
        free(outbox);
}

static struct tern_outbox *add(struct tern_outbox **list, const struct tern_client *client)
{
    struct tern_outbox *outbox = calloc(1, sizeof *outbox);
    if (outbox == NULL)
        return NULL;
    outbox->client = *client;
    atomic_init(&outbox->held, 1);
    outbox->next = *list;
    *list = outbox;
    return outbox;
}

struct tern_outbox *tern_outbox_get(struct tern_outbox **list, const struct tern_client *client)
{
    struct tern_outbox *outbox = *list;
    while (outbox != NULL && !tern_same_client(&outbox->client, client))
        outbox = outbox->next;
    if (outbox == NULL)
        outbox = add(list, client);
    if (outbox != NULL)
        outbox->users++;
    return outbox;
}

void tern_outbox_release(struct tern_outbox *outbox)
{
    if (outbox != NULL)
        outbox->users--;
}

void tern_outbox_sweep(struct tern_outbox **list)
{
    while (*list != NULL) {
        struct tern_outbox *outbox = *list;
        if (outbox->users > 0 || atomic_load(&outbox->held) > 1) {
            list = &outbox->next;
            continue;
        }
        *list = outbox->next;
        let_go(outbox);
    }
}

void tern_outbox_free(struct tern_outbox **list)
{
    while (*list != NULL) {
        struct tern_outbox *outbox = *list;
        *list = outbox->next;
        let_go(outbox);
    }
}

/* libzmq needs the bytes no more. */
static void on_freed(void *bytes, void *hint)
{
    struct parcel *parcel = hint;
    struct tern_outbox *outbox = parcel->outbox;
    if (bytes != parcel->copy)
        tern_pack_free(&parcel->pack);
    atomic_fetch_sub(&outbox->unread, parcel->counted);
    atomic_fetch_sub(&all_unread, parcel->counted);
    free(parcel);
    let_go(outbox);
}

static bool has_room(struct tern_outbox *outbox, size_t more)
{
    const uint64_t unread = atomic_load(&outbox->unread) + more;
    if (unread <= TERN_OUTBOX_SHARE ||
        (unread <= TERN_OUTBOX_BYTES && atomic_load(&all_unread) + more <= TERN_OUTBOX_ALL)) {
        outbox->told = false;
        return true;
    }
    if (!outbox->told)
        tern_log("warning", "a client does not read its replies: its requests end");
    outbox->told = true;
    return false;
}

/* The pack becomes a message, or is freed. False: no memory. */
static bool wrap(struct tern_outbox *outbox, struct tern_pack *pack, const void *bytes, size_t size,
                 zmq_msg_t *message)
{
    const bool copied = size <= COPIED;
    struct parcel *parcel = malloc(sizeof *parcel + (copied ? size : 0));
    void *data = copied && parcel != NULL ? parcel->copy : (void *)bytes;
    if (parcel == NULL || zmq_msg_init_data(message, data, size, on_freed, parcel) != 0) {
        free(parcel);
        tern_pack_free(pack);
        return false;
    }
    parcel->outbox = outbox;
    parcel->counted = size + TERN_OUTBOX_MESSAGE;
    if (copied) {
        memcpy(parcel->copy, bytes, size);
        tern_pack_free(pack);
    } else {
        parcel->pack = *pack;
    }
    atomic_fetch_add(&outbox->unread, parcel->counted);
    atomic_fetch_add(&all_unread, parcel->counted);
    atomic_fetch_add(&outbox->held, 1);
    return true;
}

bool tern_outbox_send(struct tern_outbox *outbox, void *socket, struct tern_pack *pack)
{
    size_t size;
    zmq_msg_t message;
    const void *bytes = tern_pack_end(pack, &size);
    if (bytes == NULL || !has_room(outbox, size + TERN_OUTBOX_MESSAGE)) {
        tern_pack_free(pack);
        return false;
    }
    if (!wrap(outbox, pack, bytes, size, &message))
        return false;
    if (zmq_send(socket, outbox->client.id, outbox->client.bytes, ZMQ_DONTWAIT | ZMQ_SNDMORE) >=
            0 &&
        zmq_msg_send(&message, socket, ZMQ_DONTWAIT) >= 0)
        return true;
    zmq_msg_close(&message);
    return false;
}

bool tern_outbox_drained(const struct tern_outbox *outbox)
{
    return atomic_load(&outbox->unread) <= TERN_OUTBOX_PAUSE;
}
