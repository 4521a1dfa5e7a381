/*
 * The event loop over zmq_poll. Few watches and fewer timers exist at one time (a process or a
 * client socket each), so both live in plain arrays: what matters is that an idle service sleeps in
 * one poll without a timeout.
 *
 * A round of callbacks works on ids taken before the first of them ran and looks each one up again,
 * so that a callback may add and remove whatever it likes. Ids count up, and begin again after
 * 2^31, past those that are in use.
 */
#include "coordinator/loop.h"

#include "proto/log.h"
#include "proto/wait.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

struct watch {
    int id;
    int fd;       /* if socket is NULL */
    void *socket; /* ZeroMQ */
    tern_callback callback;
    void *context;
};

struct timer {
    int id;
    uint64_t at_ns, round; /* round: when it was set */
    tern_callback callback;
    void *context;
};

struct tern_loop {
    struct watch *watches;
    size_t watch_count, watch_room;
    struct timer *timers;
    size_t timer_count, timer_room;
    zmq_pollitem_t *items; /* what is polled; rebuilt from `watches` before every poll */
    int *item_ids;         /* the watch of each item */
    size_t item_room;
    int last_id;
    uint64_t round; /* of timers */
    bool stopped;
};

struct tern_loop *tern_loop_new(void)
{
    return calloc(1, sizeof(struct tern_loop));
}

void tern_loop_free(struct tern_loop *loop)
{
    if (loop == NULL)
        return;
    free(loop->watches);
    free(loop->timers);
    free(loop->items);
    free(loop->item_ids);
    free(loop);
}

/* Makes room for one more entry of `size` bytes. */
static bool reserve(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    const size_t grown = *room == 0 ? 8 : *room * 2;
    void *old;
    memcpy(&old, array, sizeof old);
    void *fresh = reallocarray(old, grown, size);
    if (fresh == NULL)
        return false;
    memcpy(array, &fresh, sizeof fresh);
    *room = grown;
    return true;
}

static struct watch *find_watch(struct tern_loop *loop, int id)
{
    for (size_t i = 0; i < loop->watch_count; i++)
        if (loop->watches[i].id == id)
            return &loop->watches[i];
    return NULL;
}

static struct timer *find_timer(struct tern_loop *loop, int id)
{
    for (size_t i = 0; i < loop->timer_count; i++)
        if (loop->timers[i].id == id)
            return &loop->timers[i];
    return NULL;
}

static int next_id(struct tern_loop *loop)
{
    do
        loop->last_id = loop->last_id == INT_MAX ? 1 : loop->last_id + 1;
    while (find_watch(loop, loop->last_id) != NULL || find_timer(loop, loop->last_id) != NULL);
    return loop->last_id;
}

static int add_watch(struct tern_loop *loop, struct watch watch)
{
    if (!reserve(&loop->watches, loop->watch_count, &loop->watch_room, sizeof watch))
        return 0;
    watch.id = next_id(loop);
    loop->watches[loop->watch_count++] = watch;
    return watch.id;
}

int tern_loop_watch_fd(struct tern_loop *loop, int fd, tern_callback callback, void *context)
{
    return add_watch(loop, (struct watch){.fd = fd, .callback = callback, .context = context});
}

int tern_loop_watch_socket(struct tern_loop *loop, void *socket, tern_callback callback,
                           void *context)
{
    return add_watch(loop,
                     (struct watch){.socket = socket, .callback = callback, .context = context});
}

void tern_loop_unwatch(struct tern_loop *loop, int watch)
{
    struct watch *found = find_watch(loop, watch);
    if (found != NULL)
        *found = loop->watches[--loop->watch_count];
}

int tern_loop_timer(struct tern_loop *loop, uint64_t at_ns, tern_callback callback, void *context)
{
    if (!reserve(&loop->timers, loop->timer_count, &loop->timer_room, sizeof(struct timer)))
        return 0;
    const int id = next_id(loop);
    loop->timers[loop->timer_count++] = (struct timer){
        .id = id, .at_ns = at_ns, .round = loop->round, .callback = callback, .context = context};
    return id;
}

