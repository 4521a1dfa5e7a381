/*
 * The service: one ROUTER, one list of requests. Whatever happens (a message, a model that became
 * ready, a client that vanished) ends in tern_service_advance, which brings every request as far as
 * it can go. There are few requests, so looking at all of them costs nothing.
 */
#include "coordinator/service/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MESSAGES_AT_ONCE = 64, /* taken from the socket before the loop goes on */
    UNREAD = 32,           /* messages of a client that wait to be taken: each may be 32 MiB */
    LINGER_MS = 500,       /* for last replies at the end */
};

/* ---- the end of requests ---- */

static void free_request(struct tern_request *request)
{
    struct tern_service *service = request->service;
    service->request_count--;
    service->request_bytes -= zmq_msg_size(&request->bytes);
    tern_session_free(request->session);
    if (request->model != NULL)
        tern_model_release(request->model);
    if (request->file != NULL)
        tern_file_release(request->file);
    tern_outbox_release(request->outbox);
    tern_work_free(&request->work);
    free(request->rows);
    tern_answer_free(&request->answer);
    zmq_msg_close(&request->bytes);
    free(request);
}

/* A session that still has a step in flight keeps its request until the step is done, and so does
 * a thread that works on its texts. */
static bool may_be_freed(struct tern_request *request)
{
    if (!request->finished && !request->gone)
        return false;
    tern_work_drop(request);
    return !request->work.busy && (request->session == NULL || request->over);
}

static void sweep(struct tern_service *service)
{
    struct tern_request **link = &service->requests;
    while (*link != NULL) {
        struct tern_request *request = *link;
        if (!may_be_freed(request)) {
            link = &request->next;
            continue;
        }
        *link = request->next;
        free_request(request);
    }
    tern_outbox_sweep(&service->outboxes);
}

void tern_request_give_up(struct tern_request *request, const struct tern_error *error)
{
    if (!request->finished)
        tern_reply_error(request, error);
    if (request->session != NULL && !request->over)
        tern_scheduler_cancel(request->service->scheduler, request->session);
}

/* ---- going on ---- */

/* Tells the user what is odd about the file, though it works. */
static void warn(struct tern_request *request, const struct tern_model_file *file)
{
    const char *text = file->tokenizer != NULL ? tern_tokenizer_warning(file->tokenizer) : NULL;
    if (text != NULL)
        tern_reply_note(request, text);
}

static void advance_file(struct tern_request *request)
{
    switch (request->file->state) {
    case TERN_FILE_OPENING:
        return;
    case TERN_FILE_FAILED:
        tern_reply_error(request, &request->file->error);
        return;
    case TERN_FILE_OPEN:
        break;
    }
    switch (request->message.kind) {
    case TERN_MSG_TOKENIZE:
        if (!request->noticed)
            warn(request, request->file);
        request->noticed = true;
        tern_request_tokenize(request);
        return;
    case TERN_MSG_DETOKENIZE:
        tern_request_detokenize(request);
        return;
    case TERN_MSG_INFO:
        tern_request_info(request);
        return;
    default:
        tern_request_plan(request);
    }
}

/* A context that is not the trained one, once it is known: memory made the default shorter, or more
 * was asked for than the model has learned to use. */
static void notice(struct tern_request *request)
{
    const struct tern_size_choice *size = &request->model->size;
    char text[160];
    if (request->noticed || size->context == 0)
        return;
    request->noticed = true;
    warn(request, request->model->file);
    if (request->options.context == 0 && size->context < size->trained)
        snprintf(text, sizeof text,
                 "context %" PRIu32 ": memory does not allow the %" PRIu32 " trained",
                 size->context, size->trained);
    else if (size->context > size->trained)
        snprintf(text, sizeof text,
                 "context %" PRIu32 ": the model was trained on %" PRIu32
                 " positions and may write nonsense beyond them",
                 size->context, size->trained);
    else
        return;
    tern_reply_note(request, text);
}

/* The prompt is read while the model is loading: what is wrong with it is told without waiting. */
static void advance_model(struct tern_request *request)
{
    const struct tern_model *model = request->model;
    const enum tern_message_kind kind = request->message.kind;
    notice(request);
    if (model->state == TERN_MODEL_FAILED)
        tern_reply_error(request, &model->error);
    else if (model->state != TERN_MODEL_READY && kind != TERN_MSG_LOAD &&
             model->file->state == TERN_FILE_OPEN)
        tern_prompt_read(request);
    else if (model->state != TERN_MODEL_READY)
        return;
    else if (kind == TERN_MSG_LOAD)
        tern_request_loaded(request);
    else if (kind == TERN_MSG_GENERATE)
        tern_request_generate(request);
    else
        tern_request_logits(request);
}

static void advance(struct tern_request *request)
{
    if (request->gone) {
        if (request->session != NULL && !request->over)
            tern_scheduler_cancel(request->service->scheduler, request->session);
    } else if (!request->finished && request->session == NULL && !request->work.busy) {
        if (request->file != NULL)
            advance_file(request);
        else if (request->model != NULL)
            advance_model(request);
    }
}

static void pulse(void *context);

static void arm_pulse(struct tern_service *service)
{
    if (service->pulse == 0 && service->requests != NULL)
        service->pulse =
            tern_loop_timer(service->loop, tern_now_ns() + TERN_PULSE_NS, pulse, service);
}

/* Nothing is freed until leave: what is called in between may hold requests. */
static void enter(struct tern_service *service)
{
    service->advancing = true;
}

static void leave(struct tern_service *service)
{
    service->advancing = false;
    tern_service_advance(service);
}

