/*
 * Messages of clients: received, checked, made into requests, or answered at once. Every refusal
 * says what the limit is.
 */
#include "coordinator/model/options.h"
#include "coordinator/service/request.h"
#include "proto/tier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tern_request *find_request(struct tern_service *service,
                                         const struct tern_client *client, uint64_t number)
{
    struct tern_request *request = service->requests;
    while (request != NULL && (request->finished || request->number != number ||
                               !tern_same_client(&request->client, client)))
        request = request->next;
    return request;
}

static void cancel(struct tern_request *request)
{
    if (request->session == NULL)
        tern_reply_done(request, "cancelled");
    else if (!request->over)
        tern_scheduler_cancel(request->service->scheduler, request->session);
}

static void unload(struct tern_request *request)
{
    struct tern_error error;
    uint32_t waits;
    char text[160];
    char *path = tern_message_copy(&request->message, TERN_F_MODEL);
    if (path == NULL) {
        tern_fail(&error, TERN_USAGE, "the request names no model");
        tern_reply_error(request, &error);
    } else if (tern_models_unload(request->service->models, path, &waits, &error) != TERN_OK) {
        tern_reply_error(request, &error);
    } else {
        snprintf(text, sizeof text,
                 waits == 0 ? "unloaded"
                            : "will be unloaded when its requests (%" PRIu32 ") have finished",
                 waits);
        tern_reply_result(request, NULL, text);
    }
    free(path);
}

static void stop(struct tern_request *request)
{
    tern_log("info", "ending: a client asked for it");
    tern_reply_result(request, NULL, "the service ends");
    tern_loop_stop(request->service->loop);
}

/* What no model and no memory could make right is refused before anything is loaded for it. */
static enum tern_status check(struct tern_request *request, struct tern_error *error)
{
    const enum tern_message_kind kind = request->message.kind;
    enum tern_status status = TERN_OK;
    if (kind == TERN_MSG_GENERATE || kind == TERN_MSG_LOGITS)
        status = tern_prompt_check(request, error);
    if (status == TERN_OK && kind == TERN_MSG_GENERATE)
        status = tern_answer_begin(request, error);
    return status;
}

/* The model as the request asks for it; what it does not say is as `tern load` said. */
static enum tern_status get_model(struct tern_request *request, const char *path,
                                  struct tern_error *error)
{
    const struct tern_message *message = &request->message;
    const enum tern_status status = tern_options_read(message, &request->options, error);
    if (status != TERN_OK)
        return status;
    return tern_model_get(request->service->models, path,
                          message->kind != TERN_MSG_LOAD ? message : NULL, &request->options,
                          &request->model, error);
}

/* Finds what the request needs; the rest comes with tern_service_advance. */
static enum tern_status open_model(struct tern_request *request, struct tern_error *error)
{
    struct tern_service *service = request->service;
    const enum tern_message_kind kind = request->message.kind;
    char *path = tern_message_copy(&request->message, TERN_F_MODEL);
    enum tern_status status;
    if (path == NULL || path[0] != '/')
        status = tern_fail(error, TERN_USAGE, "the request names no model by an absolute path");
    else if (kind == TERN_MSG_LOAD || kind == TERN_MSG_GENERATE || kind == TERN_MSG_LOGITS)
        status = get_model(request, path, error);
    else
        status = tern_file_get(service->files, path, &request->file, error);
    free(path);
    return status;
}

static void begin(struct tern_request *request)
{
    struct tern_error error;
    tern_log("debug", "request: %s", tern_message_name(request->message.kind));
    switch (request->message.kind) {
    case TERN_MSG_PING:
        tern_reply_result(request, NULL, TERN_VERSION);
        return;
    case TERN_MSG_PS:
        tern_request_ps(request);
        return;
    case TERN_MSG_UNLOAD:
        unload(request);
        return;
    case TERN_MSG_STOP:
        stop(request);
        return;
    case TERN_MSG_LOAD:
    case TERN_MSG_GENERATE:
    case TERN_MSG_LOGITS:
    case TERN_MSG_TOKENIZE:
    case TERN_MSG_DETOKENIZE:
    case TERN_MSG_INFO:
    case TERN_MSG_PLAN:
        if (check(request, &error) != TERN_OK || open_model(request, &error) != TERN_OK)
            tern_reply_error(request, &error);
        return;
    default:
        tern_fail(&error, TERN_USAGE, "clients do not send '%s'",
                  tern_message_name(request->message.kind));
        tern_reply_error(request, &error);
    }
}

