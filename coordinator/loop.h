/*
 * The coordinator's event loop: one thread, woken by descriptors, ZeroMQ sockets and timers, asleep
 * otherwise. Callbacks run one after the other and must not block.
 */
#ifndef TERN_LOOP_H
#define TERN_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct tern_loop;
typedef void (*tern_callback)(void *context);

struct tern_loop *tern_loop_new(void); /* NULL: out of memory */
void tern_loop_free(struct tern_loop *loop);

/* Calls back while fd is readable or hung up. Returns a watch id > 0, or 0: out of memory. A watch
 * may be removed from inside any callback; a removed one is never called again. */
int tern_loop_watch_fd(struct tern_loop *loop, int fd, tern_callback callback, void *context);
/* The same for a ZeroMQ socket with input. */
int tern_loop_watch_socket(struct tern_loop *loop, void *socket, tern_callback callback,
                           void *context);
void tern_loop_unwatch(struct tern_loop *loop, int watch);

/* Calls back once at or after `at_ns` (tern_now_ns). Returns a timer id > 0, or 0. */
int tern_loop_timer(struct tern_loop *loop, uint64_t at_ns, tern_callback callback, void *context);
void tern_loop_cancel(struct tern_loop *loop, int timer); /* 0 and fired timers are ignored */

/* Until tern_loop_stop is called from a callback; returns true then. False: it can no longer poll
 * (out of memory, a closed socket); errno says why. */
bool tern_loop_run(struct tern_loop *loop);
void tern_loop_stop(struct tern_loop *loop);

#endif
