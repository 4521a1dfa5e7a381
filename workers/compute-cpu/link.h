/*
 * The worker's control socket: a ZeroMQ DEALER connected to the coordinator. One thread uses it.
 */
#ifndef TERN_CPU_LINK_H
#define TERN_CPU_LINK_H

#include "proto/message.h"

enum { TERN_SECRET_BYTES = 16 };

struct tern_link {
    void *context, *socket;
};

/* Connects to `control`, until the process ends. TERN_NO_SERVICE if it cannot. */
enum tern_status tern_link_open(struct tern_link *link, const char *control,
                                struct tern_error *error);

enum tern_status tern_link_hello(struct tern_link *link, uint32_t incarnation,
                                 const uint8_t secret[TERN_SECRET_BYTES], struct tern_error *error);
/* BOUND or RELEASED. */
enum tern_status tern_link_answer(struct tern_link *link, enum tern_message_kind kind,
                                  uint32_t plan, struct tern_error *error);
/* FAULT about a plan; `what` is sent, `error` is for the sending. */
enum tern_status tern_link_fault(struct tern_link *link, uint32_t plan,
                                 const struct tern_error *what, struct tern_error *error);

/* Waits until there is input on the socket (*message) or on `channel` (*channel_ready), or on both.
 */
enum tern_status tern_link_wait(struct tern_link *link, int channel, bool *message,
                                bool *channel_ready, struct tern_error *error);
/* Receives one message without waiting: *bytes (malloc'ed, the caller frees) holds what *message
 * points into. TERN_INTERRUPTED if there is none, TERN_USAGE if it is malformed. */
enum tern_status tern_link_receive(struct tern_link *link, struct tern_message *message,
                                   void **bytes, struct tern_error *error);

#endif