void tern_request_ps(struct tern_request *request)
{
    struct tern_error error;
    char *json = tern_describe_service(request->service);
    if (json != NULL) {
        tern_reply_result(request, json, NULL);
    } else {
        tern_fail(&error, TERN_NO_MEMORY, "out of memory");
        tern_reply_error(request, &error);
    }
    free(json);
}

void tern_request_loaded(struct tern_request *request)
{
    request->model->pinned |= tern_message_bool(&request->message, TERN_F_PIN);
    const struct tern_model *model = request->model;
    char *json = tern_describe_model(model);
    char text[200];
    snprintf(text, sizeof text,
             "loaded: context %" PRIu32 "%s, %" PRIu64 " MiB, %" PRIu32 " threads, %s",
             model->size.context,
             model->size.context == model->size.trained ? " (the trained length)" : "",
             model->size.bytes >> 20, model->options.threads,
             tern_tier_name((enum tern_tier)model->options.tier));
    tern_reply_result(request, json, text);
    free(json);
}

/* ---- taking requests ---- */

/* An answer to something that did not become a request. */
static void refuse(struct tern_service *service, const struct tern_client *client, uint64_t number,
                   const struct tern_error *error)
{
    struct tern_outbox *outbox = tern_outbox_get(&service->outboxes, client);
    struct tern_request nobody = {
        .service = service, .client = *client, .outbox = outbox, .number = number};
    if (outbox != NULL)
        tern_reply_error(&nobody, error);
    tern_outbox_release(outbox);
}

static int count_requests(const struct tern_service *service, const struct tern_client *client)
{
    int count = 0;
    for (const struct tern_request *r = service->requests; r != NULL; r = r->next)
        count += tern_same_client(&r->client, client);
    return count;
}

/* Then it needs no room, and can always be asked for: also to see what fills the service, and to
 * end it. */
static bool is_answered_at_once(enum tern_message_kind kind)
{
    return kind == TERN_MSG_PING || kind == TERN_MSG_PS || kind == TERN_MSG_UNLOAD ||
           kind == TERN_MSG_STOP;
}

static enum tern_status check_room(struct tern_service *service, const struct tern_client *client,
                                   const struct tern_message *message, size_t bytes,
                                   struct tern_error *error)
{
    if (!tern_message_has(message, TERN_F_REQUEST))
        return tern_fail(error, TERN_USAGE, "the message has no field 'request'");
    if (find_request(service, client, tern_message_u64(message, TERN_F_REQUEST, 0)) != NULL)
        return tern_fail(error, TERN_USAGE,
                         "this client's request of that number is still in work");
    if (is_answered_at_once(message->kind))
        return TERN_OK;
    if (service->request_count >= TERN_REQUESTS)
        return tern_fail(error, TERN_FAILED,
                         "the service is full: %d requests are in work, which is the limit; try "
                         "again when some have ended (tern ps shows them)",
                         TERN_REQUESTS);
    if (count_requests(service, client) >= TERN_CLIENT_REQUESTS)
        return tern_fail(error, TERN_FAILED,
                         "%d requests of this client are in work, which is the limit; try again "
                         "when some have ended",
                         TERN_CLIENT_REQUESTS);
    if (bytes > TERN_REQUEST_BYTES - service->request_bytes)
        return tern_fail(error, TERN_FAILED,
                         "the service is full: the requests in work hold %u MiB; try again later",
                         TERN_REQUEST_BYTES >> 20);
    return TERN_OK;
}

