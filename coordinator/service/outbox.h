/*
 * What was sent to a client and lies in this process because the client does not read: counted in
 * bytes, and bounded. libzmq counts messages only, and has no notice of what it got rid of; but it
 * frees each message's bytes once they are in the client's socket, or the client is gone.
 */
#ifndef TERN_OUTBOX_H
#define TERN_OUTBOX_H

#include "proto/message.h"

enum { TERN_CLIENT_ID = 255 }; /* bytes of a ROUTER's name for a client, at most */
/* Unread bytes of one client and of all; a client with less than the share is never refused for
 * what others left unread. Each message counts as TERN_OUTBOX_MESSAGE bytes more than it has. */
#define TERN_OUTBOX_BYTES   (64u << 20)
#define TERN_OUTBOX_ALL     (256u << 20)
#define TERN_OUTBOX_SHARE   (1u << 20)
#define TERN_OUTBOX_MESSAGE 512u
/* What streams pauses while more than this is unread. */
#define TERN_OUTBOX_PAUSE (16u << 20)

struct tern_client {
    uint8_t bytes;
    uint8_t id[TERN_CLIENT_ID];
};

bool tern_same_client(const struct tern_client *a, const struct tern_client *b);

struct tern_outbox;

/* The client's, made if it has none; to be given back. NULL: out of memory. */
struct tern_outbox *tern_outbox_get(struct tern_outbox **list, const struct tern_client *client);
void tern_outbox_release(struct tern_outbox *outbox);
/* Frees those that nobody uses and that are empty. */
void tern_outbox_sweep(struct tern_outbox **list);
/* All, when the service ends; messages may still be on their way. None is in use. */
void tern_outbox_free(struct tern_outbox **list);

/* Sends the finished pack and frees it. False: the client is gone, too much is unread, or there is
 * no memory. */
bool tern_outbox_send(struct tern_outbox *outbox, void *socket, struct tern_pack *pack);

/* May streaming go on? */
bool tern_outbox_drained(const struct tern_outbox *outbox);

#endif
