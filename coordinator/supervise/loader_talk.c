/*
 * What a loader says over its channel, and how long it may say nothing. It is the process trusted
 * least: whatever does not fit ends it.
 */
#include "coordinator/supervise/loader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint64_t look_ns = 500000000u; /* between two looks at a loader's progress */

void loader_stop_watching(struct tern_loader *l)
{
    tern_loop_unwatch(l->supervisor->loop, l->channel_watch);
    tern_loop_cancel(l->supervisor->loop, l->timer);
    l->channel_watch = l->timer = 0;
}

/* ---- hanging ---- */

/* Time the loader had for itself since the last look: CPU time while it wants the CPU, all of it
 * while it waits for the disk, sleeps or is stopped. */
static uint64_t own_time(struct tern_loader *l, uint64_t now)
{
    if (!activity_read(l->process.pid, &l->now))
        return 0;
    const bool wants_cpu = l->now.runnable && !l->now.disk && !l->now.stopped;
    const uint64_t own = wants_cpu ? activity_busiest(&l->before, &l->now) : now - l->looked_ns;
    l->before = l->now;
    return own;
}

static void look_later(struct tern_loader *l);

static void on_look(void *context)
{
    struct tern_loader *l = context;
    const uint64_t now = tern_now_ns();
    l->timer = 0;
    l->idle_ns += own_time(l, now);
    l->looked_ns = now;
    if (l->idle_ns < l->supervisor->policy.loader_ns) {
        look_later(l);
        return;
    }
    l->hung = true;
    process_kill(&l->process);
}

static void look_later(struct tern_loader *l)
{
    const uint64_t limit = l->supervisor->policy.loader_ns / 4;
    l->timer = tern_loop_timer(l->supervisor->loop,
                               tern_now_ns() + (limit < look_ns ? limit : look_ns), on_look, l);
}

/* Something came from the loader, or it was given work. */
void loader_progress(struct tern_loader *l)
{
    l->idle_ns = 0;
    l->looked_ns = tern_now_ns();
    if (l->timer != 0 || l->process.pid == 0)
        return;
    if (!activity_read(l->process.pid, &l->before))
        l->before.threads = 0;
    look_later(l);
}

/* ---- what the loader says ---- */

/* The process is not believed any further; the failure is told when it has ended. */
static void refuse(struct tern_loader *l, enum tern_status status, const char *text, size_t length)
{
    if (!l->refused)
        tern_fail(&l->reason, status, "%.*s", length < 450 ? (int)length : 450, text);
    l->refused = true;
    process_kill(&l->process);
}

static void refuse_protocol(struct tern_loader *l, const char *what)
{
    char text[300];
    snprintf(text, sizeof text, "model file rejected: the loader of %.200s %s", l->name, what);
    refuse(l, TERN_BAD_MODEL, text, strlen(text));
}

/* The loader may still write what is mapped here: tern_catalog_open works on a copy. */
static enum tern_status map_catalog(struct tern_loader *l, struct tern_error *error)
{
    const int reader = tern_segment_reader(l->catalog_fd);
    if (reader < 0)
        return tern_fail(error, TERN_FAILED, "cannot reopen a catalog: %s", strerror(errno));
    const enum tern_status status = tern_segment_map(reader, TERN_SEGMENT_CATALOG, l->catalog_id,
                                                     false, false, &l->catalog, error);
    close(reader);
    return status;
}

static void take_catalog(struct tern_loader *l)
{
    if (l->phase != PHASE_READING) {
        refuse_protocol(l, "sent its catalog twice");
        return;
    }
    l->phase = PHASE_OPEN;
    l->process.state = PROCESS_RUNNING;
    tern_loop_cancel(l->supervisor->loop, l->timer); /* it waits for us now */
    l->timer = 0;
    if (l->told_catalog) { /* the file is the same, so what was told still holds */
        if (l->want_fill)
            loader_begin_fill(l);
        return;
    }
    struct tern_error error;
    if (map_catalog(l, &error) != TERN_OK) {
        refuse(l, error.status, error.message, strlen(error.message));
        return;
    }
    l->told_catalog = true;
    l->events.catalog(l->events.context, &l->catalog);
}

/* Only more bytes than before are progress: a loader that repeats itself hangs. */
static void take_progress(struct tern_loader *l, const struct tern_message *message)
{
    const uint64_t of = tern_message_u64(message, TERN_F_ALL_UNITS, 0);
    const uint64_t done = tern_message_u64(message, TERN_F_DONE_UNITS, 0);
    if (l->phase != PHASE_FILLING || done > of) {
        refuse_protocol(l, "tells of bytes that nobody asked it to read");
        return;
    }
    if (done <= l->filled_bytes)
        return;
    l->filled_bytes = done;
    loader_progress(l);
    if (l->events.progress != NULL)
        l->events.progress(l->events.context, done, of);
}

static void take_filled(struct tern_loader *l)
{
    if (l->phase != PHASE_FILLING) {
        refuse_protocol(l, "claims to have filled what it was not given");
        return;
    }
    l->phase = PHASE_FILLED;
    loader_progress(l);
}

static void take_error(struct tern_loader *l, const struct tern_message *message)
{
    size_t length;
    const uint64_t status = tern_message_u64(message, TERN_F_STATUS, TERN_BAD_MODEL);
    const char *text = tern_message_text(message, TERN_F_TEXT, &length);
    const bool known = status >= TERN_FAILED && status <= TERN_UNSUPPORTED;
    if (text == NULL)
        refuse_protocol(l, "gave no reason");
    else
        refuse(l, known ? (enum tern_status)status : TERN_BAD_MODEL, text, length);
}

static void take_message(struct tern_loader *l, const struct tern_message *message)
{
    switch (message->kind) {
    case TERN_MSG_CATALOG:
        take_catalog(l);
        break;
    case TERN_MSG_PROGRESS:
        take_progress(l, message);
        break;
    case TERN_MSG_FILLED:
        take_filled(l);
        break;
    case TERN_MSG_ERROR:
        take_error(l, message);
        break;
    default:
        refuse_protocol(l, "sent a message that makes no sense");
    }
}

/* One message per call: a callback may have closed the loader. Returns whether there may be more.
 */
static bool receive(struct tern_loader *l)
{
    struct tern_supervisor *s = l->supervisor;
    struct tern_parcel parcel;
    struct tern_message message;
    const enum tern_status status =
        tern_channel_receive(l->process.channel, 0, &parcel, s->buffer, NULL);
    if (status == TERN_INTERRUPTED)
        return false;
    if (status == TERN_NO_SERVICE) { /* it ends, and the pidfd will tell how */
        tern_loop_unwatch(s->loop, l->channel_watch);
        l->channel_watch = 0;
        return false;
    }
    if (parcel.fd >= 0)
        close(parcel.fd);
    if (l->refused)
        return true;
    if (status != TERN_OK || parcel.kind != TERN_PARCEL_MESSAGE ||
        tern_message_parse(s->buffer, parcel.bytes, &message, NULL) != TERN_OK)
        refuse_protocol(l, "sent something malformed");
    else
        take_message(l, &message);
    return true;
}

void loader_on_channel(void *context)
{
    receive(context);
}

/* What it said before it ended counts. */
void loader_on_ending(void *context)
{
    struct tern_loader *l = context;
    while (!l->closed && l->channel_watch != 0 && receive(l))
        ;
}
