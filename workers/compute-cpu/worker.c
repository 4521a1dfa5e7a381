#include "worker.h"

#include "bind.h"
#include "exec.h"
#include "inject.h"
#include "link.h"
#include "parcels.h"
#include "pool.h"
#include "proto/worker.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A bound plan with its mappings. */
struct model {
    struct tern_program *program;
    struct tern_program_segments segments;
};

struct worker {
    struct tern_parcels parcels;
    struct tern_link link;
    struct tern_segment board, coordinator;
    int event;
    uint32_t incarnation;
    struct tern_pool *pool;
    struct tern_executor *executor;
    struct model *model[TERN_MAX_PLANS];
};

static enum tern_worker_exit exit_of(enum tern_status status)
{
    switch (status) {
    case TERN_OK:
    case TERN_NO_SERVICE:
        return TERN_WORKER_ENDED;
    case TERN_NO_MEMORY:
        return TERN_WORKER_NO_MEMORY;
    case TERN_USAGE:
        return TERN_WORKER_BAD_INPUT;
    default:
        return TERN_WORKER_RETRY;
    }
}

/* ---- models ---- */

static void free_model(struct model *model)
{
    struct tern_program_segments *s = &model->segments;
    struct tern_segment *all[] = {&s->plan, &s->weights, &s->kv, &s->activations, &s->tables};
    tern_program_free(model->program);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tern_segment_unmap(all[i]);
    free(model);
}

/* Maps the segment that the message's field names. */
static enum tern_status map_segment(struct worker *w, const struct tern_message *message,
                                    enum tern_field field, enum tern_segment_kind kind,
                                    struct tern_segment *segment, struct tern_error *error)
{
    const bool writable = kind == TERN_SEGMENT_KV || kind == TERN_SEGMENT_ACTIVATIONS;
    const uint64_t id = tern_message_u64(message, field, 0);
    uint64_t same;
    int fd;
    if (id == 0)
        return tern_fail(error, TERN_USAGE, "a BIND that does not name segment kind %u", kind);
    enum tern_status status =
        tern_parcels_take(&w->parcels, writable ? TERN_PARCEL_SEGMENT_WRITE : TERN_PARCEL_SEGMENT,
                          kind, id, &fd, &same, error);
    if (status != TERN_OK)
        return status;
    status = tern_segment_map(fd, kind, id, writable, kind == TERN_SEGMENT_WEIGHTS, segment, error);
    close(fd);
    return status;
}

/* A segment whose descriptor stayed behind would keep its memory: after a failure the rest of the
 * message's are closed. */
static enum tern_status map_all(struct worker *w, const struct tern_message *message,
                                struct tern_program_segments *s, struct tern_error *error)
{
    const struct {
        enum tern_field field;
        enum tern_segment_kind kind;
        struct tern_segment *segment;
    } all[] = {
        {TERN_F_SEG_PLAN, TERN_SEGMENT_PLAN, &s->plan},
        {TERN_F_SEG_WEIGHTS, TERN_SEGMENT_WEIGHTS, &s->weights},
        {TERN_F_SEG_KV, TERN_SEGMENT_KV, &s->kv},
        {TERN_F_SEG_ACTIVATIONS, TERN_SEGMENT_ACTIVATIONS, &s->activations},
        {TERN_F_SEG_TABLES, TERN_SEGMENT_TABLES, &s->tables},
    };
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (status == TERN_OK)
            status = map_segment(w, message, all[i].field, all[i].kind, all[i].segment, error);
        else
            tern_parcels_discard(&w->parcels, tern_message_u64(message, all[i].field, 0));
    return status;
}

static enum tern_status choose_kernels(const struct tern_message *message,
                                       const struct tern_kernels **kernels,
                                       struct tern_error *error)
{
    enum tern_tier tier = tern_best_tier();
    char *name = tern_message_copy(message, TERN_F_TIER);
    enum tern_status status = TERN_OK;
    if (name != NULL && name[0] != '\0' && !tern_tier_parse(name, &tier))
        status = tern_fail(error, TERN_USAGE, "unknown kernel tier %s", name);
    free(name);
    *kernels = status == TERN_OK ? tern_kernels(tier) : NULL;
    if (status == TERN_OK && *kernels == NULL)
        status = tern_fail(error, TERN_USAGE, "this processor cannot run kernel tier %s",
                           tern_tier_name(tier));
    return status;
}