void tern_loop_cancel(struct tern_loop *loop, int timer)
{
    struct timer *found = find_timer(loop, timer);
    if (found != NULL)
        *found = loop->timers[--loop->timer_count];
}

/* Milliseconds until the next timer, rounded up; -1 without one. */
static long poll_timeout(const struct tern_loop *loop)
{
    if (loop->timer_count == 0)
        return -1;
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < loop->timer_count; i++)
        if (loop->timers[i].at_ns < first)
            first = loop->timers[i].at_ns;
    const uint64_t now = tern_now_ns();
    if (first <= now)
        return 0;
    const uint64_t ms = (first - now + 999999) / 1000000;
    return ms > 3600000 ? 3600000 : (long)ms;
}

/* The earliest timer that is due and was set before this round. */
static struct timer *due_timer(struct tern_loop *loop, uint64_t now)
{
    struct timer *due = NULL;
    for (size_t i = 0; i < loop->timer_count; i++) {
        struct timer *t = &loop->timers[i];
        if (t->at_ns <= now && t->round < loop->round && (due == NULL || t->at_ns < due->at_ns))
            due = t;
    }
    return due;
}

/* Everybody waits while a callback runs; one that takes this long is told of in the log. */
#define LONG_NS (20ull * 1000 * 1000)

static void call(tern_callback callback, void *context)
{
    const uint64_t began = tern_now_ns();
    callback(context);
    const uint64_t took = tern_now_ns() - began;
    if (took >= LONG_NS)
        tern_log("debug", "the loop stood still for %u ms", (unsigned)(took / 1000000));
}

/* A timer set by a callback waits for the next round, so that one that sets itself again for "now"
 * cannot starve the descriptors. */
static void run_timers(struct tern_loop *loop)
{
    if (loop->timer_count == 0)
        return;
    const uint64_t now = tern_now_ns();
    struct timer *due;
    loop->round++;
    while (!loop->stopped && (due = due_timer(loop, now)) != NULL) {
        const struct timer fired = *due;
        tern_loop_cancel(loop, fired.id);
        call(fired.callback, fired.context);
    }
}

/* Copies the watches into poll items. False: out of memory. */
static bool build_items(struct tern_loop *loop)
{
    if (loop->item_room < loop->watch_count) {
        zmq_pollitem_t *items = reallocarray(loop->items, loop->watch_room, sizeof *items);
        if (items == NULL)
            return false;
        loop->items = items;
        int *ids = reallocarray(loop->item_ids, loop->watch_room, sizeof *ids);
        if (ids == NULL)
            return false;
        loop->item_ids = ids;
        loop->item_room = loop->watch_room;
    }
    for (size_t i = 0; i < loop->watch_count; i++) {
        const struct watch *w = &loop->watches[i];
        loop->items[i] = (zmq_pollitem_t){.socket = w->socket, .fd = w->fd, .events = ZMQ_POLLIN};
        loop->item_ids[i] = w->id;
    }
    return true;
}

static void run_watches(struct tern_loop *loop, size_t count)
{
    for (size_t i = 0; i < count && !loop->stopped; i++) {
        if (loop->items[i].revents == 0)
            continue;
        const struct watch *w = find_watch(loop, loop->item_ids[i]);
        if (w != NULL)
            call(w->callback, w->context);
    }
}

bool tern_loop_run(struct tern_loop *loop)
{
    loop->stopped = false;
    while (!loop->stopped) {
        if (!build_items(loop))
            return false;
        const size_t count = loop->watch_count;
        const int ready = zmq_poll(loop->items, (int)count, poll_timeout(loop));
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0)
            run_watches(loop, count);
        run_timers(loop);
    }
    return true;
}

void tern_loop_stop(struct tern_loop *loop)
{
    loop->stopped = true;
}
