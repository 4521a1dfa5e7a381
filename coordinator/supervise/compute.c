/*
 * The CPU worker's life. One incarnation after the other, each with a fresh board, a fresh secret
 * and a fresh eventfd, so that nothing an earlier one left can be taken for the present one's.
 *
 * After a death, in this order: the pidfd is readable (no thread is left, no store can follow); it
 * is reaped; what it finished is delivered; the epoch rises and the bell rings; the next
 * incarnation starts, its plans are bound again; only then are the other steps reported lost.
 */
#include "coordinator/supervise/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

static void on_end(void *context, const struct process_end *end);

void compute_init(struct tern_supervisor *s)
{
    process_init(&s->compute.process, s->loop, "cpu", on_end, s);
    s->compute.event = -1;
}

/* Lets go of what belongs to one incarnation. */
static void drop_incarnation(struct tern_supervisor *s)
{
    struct compute *c = &s->compute;
    tern_loop_unwatch(s->loop, c->event_watch);
    c->event_watch = 0;
    if (c->event >= 0)
        close(c->event);
    c->event = -1;
    c->routing_size = 0;
    explicit_bzero(c->secret, sizeof c->secret);
    tern_segment_unmap(&c->board);
    deadline_end(s);
}

void compute_free(struct tern_supervisor *s)
{
    drop_incarnation(s);
    tern_loop_cancel(s->loop, s->compute.restart);
    plans_free(s);
}

static void on_event(void *context)
{
    struct tern_supervisor *s = context;
    uint64_t count;
    if (read(s->compute.event, &count, sizeof count) == (ssize_t)sizeof count)
        steps_collect(s);
}

/* ---- starting ---- */

static enum tern_status make_event(struct tern_supervisor *s, struct tern_error *error)
{
    struct compute *c = &s->compute;
    c->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->event < 0)
        return tern_fail(error, TERN_FAILED, "cannot make an eventfd: %s", strerror(errno));
    c->event_watch = tern_loop_watch_fd(s->loop, c->event, on_event, s);
    return c->event_watch != 0 ? TERN_OK : tern_fail(error, TERN_NO_MEMORY, "out of memory");
}

/* The fresh board: the worker gets the writable descriptor, which nobody keeps here. */
static enum tern_status make_board(struct tern_supervisor *s, int *fd, uint64_t *id,
                                   struct tern_error *error)
{
    *id = tern_supervisor_segment_id(s);
    enum tern_status status =
        tern_segment_create(TERN_SEGMENT_BOARD, *id, sizeof(struct tern_worker_board), fd, error);
    if (status != TERN_OK)
        return status;
    const int reader = tern_segment_reader(*fd);
    if (reader < 0)
        return tern_fail(error, TERN_FAILED, "cannot reopen a board: %s", strerror(errno));
    status =
        tern_segment_map(reader, TERN_SEGMENT_BOARD, *id, false, false, &s->compute.board, error);
    close(reader);
    return status;
}

/* What a worker finds on its channel first, in this order: the coordinator's board, its own board,
 * the eventfd. */
static enum tern_status send_boards(struct tern_supervisor *s, int board_fd, uint64_t board_id,
                                    struct tern_error *error)
{
    const int channel = s->compute.process.channel;
    enum tern_status status = send_segment(channel, s->board_fd, TERN_SEGMENT_BOARD, s->board.id,
                                           s->board.size, false, error);
    if (status == TERN_OK)
        status = send_segment(channel, board_fd, TERN_SEGMENT_BOARD, board_id,
                              sizeof(struct tern_worker_board), true, error);
    if (status != TERN_OK)
        return status;
    const struct tern_parcel event = {.kind = TERN_PARCEL_EVENT, .fd = s->compute.event};
    return tern_channel_send(channel, &event, NULL, error);
}

