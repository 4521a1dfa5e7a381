/*
 * Model files: one loader process per open file. The coordinator opens the file and watches; it
 * never parses it.
 *
 * A loader that crashes on a file means the file is rejected. One that was killed from outside is
 * started once more, from the beginning of the file.
 */
#include "coordinator/supervise/internal.h"

#include "proto/catalog.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t look_ns = 500000000u; /* between two looks at a loader's progress */

enum phase {
    PHASE_READING, /* CATALOG is awaited */
    PHASE_OPEN,    /* the catalog is there, FILL was not asked for */
    PHASE_FILLING, /* FILLED is awaited */
    PHASE_FILLED,  /* the process is about to exit */
    PHASE_ENDED,   /* failed or done: no further event */
};

struct tern_loader {
    struct tern_loader *next;
    struct tern_supervisor *supervisor;
    struct process process;
    struct tern_loader_events events;
    enum phase phase;
    bool closed;       /* by its owner; goes when the process has */
    bool told_catalog; /* the event came, in this or an earlier incarnation */
    bool want_fill;    /* FILL is to be sent when the catalog is there */
    bool retried;      /* after a kill from outside */
    bool hung;         /* we killed it for that */
    bool refused;      /* it sent ERROR, kept in `reason`, or broke the protocol */
    struct tern_error reason;
    char *name; /* of the file, for messages */
    int file;
    struct stat identity;
    int catalog_fd;
    uint64_t catalog_id;
    struct tern_segment catalog; /* mapped once */
    int weights_fd;              /* a duplicate, -1 before FILL */
    uint64_t weights_id, weights_size;
    bool drop_cache;
    int channel_watch;
    /* Its own time without progress, see `looked`. */
    int timer;
    uint64_t looked_ns, idle_ns;
    struct activity before, now;
};

static void on_ending(void *context);
static void on_end(void *context, const struct process_end *end);
static void on_channel(void *context);

/* ---- freeing ---- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void unlink_loader(struct tern_loader *l)
{
    for (struct tern_loader **p = &l->supervisor->loaders; *p != NULL; p = &(*p)->next) {
        if (*p == l) {
            *p = l->next;
            return;
        }
    }
}

static void stop_watching(struct tern_loader *l)
{
    tern_loop_unwatch(l->supervisor->loop, l->channel_watch);
    tern_loop_cancel(l->supervisor->loop, l->timer);
    l->channel_watch = l->timer = 0;
}

static void free_loader(struct tern_loader *l)
{
    stop_watching(l);
    table_remove(l->supervisor, &l->process);
    unlink_loader(l);
    tern_segment_unmap(&l->catalog);
    close_fd(&l->file);
    close_fd(&l->catalog_fd);
    close_fd(&l->weights_fd);
    free(l->name);
    free(l);
}

void loaders_free(struct tern_supervisor *s)
{
    while (s->loaders != NULL)
        free_loader(s->loaders);
}

void tern_loader_close(struct tern_loader *l)
{
    if (l == NULL)
        return;
    l->closed = true;
    l->phase = PHASE_ENDED;
    stop_watching(l);
    tern_segment_unmap(&l->catalog);
    if (l->process.pid == 0)
        free_loader(l);
    else
        process_kill(&l->process);
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
static void note_progress(struct tern_loader *l)
{
    l->idle_ns = 0;
    l->looked_ns = tern_now_ns();
    if (l->timer != 0 || l->process.pid == 0)
        return;
    if (!activity_read(l->process.pid, &l->before))
        l->before.threads = 0;
    look_later(l);
}

/* ---- starting ---- */

static enum tern_status send_work(struct tern_loader *l, struct tern_error *error)
{
    const enum tern_status status =
        send_segment(l->process.channel, l->catalog_fd, TERN_SEGMENT_CATALOG, l->catalog_id,
                     tern_catalog_bound((uint64_t)l->identity.st_size), true, error);
    if (status != TERN_OK)
        return status;
    const struct tern_parcel file = {
        .kind = TERN_PARCEL_MODEL_FILE,
        .size = (uint64_t)l->identity.st_size,
        .fd = l->file,
    };
    return tern_channel_send(l->process.channel, &file, NULL, error);
}

