/*
 * Who may still come in: libzmq aborts the process when it accepts a connection and no descriptor
 * is left, and it has no way to stop accepting. So ternd stands between it and the kernel: this
 * file defines accept and accept4 for the whole program. A connection that would take one of the
 * last descriptors, which the service needs for itself, is closed at once; clients try again by
 * themselves.
 */
#ifndef TERN_DOOR_H
#define TERN_DOOR_H

#include "proto/status.h"

/* Raises the limit of open files as far as allowed and decides how many connections may take; says
 * so in the log where that is few. TERN_NO_SERVICE where nobody could be served. Before any other
 * thread exists. */
enum tern_status tern_door_open(struct tern_error *error);

#endif
