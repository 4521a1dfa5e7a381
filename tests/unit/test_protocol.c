/*
 * The client protocol against a real service: what is malformed or over a limit is refused and
 * changes nothing, answers run on credit, clients that vanish leave nothing behind.
 */
#include "proto/message.h"
#include "proto/runtime.h"
#include "proto/wait.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

enum { PATIENCE_MS = 20000, QUIET_MS = 400, TOKENS = 300 };

static char folder[64], model[4096];
static struct tern_runtime runtime;
static struct tern_error error;
static pid_t service;
static void *zmq;

/* ---- the service ---- */

static int start_service(void **state)
{
    (void)state;
    const char *source = getenv("TERN_SOURCE"), *program = getenv("TERN_SERVICE");
    assert_non_null(source);
    assert_non_null(program);
    snprintf(model, sizeof model, "%s/tests/golden/models/qwen2-f16.gguf", source);
    snprintf(folder, sizeof folder, "/tmp/tern-protocol-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    assert_int_equal(setenv("TERN_RESERVE_MIB", "128", 1), 0);
    assert_int_equal(tern_runtime_open(&runtime, &error), TERN_OK);
    service = fork();
    if (service == 0) {
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    zmq = zmq_ctx_new();
    return service > 0 && zmq != NULL ? 0 : -1;
}

static int end_service(void **state)
{
    (void)state;
    char command[128];
    if (service > 0) {
        kill(service, SIGKILL);
        waitpid(service, NULL, 0);
    }
    zmq_ctx_term(zmq);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

/* ---- a client ---- */

static void *new_client(void)
{
    const int no_linger = 0, patience = PATIENCE_MS;
    void *client = zmq_socket(zmq, ZMQ_DEALER);
    assert_non_null(client);
    zmq_setsockopt(client, ZMQ_LINGER, &no_linger, sizeof no_linger);
    zmq_setsockopt(client, ZMQ_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(zmq_connect(client, runtime.clients), 0);
    return client;
}

static void send_pack(void *client, struct tern_pack *pack)
{
    size_t size;
    const void *bytes = tern_pack_end(pack, &size);
    assert_non_null(bytes);
    assert_int_equal(zmq_send(client, bytes, size, 0), (int)size);
    tern_pack_free(pack);
}

/* One reply at a time; its strings lie in `reply_bytes`. */
static zmq_msg_t reply_bytes;
static struct tern_message reply;

static bool receive_within(void *client, int ms)
{
    zmq_pollitem_t item = {.socket = client, .events = ZMQ_POLLIN};
    if (zmq_poll(&item, 1, ms) <= 0)
        return false;
    zmq_msg_close(&reply_bytes);
    zmq_msg_init(&reply_bytes);
    assert_true(zmq_msg_recv(&reply_bytes, client, 0) >= 0);
    assert_int_equal(
        tern_message_parse(zmq_msg_data(&reply_bytes), zmq_msg_size(&reply_bytes), &reply, &error),
        TERN_OK);
    return true;
}

static void receive(void *client)
{
    assert_true(receive_within(client, PATIENCE_MS));
}

static bool is_streaming(void)
{
    return reply.kind == TERN_MSG_PROGRESS || reply.kind == TERN_MSG_TOKENS ||
           reply.kind == TERN_MSG_ROWS;
}

static void acknowledge(void *client, uint64_t request, uint64_t count)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_ACK);
    tern_pack_u64(&pack, TERN_F_REQUEST, request);
    tern_pack_u64(&pack, TERN_F_COUNT, count);
    send_pack(client, &pack);
}

/* The next reply that ends a request; streaming ones are acknowledged. */
static void receive_last(void *client)
{
    for (;;) {
        receive(client);
        if (!is_streaming())
            return;
        acknowledge(client, tern_message_u64(&reply, TERN_F_REQUEST, 0), 1);
    }
}

static void expect_error(void *client, enum tern_status status)
{
    receive_last(client);
    assert_int_equal(reply.kind, TERN_MSG_ERROR);
    assert_int_equal(tern_message_u64(&reply, TERN_F_STATUS, 0), status);
    assert_true(tern_message_has(&reply, TERN_F_TEXT));
}

static void expect_alive(void *client)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_PING);
    tern_pack_u64(&pack, TERN_F_REQUEST, 4711);
    send_pack(client, &pack);
    receive(client);
    assert_int_equal(reply.kind, TERN_MSG_RESULT);
    assert_int_equal(tern_message_u64(&reply, TERN_F_REQUEST, 0), 4711);
}

static const uint32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8};

static void begin(struct tern_pack *pack, enum tern_message_kind kind, uint64_t request)
{
    tern_pack_begin(pack, kind);
    tern_pack_u64(pack, TERN_F_REQUEST, request);
    tern_pack_text(pack, TERN_F_MODEL, model);
}

