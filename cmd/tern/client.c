#include "cmd/tern/client.h"

#include "cmd/tern/output.h"
#include "proto/threads.h"
#include "proto/wait.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum {
    SILENCE_MS = 500,     /* then the service's life is checked */
    CONNECT_MS = 10000,   /* for the first answer */
    CANCEL_MS = 5000,     /* for the answer to a cancelled request */
    ACKNOWLEDGE_EVERY = 8 /* replies; the service stops at 64 unacknowledged ones */
};

static volatile sig_atomic_t interrupted; /* the signal that asked for the end, 0: none */

/* Ctrl-C does not take the place of a signal that ends the program. */
static void note_interrupt(int signal)
{
    if (signal != SIGINT || interrupted == 0)
        interrupted = signal;
}

bool client_interrupted(void)
{
    return interrupted != 0;
}

bool client_forget_interrupt(void)
{
    if (interrupted == SIGINT)
        interrupted = 0;
    return interrupted == 0;
}

int client_poll(struct pollfd *items, unsigned count, int64_t timeout_ns)
{
    const struct timespec limit = {.tv_sec = timeout_ns / 1000000000,
                                   .tv_nsec = timeout_ns % 1000000000};
    sigset_t all, old;
    int ready = -1, reason = EINTR;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    if (interrupted == 0) {
        ready = ppoll(items, count, timeout_ns >= 0 ? &limit : NULL, &old);
        reason = errno;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = reason;
    return ready;
}

void client_catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGQUIT, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

static enum tern_status new_socket(struct client *client, struct tern_error *error)
{
    const int linger = 200, high_water = 0;
    if (tern_threads_fit(error) != TERN_OK)
        return error->status;
    client->context = zmq_ctx_new();
    if (client->context == NULL)
        return tern_fail(error, TERN_FAILED, "cannot create a ZeroMQ context");
    client->socket = zmq_socket(client->context, ZMQ_DEALER);
    if (client->socket == NULL)
        return tern_fail(error, TERN_FAILED, "cannot create a socket: %s", zmq_strerror(errno));
    zmq_setsockopt(client->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(client->socket, ZMQ_RCVHWM, &high_water, sizeof high_water);
    return TERN_OK;
}

/* The first socket starts libzmq's threads. They are to begin with all signals blocked: they block
 * them themselves only a moment later, and one that they took would not wake the thread that waits.
 */
static enum tern_status make_socket(struct client *client, struct tern_error *error)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    const enum tern_status status = new_socket(client, error);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return status;
}

static enum tern_status connect_socket(struct client *client, struct tern_error *error)
{
    if (zmq_connect(client->socket, client->runtime.clients) != 0)
        return tern_fail(error, TERN_NO_SERVICE, "cannot connect to %s: %s",
                         client->runtime.clients, zmq_strerror(errno));
    return TERN_OK;
}

/* One reply into *part (to be closed by the caller) and *reply. TERN_INTERRUPTED: a signal or
 * nothing in time. */
static enum tern_status receive(struct client *client, int timeout_ms, zmq_msg_t *part,
                                struct tern_message *reply, struct tern_error *error)
{
    zmq_pollitem_t item = {.socket = client->socket, .events = ZMQ_POLLIN};
    if (zmq_poll(&item, 1, timeout_ms) <= 0)
        return TERN_INTERRUPTED;
    zmq_msg_init(part);
    if (zmq_msg_recv(part, client->socket, ZMQ_DONTWAIT) < 0)
        return TERN_INTERRUPTED;
    return tern_message_parse(zmq_msg_data(part), zmq_msg_size(part), reply, error);
}

static bool send_bytes(struct client *client, struct tern_pack *pack)
{
    size_t size;
    const void *bytes = tern_pack_end(pack, &size);
    bool sent = false;
    if (bytes != NULL)
        do
            sent = zmq_send(client->socket, bytes, size, 0) >= 0;
        while (!sent && errno == EINTR);
    tern_pack_free(pack);
    return sent;
}

static void send_small(struct client *client, enum tern_message_kind kind, uint64_t count)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, kind);
    tern_pack_u64(&pack, TERN_F_REQUEST, client->request);
    if (kind == TERN_MSG_ACK)
        tern_pack_u64(&pack, TERN_F_COUNT, count);
    send_bytes(client, &pack);
}