static enum tern_status make_model(struct worker *w, const struct tern_message *message,
                                   struct model *model, struct tern_error *error)
{
    const struct tern_kernels *kernels;
    const uint32_t plan = (uint32_t)tern_message_u64(message, TERN_F_PLAN, 0);
    uint32_t threads = (uint32_t)tern_message_u64(message, TERN_F_THREADS, 0);
    if (threads == 0)
        threads = tern_pool_usable_cores(w->pool);
    /* More threads than can run at once only wake and wait for each other, or use up a quota early
     * (measured: 8 threads on 2 cores, 36% of the speed of 2). */
    if (threads > tern_pool_runnable(w->pool))
        threads = tern_pool_runnable(w->pool);
    enum tern_status status = map_all(w, message, &model->segments, error);
    if (status == TERN_OK)
        status = choose_kernels(message, &kernels, error);
    if (status == TERN_OK)
        status = tern_bind(plan, &model->segments, kernels, threads, &model->program, error);
    if (status == TERN_OK)
        status = tern_pool_grow(w->pool, threads, error);
    if (status == TERN_OK)
        status = tern_executor_add(w->executor, model->program, error);
    return status;
}

static struct model **find_model(struct worker *w, const uint32_t *plan)
{
    for (uint32_t i = 0; i < TERN_MAX_PLANS; i++) {
        struct model *model = w->model[i];
        if (plan == NULL ? model == NULL : model != NULL && model->program->plan == *plan)
            return &w->model[i];
    }
    return NULL;
}

/* ---- messages ---- */

static enum tern_status on_bind(struct worker *w, const struct tern_message *message,
                                struct tern_error *error)
{
    const uint32_t plan = (uint32_t)tern_message_u64(message, TERN_F_PLAN, 0);
    struct tern_error why;
    struct model **place = find_model(w, NULL);
    struct model *model = place != NULL ? calloc(1, sizeof *model) : NULL;
    enum tern_status status = model != NULL
                                  ? make_model(w, message, model, &why)
                                  : tern_fail(&why, TERN_NO_MEMORY, "no room for plan %u", plan);
    if (status == TERN_OK) {
        *place = model;
        return tern_link_answer(&w->link, TERN_MSG_BOUND, plan, error);
    }
    if (model != NULL)
        free_model(model);
    if (status == TERN_NO_SERVICE) { /* the channel's end, found while waiting for a segment */
        *error = why;
        return status;
    }
    return tern_link_fault(&w->link, plan, &why, error);
}

static enum tern_status on_release(struct worker *w, const struct tern_message *message,
                                   struct tern_error *error)
{
    const uint32_t plan = (uint32_t)tern_message_u64(message, TERN_F_PLAN, 0);
    struct model **place = find_model(w, &plan);
    if (place != NULL) {
        tern_executor_remove(w->executor, (*place)->program);
        free_model(*place);
        *place = NULL;
    }
    return tern_link_answer(&w->link, TERN_MSG_RELEASED, plan, error);
}

/* TERN_NO_SERVICE: the worker is to end. */
static enum tern_status on_message(struct worker *w, const struct tern_message *message,
                                   struct tern_error *error)
{
    switch (message->kind) {
    case TERN_MSG_BIND:
        return on_bind(w, message, error);
    case TERN_MSG_RELEASE:
        return on_release(w, message, error);
    case TERN_MSG_QUIT:
        return tern_fail(error, TERN_NO_SERVICE, "asked to end");
    default:
        return tern_fail(error, TERN_USAGE, "a worker gets no message \"%s\"",
                         tern_message_name(message->kind));
    }
}

static enum tern_status receive_message(struct worker *w, struct tern_error *error)
{
    struct tern_message message;
    void *bytes;
    enum tern_status status = tern_link_receive(&w->link, &message, &bytes, error);
    if (status == TERN_OK)
        status = on_message(w, &message, error);
    free(bytes);
    return status == TERN_INTERRUPTED ? TERN_OK : status;
}

static enum tern_status serve(struct worker *w, struct tern_error *error)
{
    enum tern_status status;
    do {
        bool message, parcel;
        status = tern_link_wait(&w->link, w->parcels.channel, &message, &parcel, error);
        if (status == TERN_OK && parcel) {
            status = tern_parcels_receive(&w->parcels, 0, error);
            if (status == TERN_INTERRUPTED)
                status = TERN_OK;
        }
        if (status == TERN_OK && message)
            status = receive_message(w, error);
    } while (status == TERN_OK);
    return status;
}

/* ---- start ---- */

static void *step_thread(void *context)
{
    struct worker *w = context;
    tern_pool_pin_caller(w->pool);
    _exit(tern_executor_run(w->executor));
}

