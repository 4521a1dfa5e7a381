/* libzmq aborts the process when it cannot start its threads; so whoever uses it asks first. */
#ifndef TERN_PROTO_THREADS_H
#define TERN_PROTO_THREADS_H

#include "proto/status.h"

/* Starts and ends the two threads that a ZeroMQ context has. TERN_FAILED if the limits of this
 * process or its memory do not allow them. */
enum tern_status tern_threads_fit(struct tern_error *error);

#endif
