/*
 * The client's side of the protocol: one connection to the service, requests with replies, credit,
 * cancellation by Ctrl-C, and the service's death noticed.
 */
#ifndef TERN_CMD_CLIENT_H
#define TERN_CMD_CLIENT_H

#include "proto/message.h"
#include "proto/runtime.h"
#include <poll.h>

struct client {
    struct tern_runtime runtime;
    void *context, *socket; /* ZeroMQ */
    int service;            /* process id of the service that answered */
    uint64_t request;       /* number of the newest request */
};

/* Connects. start: starts the service when none runs and waits until it answers. Without it and
 * without a service: TERN_NO_SERVICE. */
enum tern_status client_open(struct client *client, bool start, struct tern_error *error);
void client_close(struct client *client);

/* Begins a message of a new request. */
void client_begin(struct client *client, struct tern_pack *pack, enum tern_message_kind kind);

/* What to do with each reply but ERROR; false ends the request early (it is cancelled). */
typedef bool (*client_reply)(void *context, const struct tern_message *reply);

/* Sends the packed request (and frees it), then hands every reply to `reply` until RESULT, DONE or
 * ERROR. An ERROR becomes the returned status. Ctrl-C cancels the request, waits for its end and
 * returns TERN_INTERRUPTED. `reply` may be NULL; PROGRESS is shown when stderr is a terminal, its
 * texts otherwise only if they are notes (no units). */
enum tern_status client_call(struct client *client, struct tern_pack *pack, client_reply reply,
                             void *context, struct tern_error *error);

/* From now on signals that ask for the end are noted in client_interrupted (client_open calls it).
 */
void client_catch_signals(void);

/* A signal asked for the end since client_open; calls that block return EINTR then. */
bool client_interrupted(void);

/* poll that no such signal can slip past: -1 with EINTR if one came, also before. timeout_ns -1: no
 * limit. */
int client_poll(struct pollfd *items, unsigned count, int64_t timeout_ns);

/* Takes note of Ctrl-C: later calls are not concerned by it. False when another signal asks for the
 * end, which stays so. */
bool client_forget_interrupt(void);

/* Path of the program ternd. */
enum tern_status service_program(char *path, size_t room, struct tern_error *error);

/* Starts the service as a session of its own and waits until it holds its lock (start.c). */
enum tern_status service_start(const struct tern_runtime *runtime, struct tern_error *error);

/* Where the log of services that clients start is found (start.c). */
void service_log(const struct tern_runtime *runtime, char *path, size_t room);

#endif