/* A fresh process with a fresh catalog segment. */
static enum tern_status start(struct tern_loader *l, struct tern_error *error)
{
    struct tern_supervisor *s = l->supervisor;
    char *program = program_path(s, "tern-loader");
    if (program == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    const char *const none[] = {NULL};
    close_fd(&l->catalog_fd);
    l->catalog_id = tern_supervisor_segment_id(s);
    enum tern_status status = tern_segment_create(TERN_SEGMENT_CATALOG, l->catalog_id,
                                                  tern_catalog_bound((uint64_t)l->identity.st_size),
                                                  &l->catalog_fd, error);
    if (status == TERN_OK) {
        l->process.incarnation++;
        status = process_start(&l->process, program, none, error);
    }
    free(program);
    if (status != TERN_OK)
        return status;
    l->process.state = PROCESS_STARTING;
    l->phase = PHASE_READING;
    l->channel_watch = tern_loop_watch_fd(s->loop, l->process.channel, on_channel, l);
    note_progress(l);
    struct tern_error ignored;
    if (l->channel_watch == 0 || send_work(l, &ignored) != TERN_OK)
        process_kill(&l->process); /* reported when it has ended */
    return TERN_OK;
}

/* The part of the path that a person knows the file by. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static enum tern_status check_kind(const char *path, mode_t mode, off_t size,
                                   struct tern_error *error)
{
    if (S_ISDIR(mode))
        return tern_fail(error, TERN_BAD_MODEL, "%s is a folder, not a model file", path);
    if (!S_ISREG(mode))
        return tern_fail(error, TERN_BAD_MODEL, "%s is a %s, not a model file", path,
                         S_ISFIFO(mode) ? "pipe" : "device");
    if (size == 0)
        return tern_fail(error, TERN_BAD_MODEL, "%s is empty", path);
    return TERN_OK;
}

/* The first part of a split model has a name like "x-00001-of-00003.gguf". */
static bool is_split(const char *path)
{
    const char *dash = strstr(base_name(path), "-of-");
    if (dash == NULL || dash - base_name(path) < 6 || dash[-6] != '-')
        return false;
    return strspn(dash - 5, "0123456789") == 5 && strspn(dash + 4, "0123456789") == 5;
}

static enum tern_status open_file(const char *path, int *fd, struct stat *identity,
                                  struct tern_error *error)
{
    if (is_split(path))
        return tern_fail(error, TERN_UNSUPPORTED,
                         "%s is one part of a split model, which Tern does not read yet: join the "
                         "parts into one file (llama-gguf-split --merge)",
                         path);
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (*fd < 0)
        return tern_fail(error, TERN_BAD_MODEL, "cannot open %s: %s", path,
                         errno == ENXIO ? "it is no regular file" : strerror(errno));
    enum tern_status status =
        fstat(*fd, identity) == 0
            ? check_kind(path, identity->st_mode, identity->st_size, error)
            : tern_fail(error, TERN_FAILED, "cannot look at %s: %s", path, strerror(errno));
    if (status != TERN_OK)
        close_fd(fd);
    return status;
}

enum tern_status tern_loader_open(struct tern_supervisor *s, const char *path,
                                  const struct tern_loader_events *events, struct tern_loader **out,
                                  struct tern_error *error)
{
    struct stat identity;
    int fd = -1;
    *out = NULL;
    enum tern_status status = open_file(path, &fd, &identity, error);
    if (status != TERN_OK)
        return status;
    struct tern_loader *l = calloc(1, sizeof *l);
    char *name = strdup(base_name(path));
    if (l == NULL || name == NULL) {
        free(l);
        free(name);
        close(fd);
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    }
    *l = (struct tern_loader){
        .next = s->loaders,
        .supervisor = s,
        .events = *events,
        .name = name,
        .file = fd,
        .identity = identity,
        .catalog_fd = -1,
        .weights_fd = -1,
    };
    process_init(&l->process, s->loop, "loader", on_end, l);
    l->process.ending = on_ending;
    s->loaders = l;
    table_add(s, &l->process);
    status = start(l, error);
    if (status != TERN_OK)
        free_loader(l);
    else
        *out = l;
    return status;
}

/* ---- filling ---- */

static enum tern_status send_fill(struct tern_loader *l, struct tern_error *error)
{
    enum tern_status status = send_segment(l->process.channel, l->weights_fd, TERN_SEGMENT_WEIGHTS,
                                           l->weights_id, l->weights_size, true, error);
    if (status != TERN_OK)
        return status;
    struct tern_pack pack;
    size_t size;
    tern_pack_begin(&pack, TERN_MSG_FILL);
    tern_pack_u64(&pack, TERN_F_SEG_WEIGHTS, l->weights_id);
    tern_pack_bool(&pack, TERN_F_DROP_CACHE, l->drop_cache);
    const void *bytes = tern_pack_end(&pack, &size);
    const struct tern_parcel parcel = {.kind = TERN_PARCEL_MESSAGE, .fd = -1, .bytes = size};
    status = bytes != NULL ? tern_channel_send(l->process.channel, &parcel, bytes, error)
                           : tern_fail(error, TERN_NO_MEMORY, "out of memory");
    tern_pack_free(&pack);
    return status;
}

/* A send that fails means that the process is gone or stuck: its end decides what happens. */
static void begin_fill(struct tern_loader *l)
{
    struct tern_error ignored;
    l->phase = PHASE_FILLING;
    note_progress(l);
    if (send_fill(l, &ignored) != TERN_OK)
        process_kill(&l->process);
}

enum tern_status tern_loader_fill(struct tern_loader *l, int weights_fd, uint64_t weights_id,
                                  uint64_t weights_size, bool drop_cache, struct tern_error *error)
{
    if (!l->told_catalog || l->want_fill || l->phase == PHASE_ENDED)
        return tern_fail(error, TERN_FAILED, "%s: cannot be filled now", l->name);
    l->weights_fd = fcntl(weights_fd, F_DUPFD_CLOEXEC, 3);
    if (l->weights_fd < 0)
        return tern_fail(error, TERN_FAILED, "cannot duplicate a descriptor: %s", strerror(errno));
    l->weights_id = weights_id;
    l->weights_size = weights_size;
    l->drop_cache = drop_cache;
    l->want_fill = true;
    if (l->phase == PHASE_OPEN && l->process.pid != 0)
        begin_fill(l);
    return TERN_OK;
}

/* ---- what the loader says ---- */

static void fail(struct tern_loader *l, const struct tern_error *error)
{
    l->phase = PHASE_ENDED;
    l->process.state = PROCESS_STOPPED;
    stop_watching(l);
    l->events.failed(l->events.context, error);
}

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
            begin_fill(l);
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

static void take_progress(struct tern_loader *l, const struct tern_message *message)
{
    const uint64_t of = tern_message_u64(message, TERN_F_ALL_UNITS, 0);
    const uint64_t done = tern_message_u64(message, TERN_F_DONE_UNITS, 0);
    note_progress(l);
    if (l->phase == PHASE_FILLING && l->events.progress != NULL)
        l->events.progress(l->events.context, done < of ? done : of, of);
}

static void take_filled(struct tern_loader *l)
{
    if (l->phase != PHASE_FILLING) {
        refuse_protocol(l, "claims to have filled what it was not given");
        return;
    }
    l->phase = PHASE_FILLED;
    note_progress(l);
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
    close_fd(&parcel.fd);
    if (l->refused)
        return true;
    if (status != TERN_OK || parcel.kind != TERN_PARCEL_MESSAGE ||
        tern_message_parse(s->buffer, parcel.bytes, &message, NULL) != TERN_OK)
        refuse_protocol(l, "sent something malformed");
    else
        take_message(l, &message);
    return true;
}

static void on_channel(void *context)
{
    receive(context);
}

/* ---- the end ---- */

/* What it said before it ended counts. */
static void on_ending(void *context)
{
    struct tern_loader *l = context;
    while (!l->closed && l->channel_watch != 0 && receive(l))
        ;
}

static bool is_same_file(const struct tern_loader *l)
{
    struct stat now;
    const struct stat *then = &l->identity;
    return fstat(l->file, &now) == 0 && now.st_size == then->st_size &&
           now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}

/* Killed from outside: once more from the start, or why not. */
static void start_again(struct tern_loader *l)
{
    struct tern_error error;
    if (!is_same_file(l)) {
        tern_fail(&error, TERN_BAD_MODEL, "%s was changed while it was being read", l->name);
    } else if (l->retried) {
        tern_fail(&error, TERN_FAILED,
                  "the loader was killed twice while reading %s: is memory short?", l->name);
    } else {
        l->retried = true;
        l->process.restarts++;
        if (start(l, &error) == TERN_OK)
            return;
    }
    fail(l, &error);
}

static void describe_failure(struct tern_loader *l, const struct process_end *end,
                             struct tern_error *error)
{
    char how[80];
    process_describe_end(end, how, sizeof how);
    if (l->refused)
        *error = l->reason;
    else if (l->hung)
        tern_fail(error, TERN_FAILED,
                  "the loader made no progress with %s for %" PRIu64 " s and was ended", l->name,
                  l->supervisor->policy.loader_ns / 1000000000u);
    else if (end->by_signal)
        tern_fail(error, TERN_BAD_MODEL, "model file rejected: the loader crashed on %s (%s)",
                  l->name, how);
    else
        tern_fail(error, TERN_FAILED, "the loader of %s ended without a word (%s)", l->name, how);
}

static void on_end(void *context, const struct process_end *end)
{
    struct tern_loader *l = context;
    const bool killed = process_death(end) == TERN_DEATH_KILLED;
    stop_watching(l);
    if (l->closed) {
        free_loader(l);
        return;
    }
    l->process.state = PROCESS_STOPPED;
    if (l->phase == PHASE_FILLED && !l->refused &&
        (killed || (!end->by_signal && end->code == 0))) {
        l->phase = PHASE_ENDED;
        l->events.filled(l->events.context);
    } else if (l->phase != PHASE_ENDED) {
        if (killed && !l->refused && !l->hung) {
            start_again(l);
            return;
        }
        struct tern_error error;
        describe_failure(l, end, &error);
        fail(l, &error);
    }
}