static void append(struct tern_service *service, struct tern_request *request)
{
    struct tern_request **link = &service->requests;
    while (*link != NULL)
        link = &(*link)->next;
    *link = request;
    service->request_count++;
    service->request_bytes += zmq_msg_size(&request->bytes);
}

/* Takes the bytes over, if there is memory for a request. */
static struct tern_request *add(struct tern_service *service, const struct tern_client *client,
                                uint64_t number, zmq_msg_t *bytes)
{
    struct tern_request *request = calloc(1, sizeof *request);
    struct tern_outbox *outbox =
        request != NULL ? tern_outbox_get(&service->outboxes, client) : NULL;
    if (outbox == NULL) {
        free(request);
        return NULL;
    }
    request->service = service;
    request->client = *client;
    request->outbox = outbox;
    request->number = number;
    request->sent_ns = tern_now_ns();
    zmq_msg_init(&request->bytes);
    zmq_msg_move(&request->bytes, bytes);
    append(service, request);
    return request;
}

/* About a request that is in work; if it is over by now, that is no error. */
static void take_word(struct tern_service *service, const struct tern_client *client,
                      const struct tern_message *message)
{
    struct tern_request *request =
        find_request(service, client, tern_message_u64(message, TERN_F_REQUEST, 0));
    if (request != NULL && message->kind == TERN_MSG_ACK)
        tern_request_acknowledge(request, tern_message_u64(message, TERN_F_COUNT, 1));
    else if (request != NULL)
        cancel(request);
}

static void take(struct tern_service *service, const struct tern_client *client, zmq_msg_t *bytes)
{
    struct tern_error error;
    struct tern_message message = {0};
    struct tern_request *request = NULL;
    enum tern_status status =
        tern_message_parse(zmq_msg_data(bytes), zmq_msg_size(bytes), &message, &error);
    const uint64_t number = tern_message_u64(&message, TERN_F_REQUEST, 0);
    if (status == TERN_OK && (message.kind == TERN_MSG_ACK || message.kind == TERN_MSG_CANCEL)) {
        take_word(service, client, &message);
        return;
    }
    if (status == TERN_OK)
        status = check_room(service, client, &message, zmq_msg_size(bytes), &error);
    if (status == TERN_OK && (request = add(service, client, number, bytes)) == NULL)
        status = tern_fail(&error, TERN_NO_MEMORY, "out of memory");
    if (status != TERN_OK) {
        refuse(service, client, number, &error);
        return;
    }
    /* Small messages lie inside zmq_msg_t itself, so that the pointers must be found again. */
    if (tern_message_parse(zmq_msg_data(&request->bytes), zmq_msg_size(&request->bytes),
                           &request->message, &error) == TERN_OK)
        begin(request);
    else
        request->finished = true;
}

/* One message of one client: its name, then exactly one frame. */
bool tern_service_receive(struct tern_service *service)
{
    struct tern_client client;
    zmq_msg_t name, bytes, rest;
    struct tern_error error;
    zmq_msg_init(&name);
    zmq_msg_init(&bytes);
    bool got = zmq_msg_recv(&name, service->socket, ZMQ_DONTWAIT) >= 0;
    const bool fits = got && zmq_msg_size(&name) <= TERN_CLIENT_ID;
    client.bytes = fits ? (uint8_t)zmq_msg_size(&name) : 0;
    memcpy(client.id, zmq_msg_data(&name), client.bytes);
    bool more = got && zmq_msg_more(&name);
    bool whole = more && zmq_msg_recv(&bytes, service->socket, ZMQ_DONTWAIT) >= 0;
    more = whole && zmq_msg_more(&bytes);
    if (more)
        whole = false;
    while (more) {
        zmq_msg_init(&rest);
        more = zmq_msg_recv(&rest, service->socket, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&rest);
        zmq_msg_close(&rest);
    }
    if (fits && whole) {
        take(service, &client, &bytes);
    } else if (fits) {
        tern_fail(&error, TERN_USAGE, "a message is one frame");
        refuse(service, &client, 0, &error);
    }
    zmq_msg_close(&name);
    zmq_msg_close(&bytes);
    return got;
}
