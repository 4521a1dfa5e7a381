/*
 * Model files: one loader process per open file. The coordinator opens the file and watches; it
 * never parses it.
 *
 * A loader that crashes on a file means the file is rejected. One that was killed from outside is
 * started once more, from the beginning of the file.
 */
#include "coordinator/supervise/loader.h"

#include "proto/catalog.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_end(void *context, const struct process_end *end);

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

static void free_loader(struct tern_loader *l)
{
    loader_stop_watching(l);
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
    loader_stop_watching(l);
    tern_segment_unmap(&l->catalog);
    if (l->process.pid == 0)
        free_loader(l);
    else
        process_kill(&l->process);
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
    l->channel_watch = tern_loop_watch_fd(s->loop, l->process.channel, loader_on_channel, l);
    loader_progress(l);
    struct tern_error ignored;
    if (l->channel_watch == 0 || send_work(l, &ignored) != TERN_OK)
        process_kill(&l->process); /* reported when it has ended */
    return TERN_OK;
}

enum tern_status tern_loader_open(struct tern_supervisor *s, const char *path,
                                  const struct tern_loader_events *events, struct tern_loader **out,
                                  struct tern_error *error)
{
    struct stat identity;
    int fd = -1;
    *out = NULL;
    enum tern_status status = model_file_open(path, &fd, &identity, error);
    if (status != TERN_OK)
        return status;
    struct tern_loader *l = calloc(1, sizeof *l);
    char *name = strdup(model_file_name(path));
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
    l->process.ending = loader_on_ending;
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
void loader_begin_fill(struct tern_loader *l)
{
    struct tern_error ignored;
    l->phase = PHASE_FILLING;
    l->filled_bytes = 0;
    loader_progress(l);
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
        loader_begin_fill(l);
    return TERN_OK;
}

/* ---- the end ---- */

static void fail(struct tern_loader *l, const struct tern_error *error)
{
    l->phase = PHASE_ENDED;
    l->process.state = PROCESS_STOPPED;
    loader_stop_watching(l);
    l->events.failed(l->events.context, error);
}

/* Killed from outside: once more from the start, or why not. */
static void start_again(struct tern_loader *l)
{
    struct tern_error error;
    if (!model_file_is_same(l->file, &l->identity)) {
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
    else if (end->by_signal && end->code == SIGSYS)
        tern_fail(error, TERN_FAILED,
                  "the sandbox ended the loader of %s for a system call that reading a model does "
                  "not need; does the service's environment load something into it (LD_PRELOAD)?",
                  l->name);
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
    loader_stop_watching(l);
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