void tern_service_advance(struct tern_service *service)
{
    service->again = true;
    if (service->advancing)
        return;
    service->advancing = true;
    while (service->again) {
        service->again = false;
        for (struct tern_request *request = service->requests; request != NULL;
             request = request->next)
            advance(request);
        sweep(service);
    }
    service->advancing = false;
    arm_pulse(service);
}

/* ---- the pulse: progress, and clients that are behind ---- */

static void tell_progress(struct tern_request *request)
{
    char text[160];
    uint64_t done, all;
    const bool loading = request->model != NULL && request->model->state != TERN_MODEL_READY;
    if (request->session != NULL) {
        tern_generate_progress(request);
    } else if (request->work.busy && !loading) {
        tern_reply_progress(request, "reading the text", 0, 0);
    } else if (request->model != NULL) {
        tern_model_progress(request->model, text, &done, &all);
        tern_reply_progress(request, text, done, all);
    } else if (request->work.done) {
        tern_reply_progress(request, "waiting until the replies are read", 0, 0);
    } else {
        tern_reply_progress(request, "opening", 0, 0);
    }
}

static void beat(struct tern_request *request, uint64_t now)
{
    struct tern_error error;
    if (request->finished || request->gone)
        return;
    if (request->starved_ns != 0 && now - request->starved_ns > TERN_STARVED_NS) {
        tern_fail(&error, TERN_FAILED, "the client took no reply for 60 s; its request ends");
        tern_request_give_up(request, &error);
        return;
    }
    if (request->session != NULL && request->session->credit == 0)
        tern_request_resume(request);
    if (now - request->sent_ns >= TERN_PULSE_NS)
        tell_progress(request);
}

static void pulse(void *context)
{
    struct tern_service *service = context;
    const uint64_t now = tern_now_ns();
    service->pulse = 0;
    enter(service);
    tern_models_advance(service->models); /* some wait for a time */
    for (struct tern_request *request = service->requests; request != NULL; request = request->next)
        beat(request, now);
    leave(service);
}

/* ---- life ---- */

static void on_input(void *context)
{
    struct tern_service *service = context;
    enter(service);
    for (int i = 0; i < MESSAGES_AT_ONCE && tern_service_receive(service); i++)
        ;
    leave(service);
}

static void on_files(void *context)
{
    struct tern_service *service = context;
    tern_models_advance(service->models);
    tern_service_advance(service);
}

static void on_models(void *context)
{
    tern_service_advance(context);
}

static enum tern_status open_socket(struct tern_service *service, void *zmq_context,
                                    const char *address, struct tern_error *error)
{
    const int on = 1, high = 0, unread = UNREAD, linger = LINGER_MS;
    const int64_t largest = TERN_MESSAGE_MAX + (1 << 20);
    service->socket = zmq_socket(zmq_context, ZMQ_ROUTER);
    if (service->socket == NULL)
        return tern_fail(error, TERN_NO_SERVICE, "cannot make a socket: %s", zmq_strerror(errno));
    zmq_setsockopt(service->socket, ZMQ_ROUTER_MANDATORY, &on, sizeof on);
    zmq_setsockopt(service->socket, ZMQ_SNDHWM, &high, sizeof high); /* outboxes bound bytes */
    zmq_setsockopt(service->socket, ZMQ_RCVHWM, &unread, sizeof unread);
    zmq_setsockopt(service->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(service->socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    if (zmq_bind(service->socket, address) != 0)
        return tern_fail(error, TERN_NO_SERVICE, "cannot serve at %s: %s", address,
                         zmq_strerror(errno));
    return TERN_OK;
}

enum tern_status tern_service_new(struct tern_loop *loop, void *zmq_context, const char *address,
                                  struct tern_supervisor *supervisor,
                                  struct tern_scheduler *scheduler, struct tern_service **out,
                                  struct tern_error *error)
{
    struct tern_service *service = calloc(1, sizeof *service);
    if (service == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    service->began_ns = tern_now_ns();
    service->loop = loop;
    service->supervisor = supervisor;
    service->scheduler = scheduler;
    enum tern_status status = open_socket(service, zmq_context, address, error);
    if (status == TERN_OK)
        status = tern_jobs_new(loop, &service->jobs, error);
    service->files = tern_files_new(supervisor, service->jobs, on_files, service);
    service->models = service->files == NULL ? NULL
                                             : tern_models_new(supervisor, scheduler,
                                                               service->files, on_models, service);
    if (status == TERN_OK && service->models != NULL)
        service->watch = tern_loop_watch_socket(loop, service->socket, on_input, service);
    if (status == TERN_OK && service->watch == 0)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory");
    if (status != TERN_OK) {
        tern_service_free(service);
        return status;
    }
    *out = service;
    return TERN_OK;
}

void tern_service_free(struct tern_service *service)
{
    struct tern_error error;
    if (service == NULL)
        return;
    enter(service); /* for good: nothing goes on any more */
    tern_models_end(service->models);
    tern_files_end(service->files);
    tern_fail(&error, TERN_NO_SERVICE, "the service was stopped");
    for (struct tern_request *request = service->requests; request != NULL; request = request->next)
        if (!request->finished)
            tern_reply_error(request, &error);
    tern_jobs_free(service->jobs);
    while (service->requests != NULL) {
        struct tern_request *request = service->requests;
        service->requests = request->next;
        free_request(request);
    }
    tern_outbox_free(&service->outboxes);
    tern_models_free(service->models);
    tern_files_free(service->files);
    tern_loop_unwatch(service->loop, service->watch);
    tern_loop_cancel(service->loop, service->pulse);
    if (service->socket != NULL)
        zmq_close(service->socket);
    free(service);
}
