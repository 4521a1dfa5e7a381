/*
 * Where a service lives: the runtime folder with its lock and its sockets. A daemon belongs to its
 * folder: another XDG_RUNTIME_DIR is another, independent daemon.
 */
#ifndef TERN_PROTO_RUNTIME_H
#define TERN_PROTO_RUNTIME_H

#include "proto/status.h"

/* Paths fit the 107 bytes of a socket address with room for the longest file name. */
struct tern_runtime {
    char folder[112];
    char lock[128];    /* locked by the daemon for its whole life, before it binds a socket */
    char clients[140]; /* ipc:// address that clients connect to */
    char workers[140]; /* ipc:// address that compute workers connect to */
};

/* $XDG_RUNTIME_DIR/tern; /tmp/tern-UID where the variable is unset or empty; /tmp/tern-UID-HASH of
 * its value where that is relative, too long for a socket or another user's. Makes the folder
 * (0700) and refuses one that is not ours alone. TERN_NO_SERVICE. */
enum tern_status tern_runtime_open(struct tern_runtime *runtime, struct tern_error *error);

/* Takes the daemon's lock: a descriptor to keep, or -1 with *error filled (TERN_NO_SERVICE when
 * another daemon holds it). */
int tern_runtime_lock(const struct tern_runtime *runtime, struct tern_error *error);

/* Process id of the daemon that holds the lock, or 0 when none does. In the instant between taking
 * the lock and writing the id it is that of the daemon before, or 1: for messages, not for
 * signals. */
int tern_runtime_holder(const struct tern_runtime *runtime);

#endif
