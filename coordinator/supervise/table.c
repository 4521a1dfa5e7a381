/*
 * The table of processes and the control socket: who exists, who may speak, and how it all ends.
 */
#include "coordinator/supervise/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

static const struct policy default_policy = {
    .poll_ns = 50000000u,
    .hang_ns = 2000000000u,
    .hang_max_ns = 60000000000u,
    .unknown_ns = 30000000000u,
    .loader_ns = 10000000000u,
    .quit_ns = 1000000000u,
    .restart_ns = {100000000u, 1000000000u, 4000000000u},
    .bind_faults = 3,
    .bind_kills = 10,
};

void table_add(struct tern_supervisor *s, struct process *process)
{
    struct process **end = &s->processes;
    while (*end != NULL)
        end = &(*end)->next;
    process->next = NULL;
    *end = process;
}

void table_remove(struct tern_supervisor *s, struct process *process)
{
    for (struct process **p = &s->processes; *p != NULL; p = &(*p)->next) {
        if (*p == process) {
            *p = process->next;
            return;
        }
    }
}

char *program_path(const struct tern_supervisor *s, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", s->libexec, name) < 0 ? NULL : path;
}

enum tern_status send_segment(int channel, int fd, enum tern_segment_kind kind, uint64_t id,
                              uint64_t size, bool writable, struct tern_error *error)
{
    const int sent = writable ? fd : tern_segment_reader(fd);
    if (sent < 0)
        return tern_fail(error, TERN_FAILED, "cannot reopen a segment for reading: %s",
                         strerror(errno));
    const struct tern_parcel parcel = {
        .kind = writable ? TERN_PARCEL_SEGMENT_WRITE : TERN_PARCEL_SEGMENT,
        .segment = kind,
        .id = id,
        .size = size,
        .fd = sent,
    };
    const enum tern_status status = tern_channel_send(channel, &parcel, NULL, error);
    if (!writable)
        close(sent);
    return status;
}

/* ---- control messages ---- */

