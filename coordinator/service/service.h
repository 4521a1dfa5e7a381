/*
 * The client protocol (proto/message.h) over a ZeroMQ ROUTER: takes requests, finds or loads what
 * they need, streams answers on credit, notices clients that are gone. Never trusts a message:
 * what is malformed or over a limit is answered with an error.
 */
#ifndef TERN_SERVICE_H
#define TERN_SERVICE_H

#include "coordinator/loop.h"
#include "coordinator/schedule/schedule.h"
#include "coordinator/supervise.h"

struct tern_service;

/* Binds a ROUTER at `address` (ipc://...) and serves from the loop. Everything is borrowed.
 * TERN_NO_SERVICE if the address cannot be bound. */
enum tern_status tern_service_new(struct tern_loop *loop, void *zmq_context, const char *address,
                                  struct tern_supervisor *supervisor,
                                  struct tern_scheduler *scheduler, struct tern_service **out,
                                  struct tern_error *error);

/* Tells the clients of unfinished requests that the service ends, frees all. */
void tern_service_free(struct tern_service *service);

#endif