static enum tern_status take_error(const struct tern_message *reply, struct tern_error *error)
{
    size_t length;
    const char *text = tern_message_text(reply, TERN_F_TEXT, &length);
    const uint64_t status = tern_message_u64(reply, TERN_F_STATUS, TERN_FAILED);
    return tern_fail(error,
                     status == 0 || status > UINT8_MAX ? TERN_FAILED : (enum tern_status)status,
                     "%.*s", (int)length, text != NULL ? text : "");
}

/* Progress of a call that is not known to the caller. */
struct call {
    struct client *client;
    client_reply reply;
    void *context;
    unsigned unacknowledged;
    bool cancelled; /* by Ctrl-C or by the reply function */
    bool stopped;   /* by the reply function */
    uint64_t last_ns;
};

static void cancel(struct call *call)
{
    if (call->cancelled)
        return;
    call->cancelled = true;
    call->last_ns = tern_now_ns();
    send_small(call->client, TERN_MSG_CANCEL, 0);
}

/* Nothing came for a while: is the service still there? Another one in its place knows nothing of
 * this request. */
static enum tern_status check_silence(struct call *call, struct tern_error *error)
{
    const uint64_t silent_ms = (tern_now_ns() - call->last_ns) / 1000000;
    if (call->cancelled && silent_ms > CANCEL_MS)
        return tern_fail(error, TERN_INTERRUPTED, "interrupted");
    if (silent_ms > SILENCE_MS &&
        tern_runtime_holder(&call->client->runtime) != call->client->service)
        return tern_fail(error, TERN_NO_SERVICE,
                         "the service has ended; the next command that needs one starts it again");
    return TERN_OK;
}

static void acknowledge(struct call *call)
{
    if (++call->unacknowledged < ACKNOWLEDGE_EVERY)
        return;
    send_small(call->client, TERN_MSG_ACK, call->unacknowledged);
    call->unacknowledged = 0;
}

/* True when the request has ended. */
static bool take_reply(struct call *call, const struct tern_message *reply,
                       enum tern_status *status, struct tern_error *error)
{
    call->last_ns = tern_now_ns();
    if (tern_message_u64(reply, TERN_F_REQUEST, 0) != call->client->request)
        return false; /* of an earlier request that was cancelled */
    if (reply->kind == TERN_MSG_ERROR) {
        *status = take_error(reply, error);
        return true;
    }
    if (reply->kind == TERN_MSG_PROGRESS)
        output_progress(reply);
    else
        output_progress_end(); /* the answer does not begin behind a progress line */
    if (reply->kind != TERN_MSG_PROGRESS && call->reply != NULL && !call->stopped &&
        !call->reply(call->context, reply)) {
        call->stopped = true;
        if (reply->kind != TERN_MSG_RESULT && reply->kind != TERN_MSG_DONE)
            cancel(call);
    }
    if (reply->kind == TERN_MSG_RESULT || reply->kind == TERN_MSG_DONE)
        return true;
    acknowledge(call);
    return false;
}

enum tern_status client_call(struct client *client, struct tern_pack *pack, client_reply reply,
                             void *context, struct tern_error *error)
{
    struct call call = {
        .client = client, .reply = reply, .context = context, .last_ns = tern_now_ns()};
    if (!send_bytes(client, pack))
        return tern_fail(error, TERN_FAILED, "cannot send the request to the service");
    enum tern_status status = TERN_OK;
    bool ended = false;
    while (!ended) {
        zmq_msg_t part;
        struct tern_message message;
        if (interrupted && !call.cancelled)
            cancel(&call);
        const enum tern_status received = receive(client, 100, &part, &message, error);
        if (received == TERN_INTERRUPTED) {
            status = check_silence(&call, error);
            if (status != TERN_OK)
                break;
            continue;
        }
        if (received == TERN_OK)
            ended = take_reply(&call, &message, &status, error);
        else
            status = received;
        zmq_msg_close(&part);
        if (received != TERN_OK)
            break;
    }
    output_progress_end();
    if (interrupted && !call.stopped)
        return tern_fail(error, TERN_INTERRUPTED, "interrupted");
    return status;
}