static bool send_bytes(struct tern_supervisor *s, const void *bytes, size_t size)
{
    const struct compute *c = &s->compute;
    if (c->routing_size == 0 || bytes == NULL)
        return false;
    if (zmq_send(s->router, c->routing, c->routing_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return false;
    return zmq_send(s->router, bytes, size, ZMQ_DONTWAIT) >= 0;
}

bool send_control(struct tern_supervisor *s, struct tern_pack *pack)
{
    size_t size;
    const void *bytes = tern_pack_end(pack, &size);
    const bool sent = send_bytes(s, bytes, size);
    tern_pack_free(pack);
    return sent;
}

static bool more_parts(void *socket)
{
    int more = 0;
    size_t size = sizeof more;
    return zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) == 0 && more != 0;
}

/* Receives [routing id][message] into routing and s->buffer; drops the rest of anything longer.
 * False: nothing more to read. *size = -1 for what has another form. */
static bool receive(struct tern_supervisor *s, uint8_t *routing, int *routing_size, int *size)
{
    *size = -1;
    *routing_size = zmq_recv(s->router, routing, ROUTING_MAX, ZMQ_DONTWAIT);
    if (*routing_size < 0)
        return false;
    if (more_parts(s->router))
        *size = zmq_recv(s->router, s->buffer, BUFFER_BYTES, ZMQ_DONTWAIT);
    while (more_parts(s->router)) {
        *size = -1;
        if (zmq_recv(s->router, NULL, 0, ZMQ_DONTWAIT) < 0)
            return false;
    }
    return true;
}

/* So many at one time, for a sender in a frenzy must not keep the loop from everybody else. */
static void on_control(void *context)
{
    enum { MOST = 64 };
    struct tern_supervisor *s = context;
    uint8_t routing[ROUTING_MAX];
    int routing_size, size;
    for (int i = 0; i < MOST && receive(s, routing, &routing_size, &size); i++) {
        struct tern_message message;
        struct tern_error error = {.message = "not one part"};
        if (size < 0 || size > BUFFER_BYTES ||
            tern_message_parse(s->buffer, (size_t)size, &message, &error) != TERN_OK)
            tern_log("warning", "a message on the worker socket was refused: %s", error.message);
        else
            compute_message(s, routing, (size_t)routing_size, &message);
    }
}

static enum tern_status open_router(struct tern_supervisor *s, void *zmq_context,
                                    struct tern_error *error)
{
    const int linger = 0, mandatory = 1;
    const int64_t largest = BUFFER_BYTES;
    s->router = zmq_socket(zmq_context, ZMQ_ROUTER);
    if (s->router == NULL || zmq_setsockopt(s->router, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
        zmq_setsockopt(s->router, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory) != 0 ||
        zmq_setsockopt(s->router, ZMQ_MAXMSGSIZE, &largest, sizeof largest) != 0 ||
        zmq_bind(s->router, s->control) != 0)
        return tern_fail(error, TERN_NO_SERVICE, "cannot open the worker socket %s: %s", s->control,
                         zmq_strerror(errno));
    s->router_watch = tern_loop_watch_socket(s->loop, s->router, on_control, s);
    return s->router_watch != 0 ? TERN_OK : tern_fail(error, TERN_NO_MEMORY, "out of memory");
}

/* ---- making and freeing ---- */

uint64_t tern_supervisor_segment_id(struct tern_supervisor *s)
{
    return ++s->last_segment;
}

static enum tern_status open_board(struct tern_supervisor *s, struct tern_error *error)
{
    const uint64_t id = tern_supervisor_segment_id(s);
    const enum tern_status status = tern_segment_create(
        TERN_SEGMENT_BOARD, id, sizeof(struct tern_coordinator_board), &s->board_fd, error);
    if (status != TERN_OK)
        return status;
    return tern_segment_map(s->board_fd, TERN_SEGMENT_BOARD, id, true, false, &s->board, error);
}

static enum tern_status open_all(struct tern_supervisor *s, void *zmq_context, const char *control,
                                 const char *libexec, struct tern_error *error)
{
    s->control = strdup(control);
    s->libexec = strdup(libexec);
    s->buffer = malloc(BUFFER_BYTES);
    if (s->control == NULL || s->libexec == NULL || s->buffer == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    enum tern_status status = process_check_kernel(error);
    if (status == TERN_OK)
        status = open_board(s, error);
    if (status == TERN_OK)
        status = open_router(s, zmq_context, error);
    return status;
}

enum tern_status tern_supervisor_new(struct tern_loop *loop, void *zmq_context, const char *control,
                                     const char *libexec,
                                     const struct tern_supervisor_events *events,
                                     struct tern_supervisor **out, struct tern_error *error)
{
    struct tern_supervisor *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    s->loop = loop;
    s->events = *events;
    s->policy = default_policy;
    s->board_fd = s->topology_fd = -1;
    compute_init(s);
    const enum tern_status status = open_all(s, zmq_context, control, libexec, error);
    if (status != TERN_OK) {
        tern_supervisor_free(s);
        return status;
    }
    *out = s;
    return TERN_OK;
}

/* Asks every process to end: the CPU worker by message, and each by the end of its channel. */
static void ask_all_to_end(struct tern_supervisor *s)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_QUIT);
    send_control(s, &pack);
    for (struct process *p = s->processes; p != NULL; p = p->next) {
        if (p->channel >= 0)
            close(p->channel);
        p->channel = -1;
    }
}

static void end_processes(struct tern_supervisor *s)
{
    ask_all_to_end(s);
    if (process_wait_all(s->processes, tern_now_ns() + s->policy.quit_ns) == 0)
        return;
    for (struct process *p = s->processes; p != NULL; p = p->next)
        process_kill(p);
    const size_t left = process_wait_all(s->processes, tern_now_ns() + 5000000000u);
    if (left > 0)
        tern_log("error", "%zu processes did not end", left);
}

void tern_supervisor_free(struct tern_supervisor *s)
{
    if (s == NULL)
        return;
    end_processes(s);
    compute_free(s);
    loaders_free(s);
    tern_loop_unwatch(s->loop, s->router_watch);
    if (s->router != NULL)
        zmq_close(s->router);
    tern_segment_unmap(&s->board);
    if (s->board_fd >= 0)
        close(s->board_fd);
    if (s->topology_fd >= 0)
        close(s->topology_fd);
    free(s->control);
    free(s->libexec);
    free(s->buffer);
    free(s);
}

/* ---- what `tern ps` shows ---- */

static const char *state_name(enum process_state state)
{
    static const char *const names[] = {
        [PROCESS_STOPPED] = "stopped",
        [PROCESS_STARTING] = "starting",
        [PROCESS_RUNNING] = "running",
        [PROCESS_RESTARTING] = "restarting",
    };
    return names[state];
}

size_t tern_supervisor_processes(const struct tern_supervisor *s, struct tern_process_info *info,
                                 size_t room)
{
    const struct tern_worker_board *board = worker_board(s);
    size_t count = 0;
    for (const struct process *p = s->processes; p != NULL; p = p->next, count++) {
        if (count >= room)
            continue;
        info[count] = (struct tern_process_info){
            .role = p->role,
            .pid = (int)p->pid,
            .state = state_name(p->state),
            .restarts = p->restarts,
        };
        if (p == &s->compute.process && board != NULL)
            for (int tier = 0; tier < TERN_TIERS; tier++)
                info[count].calls[tier] =
                    atomic_load_explicit(&board->calls[tier], memory_order_relaxed);
    }
    return count;
}