static void begin_generate(struct tern_pack *pack, uint64_t request, uint64_t n)
{
    begin(pack, TERN_MSG_GENERATE, request);
    tern_pack_bytes(pack, TERN_F_TOKENS, prompt, sizeof prompt);
    tern_pack_u64(pack, TERN_F_N, n);
    tern_pack_bool(pack, TERN_F_IGNORE_EOS, true);
}

static void generate(void *client, uint64_t request, uint64_t n)
{
    struct tern_pack pack;
    begin_generate(&pack, request, n);
    send_pack(client, &pack);
}

/* ---- tests ---- */

static void garbage_is_refused(void **state)
{
    (void)state;
    void *client = new_client();
    unsigned char bytes[600];
    uint32_t random = 1;
    for (int i = 0; i < 500; i++) {
        const size_t size = (size_t)(i % 120) * 5;
        for (size_t j = 0; j < size; j++)
            bytes[j] = (unsigned char)((random = random * 1664525u + 1013904223u) >> 24);
        assert_int_equal(zmq_send(client, bytes, size, 0), (int)size);
        expect_error(client, TERN_USAGE);
    }
    expect_alive(client);
    zmq_close(client);
}

static void every_cut_of_a_message_is_refused(void **state)
{
    (void)state;
    void *client = new_client();
    struct tern_pack pack;
    size_t size;
    begin_generate(&pack, 1, 4);
    const char *bytes = tern_pack_end(&pack, &size);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(zmq_send(client, bytes, cut, 0), (int)cut);
        expect_error(client, TERN_USAGE);
    }
    tern_pack_free(&pack);
    expect_alive(client);
    zmq_close(client);
}

static void a_message_is_one_frame_from_a_client(void **state)
{
    (void)state;
    void *client = new_client();
    struct tern_pack pack;
    zmq_send(client, "a", 1, ZMQ_SNDMORE);
    zmq_send(client, "b", 1, ZMQ_SNDMORE);
    zmq_send(client, "c", 1, 0);
    expect_error(client, TERN_USAGE);
    static const enum tern_message_kind wrong[] = {TERN_MSG_TOKENS, TERN_MSG_HELLO, TERN_MSG_BOUND,
                                                   TERN_MSG_FILLED, TERN_MSG_DONE};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin(&pack, wrong[i], 1);
        send_pack(client, &pack);
        expect_error(client, TERN_USAGE);
    }
    tern_pack_begin(&pack, TERN_MSG_PS); /* no request number */
    send_pack(client, &pack);
    expect_error(client, TERN_USAGE);
    acknowledge(client, 99, UINT64_MAX); /* of nothing: not answered */
    expect_alive(client);
    zmq_close(client);
}

static void refuse(void *client, struct tern_pack *pack, enum tern_status status)
{
    send_pack(client, pack);
    expect_error(client, status);
}

static void impossible_values_are_refused(void **state)
{
    (void)state;
    static uint32_t many[2000];
    const uint32_t outside = 1u << 30;
    void *client = new_client();
    struct tern_pack pack;
    begin_generate(&pack, 1, 4);
    tern_pack_text(&pack, TERN_F_TIER, "mmx");
    refuse(client, &pack, TERN_USAGE);
    begin_generate(&pack, 1, 4);
    tern_pack_text(&pack, TERN_F_PRECISION, "double");
    refuse(client, &pack, TERN_USAGE);
    begin_generate(&pack, 1, 4);
    tern_pack_u64(&pack, TERN_F_CTX, UINT64_MAX);
    refuse(client, &pack, TERN_NO_MEMORY);
    begin_generate(&pack, 1, 4);
    tern_pack_f64(&pack, TERN_F_TEMP, -1);
    refuse(client, &pack, TERN_USAGE);
    begin(&pack, TERN_MSG_GENERATE, 1); /* neither prompt nor tokens */
    refuse(client, &pack, TERN_USAGE);
    begin(&pack, TERN_MSG_GENERATE, 1);
    tern_pack_bytes(&pack, TERN_F_TOKENS, "", 0);
    refuse(client, &pack, TERN_USAGE);
    begin(&pack, TERN_MSG_LOGITS, 1);
    tern_pack_bytes(&pack, TERN_F_TOKENS, &outside, sizeof outside);
    refuse(client, &pack, TERN_USAGE);
    begin(&pack, TERN_MSG_LOGITS, 1);
    tern_pack_bytes(&pack, TERN_F_TOKENS, "abcde", 5);
    refuse(client, &pack, TERN_USAGE);
    begin(&pack, TERN_MSG_LOGITS, 1);
    tern_pack_bytes(&pack, TERN_F_TOKENS, many, sizeof many);
    refuse(client, &pack, TERN_NO_MEMORY);
    tern_pack_begin(&pack, TERN_MSG_INFO);
    tern_pack_u64(&pack, TERN_F_REQUEST, 1);
    tern_pack_text(&pack, TERN_F_MODEL, "relative.gguf");
    refuse(client, &pack, TERN_USAGE);
    begin(&pack, TERN_MSG_PLAN, 1);
    tern_pack_text(&pack, TERN_F_FORMAT, "poem");
    refuse(client, &pack, TERN_USAGE);
    expect_alive(client);
    zmq_close(client);
}