static void write_hex(const uint8_t *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* The variables of proto/worker.h. */
struct variables {
    char *control;
    char incarnation[40], secret[16 + 2 * SECRET_BYTES], topology[64];
    const char *list[5];
};

static bool make_variables(struct tern_supervisor *s, struct variables *v)
{
    const struct compute *c = &s->compute;
    if (!s->topology_tried)
        s->topology_fd = topology_export();
    s->topology_tried = true;
    *v = (struct variables){.secret = "TERN_SECRET="};
    if (asprintf(&v->control, "TERN_CONTROL=%s", s->control) < 0)
        return false;
    snprintf(v->incarnation, sizeof v->incarnation, "TERN_INCARNATION=%u", c->process.incarnation);
    write_hex(c->secret, SECRET_BYTES, v->secret + strlen(v->secret));
    snprintf(v->topology, sizeof v->topology, "TERN_TOPOLOGY=/proc/%d/fd/%d", (int)getpid(),
             s->topology_fd);
    v->list[0] = v->control;
    v->list[1] = v->incarnation;
    v->list[2] = v->secret;
    v->list[3] = s->topology_fd >= 0 ? v->topology : NULL;
    return true;
}

static enum tern_status spawn_worker(struct tern_supervisor *s, struct tern_error *error)
{
    struct variables variables;
    char *program = program_path(s, "tern-cpu");
    if (program == NULL || !make_variables(s, &variables)) {
        free(program);
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    }
    const enum tern_status status =
        process_start(&s->compute.process, program, variables.list, error);
    explicit_bzero(variables.secret, sizeof variables.secret);
    free(variables.control);
    free(program);
    return status;
}

/* Starts the next incarnation. On failure nothing of it is left. */
static enum tern_status start(struct tern_supervisor *s, struct tern_error *error)
{
    struct compute *c = &s->compute;
    int board_fd = -1;
    uint64_t board_id = 0;
    c->starts++;
    c->process.incarnation = c->process.incarnation == 0xffff ? 1 : c->process.incarnation + 1;
    c->condemned = false;
    enum tern_status status =
        getrandom(c->secret, sizeof c->secret, 0) == (ssize_t)sizeof c->secret
            ? make_event(s, error)
            : tern_fail(error, TERN_FAILED, "no random bytes: %s", strerror(errno));
    if (status == TERN_OK)
        status = make_board(s, &board_fd, &board_id, error);
    if (status == TERN_OK)
        status = spawn_worker(s, error);
    if (status == TERN_OK) {
        c->state = COMPUTE_STARTING;
        if (send_boards(s, board_fd, board_id, error) != TERN_OK) { /* it died already, perhaps */
            tern_log("error", "the boards do not reach the CPU worker: %s", error->message);
            compute_condemn(s, TERN_DEATH_FAULT);
        }
        deadline_expect(s, true);
    } else {
        drop_incarnation(s);
    }
    if (board_fd >= 0)
        close(board_fd);
    return status;
}

enum tern_status compute_want(struct tern_supervisor *s, struct tern_error *error)
{
    struct compute *c = &s->compute;
    if (c->state != COMPUTE_STOPPED)
        return TERN_OK;
    const bool listed = c->process.incarnation != 0;
    const enum tern_status status = start(s, error);
    if (!listed)
        table_add(s, &c->process);
    c->process.state = status == TERN_OK ? PROCESS_STARTING : PROCESS_STOPPED;
    return status;
}

/* ---- after a death ---- */

/* At once; after three starts without a finished step in between, later and later. */
static uint64_t restart_delay(const struct tern_supervisor *s)
{
    const uint32_t starts = s->compute.starts;
    if (starts < 3)
        return 0;
    return s->policy.restart_ns[starts < 5 ? starts - 3 : 2];
}

static void schedule_restart(struct tern_supervisor *s);

/* A start that failed counts as a death: plans that were never in use fail after some of them. */
static void restart(void *context)
{
    struct tern_supervisor *s = context;
    struct compute *c = &s->compute;
    struct tern_error error;
    c->restart = 0;
    c->process.restarts++;
    if (start(s, &error) == TERN_OK)
        return;
    tern_log("error", "the CPU worker cannot be started again: %s", error.message);
    plans_death(s, TERN_DEATH_FAULT, true, error.message);
    schedule_restart(s);
}

static void schedule_restart(struct tern_supervisor *s)
{
    struct compute *c = &s->compute;
    if (c->plans == NULL && c->losts == 0) {
        c->state = COMPUTE_STOPPED;
        c->process.state = PROCESS_STOPPED;
        return;
    }
    c->state = COMPUTE_WAITING;
    c->process.state = PROCESS_RESTARTING;
    c->restart = tern_loop_timer(s->loop, tern_now_ns() + restart_delay(s), restart, s);
    if (c->restart == 0)
        tern_log("error", "out of memory: the CPU worker is not started again");
}

static void raise_epoch(struct tern_supervisor *s)
{
    struct tern_coordinator_board *board = own_board(s);
    atomic_fetch_add(&board->epoch, 1);
    tern_ring(&board->bell);
}

static void on_end(void *context, const struct process_end *end)
{
    struct tern_supervisor *s = context;
    struct compute *c = &s->compute;
    const enum tern_death death = c->condemned ? c->verdict : process_death(end);
    const bool before_hello = c->state == COMPUTE_STARTING;
    char how[80];
    process_describe_end(end, how, sizeof how);
    tern_log("warning", "the CPU worker (incarnation %u) has died: %s%s", c->process.incarnation,
             how, c->condemned ? " by the coordinator" : "");
    c->state = COMPUTE_WAITING; /* what follows calls back, and nothing is to be sent meanwhile */
    steps_collect(s);
    raise_epoch(s);
    steps_death(s, death);
    drop_incarnation(s);
    plans_death(s, death, before_hello, death == TERN_DEATH_HANG ? "it hung" : how);
    schedule_restart(s);
}

void compute_condemn(struct tern_supervisor *s, enum tern_death verdict)
{
    struct compute *c = &s->compute;
    if (c->process.pid == 0 || c->process.killed)
        return;
    c->verdict = verdict;
    c->condemned = true;
    process_kill(&c->process);
}

/* ---- what the worker says ---- */

static bool hello_is_right(const struct compute *c, const struct tern_message *message)
{
    size_t length;
    const char *secret = tern_message_text(message, TERN_F_SECRET, &length);
    if (secret == NULL || length != SECRET_BYTES)
        return false;
    uint8_t differs = 0;
    for (size_t i = 0; i < SECRET_BYTES; i++)
        differs |= (uint8_t)secret[i] ^ c->secret[i];
    return differs == 0 &&
           tern_message_u64(message, TERN_F_INCARNATION, 0) == c->process.incarnation &&
           tern_message_u64(message, TERN_F_PID, 0) == (uint64_t)c->process.pid;
}

static void take_hello(struct tern_supervisor *s, const uint8_t *routing, size_t routing_size,
                       const struct tern_message *message)
{
    struct compute *c = &s->compute;
    if (c->state != COMPUTE_STARTING || !hello_is_right(c, message)) {
        tern_log("warning", "a hello with the wrong secret or incarnation was refused");
        return;
    }
    memcpy(c->routing, routing, routing_size);
    c->routing_size = routing_size;
    explicit_bzero(c->secret, sizeof c->secret);
    c->state = COMPUTE_BINDING;
    deadline_progress(s);
    plans_hello(s);
}

void compute_message(struct tern_supervisor *s, const uint8_t *routing, size_t routing_size,
                     const struct tern_message *message)
{
    const struct compute *c = &s->compute;
    if (message->kind == TERN_MSG_HELLO) {
        take_hello(s, routing, routing_size, message);
        return;
    }
    if (c->routing_size != routing_size || memcmp(c->routing, routing, routing_size) != 0) {
        tern_log("warning", "a message \"%s\" from a stranger on the worker socket was refused",
                 tern_message_name(message->kind));
        return;
    }
    switch (message->kind) {
    case TERN_MSG_BOUND:
    case TERN_MSG_FAULT:
        plans_answer(s, message);
        break;
    case TERN_MSG_RELEASED:
        plans_released(s, 1);
        break;
    default:
        tern_log("warning", "the CPU worker sent an unexpected message \"%s\"",
                 tern_message_name(message->kind));
        compute_condemn(s, TERN_DEATH_FAULT);
    }
}

void compute_ready(struct tern_supervisor *s)
{
    s->compute.state = COMPUTE_READY;
    s->compute.process.state = PROCESS_RUNNING;
    steps_tell_lost(s);
}