/* The service holds its lock a moment before it answers; one that is dying holds it a moment too
 * long. TERN_NO_SERVICE with no message when it turns out to be gone. */
static enum tern_status wait_for_answer(struct client *client, struct tern_error *error)
{
    const uint64_t deadline = tern_now_ns() + CONNECT_MS * 1000000ull;
    struct tern_pack pack;
    client_begin(client, &pack, TERN_MSG_PING);
    if (!send_bytes(client, &pack))
        return tern_fail(error, TERN_NO_SERVICE, "cannot send to the service");
    while (tern_now_ns() < deadline && !interrupted) {
        zmq_msg_t part;
        struct tern_message reply;
        const enum tern_status status = receive(client, 100, &part, &reply, error);
        if (status != TERN_INTERRUPTED) {
            zmq_msg_close(&part);
            client->service = tern_runtime_holder(&client->runtime);
            if (client->service == 0)
                return tern_fail(error, TERN_NO_SERVICE, "%s", "");
            return status == TERN_OK
                       ? TERN_OK
                       : tern_fail(error, TERN_NO_SERVICE,
                                   "the running service is of another version; stop it (kill %d) "
                                   "and try again",
                                   client->service);
        }
        if (tern_runtime_holder(&client->runtime) == 0)
            return tern_fail(error, TERN_NO_SERVICE, "%s", "");
    }
    if (interrupted)
        return tern_fail(error, TERN_INTERRUPTED, "interrupted");
    const int holder = tern_runtime_holder(&client->runtime);
    return tern_fail(error, TERN_NO_SERVICE,
                     "the service (process %d) does not answer; kill -9 %d ends it", holder,
                     holder);
}

static enum tern_status connect_once(struct client *client, bool start, struct tern_error *error)
{
    /* Before the service starts its threads, so that a limit is met where it can be told. */
    enum tern_status status = make_socket(client, error);
    if (status == TERN_OK && tern_runtime_holder(&client->runtime) == 0)
        status = start ? service_start(&client->runtime, error)
                       : tern_fail(error, TERN_NO_SERVICE,
                                   "no service runs; tern run starts one, and so does tern serve");
    if (status == TERN_OK)
        status = connect_socket(client, error);
    if (status == TERN_OK)
        status = wait_for_answer(client, error);
    if (status != TERN_OK)
        client_close(client);
    return status;
}

enum tern_status client_open(struct client *client, bool start, struct tern_error *error)
{
    *client = (struct client){0};
    client_catch_signals();
    enum tern_status status = tern_runtime_open(&client->runtime, error);
    if (status == TERN_OK)
        status = connect_once(client, start, error);
    if (status == TERN_NO_SERVICE && error->message[0] == '\0')
        status = connect_once(client, start, error);
    if (status == TERN_NO_SERVICE && error->message[0] == '\0') {
        char log[1200];
        service_log(&client->runtime, log, sizeof log);
        tern_fail(error, status, "the service ended as soon as it was reached; see %s", log);
    }
    return status;
}

void client_close(struct client *client)
{
    if (client->socket != NULL)
        zmq_close(client->socket);
    if (client->context != NULL)
        zmq_ctx_term(client->context);
    client->socket = client->context = NULL;
}

void client_begin(struct client *client, struct tern_pack *pack, enum tern_message_kind kind)
{
    /* Numbers start at random so that a late reply to another process's request on a reused
     * connection identity is never taken for ours. */
    if (client->request == 0)
        client->request = tern_now_ns() | 1;
    client->request++;
    tern_pack_begin(pack, kind);
    tern_pack_u64(pack, TERN_F_REQUEST, client->request);
}