static enum tern_status map_boards(struct worker *w, struct tern_error *error)
{
    uint64_t id;
    int fd;
    enum tern_status status =
        tern_parcels_take(&w->parcels, TERN_PARCEL_SEGMENT, TERN_SEGMENT_BOARD, 0, &fd, &id, error);
    if (status == TERN_OK) {
        status = tern_segment_map(fd, TERN_SEGMENT_BOARD, id, false, false, &w->coordinator, error);
        close(fd);
    }
    if (status == TERN_OK)
        status = tern_parcels_take(&w->parcels, TERN_PARCEL_SEGMENT_WRITE, TERN_SEGMENT_BOARD, 0,
                                   &fd, &id, error);
    if (status == TERN_OK) {
        status = tern_segment_map(fd, TERN_SEGMENT_BOARD, id, true, false, &w->board, error);
        close(fd);
    }
    if (status == TERN_OK)
        status = tern_parcels_take(&w->parcels, TERN_PARCEL_EVENT, TERN_SEGMENT_NONE, 0, &w->event,
                                   &id, error);
    if (status == TERN_OK && (w->coordinator.size < sizeof(struct tern_coordinator_board) ||
                              w->board.size < sizeof(struct tern_worker_board)))
        status = tern_fail(error, TERN_USAGE, "the boards are of another version");
    return status;
}

static enum tern_status start_steps(struct worker *w, struct tern_error *error)
{
    struct tern_cores cores;
    pthread_t thread;
    tern_cores_find(getenv("TERN_TOPOLOGY"), &cores);
    w->pool = tern_pool_new(&cores);
    if (w->pool == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    const struct tern_executor_setup setup = {
        .coordinator = (const struct tern_coordinator_board *)(const void *)w->coordinator.data,
        .board = (struct tern_worker_board *)(void *)w->board.data,
        .event = w->event,
        .incarnation = w->incarnation,
        .pool = w->pool,
        .serial_work = TERN_SERIAL_WORK,
    };
    w->executor = tern_executor_new(&setup);
    if (w->executor == NULL || pthread_create(&thread, NULL, step_thread, w) != 0)
        return tern_fail(error, TERN_NO_MEMORY, "cannot start the step thread");
    return TERN_OK;
}

static bool read_hex(const char *text, uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    if (text == NULL || strlen(text) != 2 * count)
        return false;
    for (size_t i = 0; i < 2 * count; i++) {
        const char *digit = memchr(digits, text[i], 16);
        if (digit == NULL)
            return false;
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (uint8_t)(digit - digits));
    }
    return true;
}

static bool read_incarnation(const char *text, uint32_t *incarnation)
{
    char *end;
    const unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
    *incarnation = (uint32_t)value;
    return value >= 1 && value <= 0xffff && *end == '\0';
}

static enum tern_status start(struct worker *w, struct tern_error *error)
{
    uint8_t secret[TERN_SECRET_BYTES] = {0};
    const char *control = getenv("TERN_CONTROL");
    if (control == NULL || !read_incarnation(getenv("TERN_INCARNATION"), &w->incarnation) ||
        !read_hex(getenv("TERN_SECRET"), secret, sizeof secret))
        return tern_fail(error, TERN_USAGE,
                         "tern-cpu is started by ternd: TERN_CONTROL, TERN_INCARNATION or "
                         "TERN_SECRET is missing or malformed");
    unsetenv("TERN_SECRET");
    w->parcels.channel = TERN_CHANNEL_FD;
    enum tern_status status = map_boards(w, error);
    if (status == TERN_OK)
        status = tern_link_open(&w->link, control, error);
    if (status == TERN_OK)
        status = start_steps(w, error);
    if (status == TERN_OK)
        status = tern_link_hello(&w->link, w->incarnation, secret, error);
    explicit_bzero(secret, sizeof secret);
    return status;
}

enum tern_worker_exit tern_worker_run(void)
{
    struct tern_error error;
    if (!tern_inject_setup())
        return TERN_WORKER_BAD_INPUT;
    struct worker *w = calloc(1, sizeof *w);
    if (w == NULL)
        return TERN_WORKER_NO_MEMORY;
    enum tern_status status = start(w, &error);
    if (status == TERN_OK)
        status = serve(w, &error);
    if (status != TERN_NO_SERVICE)
        tern_log("error", "%s", error.message);
    /* Nothing is freed: the step thread may be at work, and the process ends now. */
    return exit_of(status);
}
