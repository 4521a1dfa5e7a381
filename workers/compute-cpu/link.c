#include "link.h"

#include "proto/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum { HIGH_WATER = 1000 };

static void close_link(struct tern_link *link)
{
    if (link->socket != NULL)
        zmq_close(link->socket);
    if (link->context != NULL)
        zmq_ctx_term(link->context);
    *link = (struct tern_link){0};
}

enum tern_status tern_link_open(struct tern_link *link, const char *control,
                                struct tern_error *error)
{
    const int none = 0, high_water = HIGH_WATER;
    const int64_t largest = TERN_MESSAGE_MAX;
    *link = (struct tern_link){0};
    if (tern_threads_fit(error) != TERN_OK)
        return error->status;
    link->context = zmq_ctx_new();
    if (link->context != NULL)
        link->socket = zmq_socket(link->context, ZMQ_DEALER);
    if (link->socket == NULL || zmq_setsockopt(link->socket, ZMQ_LINGER, &none, sizeof none) != 0 ||
        zmq_setsockopt(link->socket, ZMQ_SNDHWM, &high_water, sizeof high_water) != 0 ||
        zmq_setsockopt(link->socket, ZMQ_RCVHWM, &high_water, sizeof high_water) != 0 ||
        zmq_setsockopt(link->socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest) != 0 ||
        zmq_connect(link->socket, control) != 0) {
        const int reason = zmq_errno();
        close_link(link);
        return tern_fail(error, TERN_NO_SERVICE, "cannot connect to %s: %s", control,
                         zmq_strerror(reason));
    }
    return TERN_OK;
}

static enum tern_status send_packed(struct tern_link *link, struct tern_pack *pack,
                                    struct tern_error *error)
{
    size_t size;
    enum tern_status status = TERN_OK;
    const void *bytes = tern_pack_end(pack, &size);
    if (bytes == NULL)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory for a message");
    else if (zmq_send(link->socket, bytes, size, ZMQ_DONTWAIT) < 0)
        status = tern_fail(error, TERN_NO_SERVICE, "cannot send to the coordinator: %s",
                           zmq_strerror(zmq_errno()));
    tern_pack_free(pack);
    return status;
}

enum tern_status tern_link_hello(struct tern_link *link, uint32_t incarnation,
                                 const uint8_t secret[TERN_SECRET_BYTES], struct tern_error *error)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_HELLO);
    tern_pack_u64(&pack, TERN_F_INCARNATION, incarnation);
    tern_pack_bytes(&pack, TERN_F_SECRET, secret, TERN_SECRET_BYTES);
    tern_pack_u64(&pack, TERN_F_PID, (uint64_t)getpid());
    return send_packed(link, &pack, error);
}

enum tern_status tern_link_answer(struct tern_link *link, enum tern_message_kind kind,
                                  uint32_t plan, struct tern_error *error)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, kind);
    tern_pack_u64(&pack, TERN_F_PLAN, plan);
    return send_packed(link, &pack, error);
}

enum tern_status tern_link_fault(struct tern_link *link, uint32_t plan,
                                 const struct tern_error *what, struct tern_error *error)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_FAULT);
    tern_pack_u64(&pack, TERN_F_PLAN, plan);
    tern_pack_u64(&pack, TERN_F_STATUS, what->status);
    tern_pack_text(&pack, TERN_F_TEXT, what->message);
    return send_packed(link, &pack, error);
}

enum tern_status tern_link_wait(struct tern_link *link, int channel, bool *message,
                                bool *channel_ready, struct tern_error *error)
{
    zmq_pollitem_t items[2] = {
        {.socket = link->socket, .events = ZMQ_POLLIN},
        {.fd = channel, .events = ZMQ_POLLIN},
    };
    *message = *channel_ready = false;
    while (zmq_poll(items, 2, -1) < 0)
        if (zmq_errno() != EINTR)
            return tern_fail(error, TERN_NO_SERVICE, "cannot wait for the coordinator: %s",
                             zmq_strerror(zmq_errno()));
    *message = items[0].revents != 0;
    *channel_ready = items[1].revents != 0;
    return TERN_OK;
}

/* A message of exactly one part; others are taken off the socket and refused. */
static enum tern_status receive_part(struct tern_link *link, zmq_msg_t *part,
                                     struct tern_error *error)
{
    bool several = false;
    while (zmq_msg_recv(part, link->socket, ZMQ_DONTWAIT) < 0) {
        if (zmq_errno() == EAGAIN)
            return TERN_INTERRUPTED;
        if (zmq_errno() != EINTR)
            return tern_fail(error, TERN_NO_SERVICE, "cannot receive from the coordinator: %s",
                             zmq_strerror(zmq_errno()));
    }
    while (zmq_msg_more(part)) {
        several = true;
        if (zmq_msg_recv(part, link->socket, 0) < 0 && zmq_errno() != EINTR)
            break;
    }
    return several ? tern_fail(error, TERN_USAGE, "a message of several parts") : TERN_OK;
}

enum tern_status tern_link_receive(struct tern_link *link, struct tern_message *message,
                                   void **bytes, struct tern_error *error)
{
    zmq_msg_t part;
    *bytes = NULL;
    zmq_msg_init(&part);
    enum tern_status status = receive_part(link, &part, error);
    if (status == TERN_OK) {
        const size_t size = zmq_msg_size(&part);
        *bytes = malloc(size + 1);
        if (*bytes == NULL) {
            status = tern_fail(error, TERN_NO_MEMORY, "out of memory for a message");
        } else {
            memcpy(*bytes, zmq_msg_data(&part), size);
            status = tern_message_parse(*bytes, size, message, error);
        }
    }
    zmq_msg_close(&part);
    return status;
}