static void an_answer_runs_on_credit(void **state)
{
    (void)state;
    void *client = new_client();
    uint64_t streamed = 0, tokens = 0, silent = 0;
    size_t length;
    generate(client, 1, TOKENS);
    while (receive_within(client, QUIET_MS)) {
        assert_true(is_streaming());
        tern_message_text(&reply, TERN_F_TOKENS, &length);
        tokens += length / sizeof(uint32_t);
        streamed++;
    }
    assert_in_range(streamed, 32, 64);
    assert_true(tokens < TOKENS);
    generate(client, 1, 1); /* the number is in use */
    receive(client);
    assert_int_equal(reply.kind, TERN_MSG_ERROR);
    acknowledge(client, 1, streamed);
    for (receive(client); is_streaming(); receive(client)) {
        tern_message_text(&reply, TERN_F_TOKENS, &length);
        tokens += length / sizeof(uint32_t);
        acknowledge(client, 1, 1);
        silent++;
    }
    assert_true(silent > 0);
    assert_int_equal(reply.kind, TERN_MSG_DONE);
    assert_int_equal(tern_message_u64(&reply, TERN_F_COUNT, 0), TOKENS);
    assert_int_equal(tern_message_u64(&reply, TERN_F_PROMPT_TOKENS, 0), 8);
    assert_int_equal(tokens, TOKENS);
    zmq_close(client);
}

static void cancelling_ends_with_done(void **state)
{
    (void)state;
    void *client = new_client();
    struct tern_pack pack;
    generate(client, 5, TOKENS);
    receive(client);
    tern_pack_begin(&pack, TERN_MSG_CANCEL);
    tern_pack_u64(&pack, TERN_F_REQUEST, 5);
    send_pack(client, &pack);
    while (is_streaming())
        receive(client);
    assert_int_equal(reply.kind, TERN_MSG_DONE);
    assert_memory_equal(tern_message_text(&reply, TERN_F_REASON, &(size_t){0}), "cancelled", 9);
    expect_alive(client);
    zmq_close(client);
}

static uint64_t requests_in_work(void *client)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_PS);
    tern_pack_u64(&pack, TERN_F_REQUEST, 1);
    send_pack(client, &pack);
    receive(client);
    char *json = tern_message_copy(&reply, TERN_F_JSON);
    assert_non_null(json);
    const char *at = json; /* models have a field of that name too; the service's comes last */
    for (const char *next = json; (next = strstr(next, "\"requests\":")) != NULL; at = next)
        next += strlen("\"requests\":");
    const uint64_t count = strtoull(at, NULL, 10);
    free(json);
    return count;
}

static void a_vanished_client_is_noticed(void **state)
{
    (void)state;
    void *client = new_client(), *other = new_client();
    generate(other, 1, TOKENS);
    receive(other);
    assert_true(requests_in_work(client) >= 1);
    zmq_close(other);
    const uint64_t until = tern_now_ns() + 8ull * 1000 * 1000 * 1000;
    while (requests_in_work(client) > 0) {
        assert_true(tern_now_ns() < until);
        usleep(20000);
    }
    zmq_close(client);
}

static void too_many_requests_are_refused(void **state)
{
    (void)state;
    void *client = new_client();
    uint32_t refused = 0, done = 0;
    for (uint64_t i = 1; i <= 300; i++)
        generate(client, i, 2);
    while (done + refused < 300) {
        receive_last(client);
        done += reply.kind == TERN_MSG_DONE;
        refused += reply.kind == TERN_MSG_ERROR;
        assert_true(reply.kind == TERN_MSG_DONE ||
                    tern_message_u64(&reply, TERN_F_STATUS, 0) == TERN_FAILED);
    }
    assert_true(done >= 192);
    expect_alive(client);
    zmq_close(client);
}

static void stop_ends_the_service(void **state)
{
    (void)state;
    void *client = new_client();
    struct tern_pack pack;
    int status;
    tern_pack_begin(&pack, TERN_MSG_STOP);
    tern_pack_u64(&pack, TERN_F_REQUEST, 1);
    send_pack(client, &pack);
    receive(client);
    assert_int_equal(reply.kind, TERN_MSG_RESULT);
    assert_int_equal(waitpid(service, &status, 0), service);
    service = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    zmq_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(every_cut_of_a_message_is_refused),
        cmocka_unit_test(a_message_is_one_frame_from_a_client),
        cmocka_unit_test(impossible_values_are_refused),
        cmocka_unit_test(an_answer_runs_on_credit),
        cmocka_unit_test(cancelling_ends_with_done),
        cmocka_unit_test(a_vanished_client_is_noticed),
        cmocka_unit_test(too_many_requests_are_refused),
        cmocka_unit_test(stop_ends_the_service),
    };
    return cmocka_run_group_tests(tests, start_service, end_service);
}
