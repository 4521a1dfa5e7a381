/*
 * tern-cpu as a process: started as the coordinator starts it, it says hello, binds plans from
 * descriptors that come over the channel, runs steps, and ends when it should, with the exit code
 * that says why. With the fault-injecting build: crashes, hangs and NaNs where they are ordered.
 */
#include "cpu_fixture.h"

#include "proto/channel.h"
#include "proto/message.h"
#include "proto/wait.h"
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

extern char **environ;

enum { REPLY_MS = 20000, PLAN = 11, INCARNATION = 9 };

static const char secret_text[] = "000102030405060708090a0b0c0d0eff";

struct process {
    pid_t pid;
    int channel, event;
    void *context, *socket;
    char address[100];
    uint8_t routing[64];
    size_t routing_size;
    struct tern_segment coordinator, board;
    struct tern_coordinator_board *coordinator_board;
    const struct tern_worker_board *worker_board;
    uint64_t issued;
};

static struct tern_error error;

/* ---- starting ---- */

static void send_fd(struct process *p, enum tern_parcel_kind kind, enum tern_segment_kind segment,
                    uint64_t id, int fd)
{
    const struct tern_parcel parcel = {.kind = kind, .segment = segment, .id = id, .fd = fd};
    assert_int_equal(tern_channel_send(p->channel, &parcel, NULL, &error), TERN_OK);
}

static void send_boards(struct process *p)
{
    int fd;
    assert_int_equal(tern_segment_create(TERN_SEGMENT_BOARD, 1,
                                         sizeof(struct tern_coordinator_board), &fd, &error),
                     TERN_OK);
    assert_int_equal(
        tern_segment_map(fd, TERN_SEGMENT_BOARD, 1, true, false, &p->coordinator, &error), TERN_OK);
    int reader = tern_segment_reader(fd);
    send_fd(p, TERN_PARCEL_SEGMENT, TERN_SEGMENT_BOARD, 1, reader);
    close(reader);
    close(fd);
    assert_int_equal(
        tern_segment_create(TERN_SEGMENT_BOARD, 2, sizeof(struct tern_worker_board), &fd, &error),
        TERN_OK);
    reader = tern_segment_reader(fd);
    assert_int_equal(
        tern_segment_map(reader, TERN_SEGMENT_BOARD, 2, false, false, &p->board, &error), TERN_OK);
    send_fd(p, TERN_PARCEL_SEGMENT_WRITE, TERN_SEGMENT_BOARD, 2, fd);
    close(reader);
    close(fd);
    send_fd(p, TERN_PARCEL_EVENT, TERN_SEGMENT_NONE, 0, p->event);
    p->coordinator_board = (void *)p->coordinator.data;
    p->worker_board = (const void *)p->board.data;
}

static void spawn(struct process *p, const char *program, int channel)
{
    posix_spawn_file_actions_t actions;
    char *const arguments[] = {(char *)(uintptr_t)program, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, channel, TERN_CHANNEL_FD);
    assert_int_equal(posix_spawn(&p->pid, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
}

static void receive(struct process *p, struct tern_message *message, uint8_t *buffer)
{
    zmq_pollitem_t item = {.socket = p->socket, .events = ZMQ_POLLIN};
    assert_int_equal(zmq_poll(&item, 1, REPLY_MS), 1);
    p->routing_size = (size_t)zmq_recv(p->socket, p->routing, sizeof p->routing, 0);
    const int size = zmq_recv(p->socket, buffer, 4096, 0);
    assert_in_range(size, 1, 4096);
    assert_int_equal(tern_message_parse(buffer, (size_t)size, message, &error), TERN_OK);
}

static void expect(struct process *p, enum tern_message_kind kind, struct tern_message *message)
{
    static uint8_t buffer[4096];
    receive(p, message, buffer);
    if (message->kind != kind) {
        char *text = tern_message_copy(message, TERN_F_TEXT);
        fail_msg("message %s: %s", tern_message_name(message->kind), text != NULL ? text : "");
    }
}

static void start(struct process *p, const char *variable)
{
    const char *program = getenv(variable);
    struct tern_message hello;
    int ends[2];
    size_t length;
    assert_non_null(program);
    *p = (struct process){.event = eventfd(0, EFD_CLOEXEC), .context = zmq_ctx_new()};
    p->socket = zmq_socket(p->context, ZMQ_ROUTER);
    snprintf(p->address, sizeof p->address, "ipc:///tmp/tern-test-%d", (int)getpid());
    assert_int_equal(zmq_bind(p->socket, p->address), 0);
    setenv("TERN_CONTROL", p->address, 1);
    setenv("TERN_INCARNATION", "9", 1);
    setenv("TERN_SECRET", secret_text, 1);
    assert_int_equal(tern_channel_pair(ends, &error), TERN_OK);
    p->channel = ends[0];
    spawn(p, program, ends[1]);
    close(ends[1]);
    send_boards(p);
    expect(p, TERN_MSG_HELLO, &hello);
    assert_int_equal(tern_message_u64(&hello, TERN_F_INCARNATION, 0), INCARNATION);
    assert_int_equal(tern_message_u64(&hello, TERN_F_PID, 0), p->pid);
    const char *secret = tern_message_text(&hello, TERN_F_SECRET, &length);
    assert_int_equal(length, 16);
    assert_int_equal((uint8_t)secret[15], 0xff);
}

static int wait_for_exit(struct process *p)
{
    int status;
    const uint64_t until = tern_now_ns() + REPLY_MS * 1000000ull;
    while (waitpid(p->pid, &status, WNOHANG) == 0) {
        if (tern_now_ns() > until) {
            kill(p->pid, SIGKILL);
            waitpid(p->pid, &status, 0);
            fail_msg("the worker did not end");
        }
        usleep(1000);
    }
    return status;
}

static void drop(struct process *p)
{
    const int none = 0;
    if (p->channel >= 0)
        close(p->channel);
    zmq_setsockopt(p->socket, ZMQ_LINGER, &none, sizeof none);
    zmq_close(p->socket);
    zmq_ctx_term(p->context);
    unlink(p->address + strlen("ipc://"));
    tern_segment_unmap(&p->coordinator);
    tern_segment_unmap(&p->board);
    close(p->event);
}

/* ---- talking ---- */

static void send_message(struct process *p, struct tern_pack *pack)
{
    size_t size;
    const void *bytes = tern_pack_end(pack, &size);
    assert_non_null(bytes);
    assert_true(zmq_send(p->socket, p->routing, p->routing_size, ZMQ_SNDMORE) >= 0);
    assert_true(zmq_send(p->socket, bytes, size, 0) >= 0);
    tern_pack_free(pack);
}

static void send_simple(struct process *p, enum tern_message_kind kind, uint32_t plan)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, kind);
    tern_pack_u64(&pack, TERN_F_PLAN, plan);
    send_message(p, &pack);
}

/* From the `first` on of plan, weights, kv, activations, tables. */
static void send_segments_from(struct process *p, const struct model *model, size_t first)
{
    const struct tern_program_segments *s = &model->segments;
    const struct tern_segment *all[] = {&s->plan, &s->weights, &s->kv, &s->activations, &s->tables};
    for (size_t i = first; i < 5; i++) {
        const bool write =
            all[i]->kind == TERN_SEGMENT_KV || all[i]->kind == TERN_SEGMENT_ACTIVATIONS;
        const int reader = tern_segment_reader(model->fd[i]);
        send_fd(p, write ? TERN_PARCEL_SEGMENT_WRITE : TERN_PARCEL_SEGMENT, all[i]->kind,
                all[i]->id, write ? model->fd[i] : reader);
        close(reader);
    }
}

static void send_segments(struct process *p, const struct model *model)
{
    send_segments_from(p, model, 0);
}

static size_t count_descriptors(pid_t pid)
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void send_bind(struct process *p, const struct model *model, const char *tier)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_BIND);
    tern_pack_u64(&pack, TERN_F_PLAN, PLAN);
    tern_pack_u64(&pack, TERN_F_THREADS, 2);
    tern_pack_text(&pack, TERN_F_TIER, tier);
    tern_pack_u64(&pack, TERN_F_SEG_PLAN, model->segments.plan.id);
    tern_pack_u64(&pack, TERN_F_SEG_WEIGHTS, model->segments.weights.id);
    tern_pack_u64(&pack, TERN_F_SEG_KV, model->segments.kv.id);
    tern_pack_u64(&pack, TERN_F_SEG_ACTIVATIONS, model->segments.activations.id);
    tern_pack_u64(&pack, TERN_F_SEG_TABLES, model->segments.tables.id);
    send_message(p, &pack);
}

static void expect_fault(struct process *p, const char *words)
{
    struct tern_message answer;
    expect(p, TERN_MSG_FAULT, &answer);
    assert_int_equal(tern_message_u64(&answer, TERN_F_PLAN, 0), PLAN);
    assert_int_not_equal(tern_message_u64(&answer, TERN_F_STATUS, 0), 0);
    char *text = tern_message_copy(&answer, TERN_F_TEXT);
    if (strstr(text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text, words);
    free(text);
}

static void bind_model(struct process *p, const struct model *model)
{
    struct tern_message bound;
    send_segments(p, model);
    send_bind(p, model, "scalar");
    expect(p, TERN_MSG_BOUND, &bound);
    assert_int_equal(tern_message_u64(&bound, TERN_F_PLAN, 0), PLAN);
}

static void issue(struct process *p, uint32_t token, uint32_t position)
{
    struct tern_step step = {.plan = PLAN, .number = ++p->issued};
    step_row(&step, token, position, 0, TERN_ROW_LOGITS | TERN_ROW_ARGMAX);
    p->coordinator_board->ring[p->issued % TERN_STEP_RING] = step;
    atomic_store(&p->coordinator_board->issued, p->issued);
    tern_ring(&p->coordinator_board->bell);
}

static const struct tern_step_result *wait_done(struct process *p, const struct model *model)
{
    struct pollfd event = {.fd = p->event, .events = POLLIN};
    uint64_t count;
    if (poll(&event, 1, REPLY_MS) <= 0)
        return NULL;
    assert_int_equal(read(p->event, &count, sizeof count), sizeof count);
    assert_int_equal(atomic_load(&p->worker_board->done),
                     tern_word(INCARNATION, p->issued, model->plan->stages));
    return &p->worker_board->result[p->issued % TERN_STEP_RING];
}

static const struct model_options options = {
    .fused = true, .type = TERN_Q8_0, .precision = TERN_FAST, .kv = TERN_KV_F16};

/* Decodes some positions and compares all logits. */
static void run_steps(struct process *p, const struct model *model)
{
    static const uint32_t tokens[] = {4, 8, 15, 16, 23, 42};
    static float expected[6 * MODEL_VOCABULARY];
    model_evaluate(model, tokens, 6, expected);
    for (uint32_t i = 0; i < 6; i++) {
        issue(p, tokens[i], i);
        const struct tern_step_result *result = wait_done(p, model);
        assert_non_null(result);
        assert_int_equal(result->fault[0], 0);
        assert_memory_equal(model_logits(model, 0), expected + i * MODEL_VOCABULARY,
                            MODEL_VOCABULARY * sizeof(float));
    }
}

/* ---- tests ---- */

static void binds_runs_and_ends(void **state)
{
    (void)state;
    struct process p;
    struct model model;
    struct tern_message answer;
    start(&p, "TERN_CPU");
    model_make(&model, &options);
    bind_model(&p, &model);
    run_steps(&p, &model);
    send_simple(&p, TERN_MSG_RELEASE, PLAN);
    expect(&p, TERN_MSG_RELEASED, &answer);
    bind_model(&p, &model); /* the same number and segments again */
    run_steps(&p, &model);
    send_simple(&p, TERN_MSG_QUIT, 0);
    assert_int_equal(wait_for_exit(&p), 0);
    drop(&p);
    model_free(&model);
}

static void the_end_of_the_channel_ends_it(void **state)
{
    (void)state;
    struct process p;
    start(&p, "TERN_CPU");
    close(p.channel);
    p.channel = -1;
    assert_int_equal(wait_for_exit(&p), 0);
    drop(&p);
}

static void bad_bindings_are_faults(void **state)
{
    (void)state;
    struct process p;
    struct model model;
    start(&p, "TERN_CPU");
    model_make(&model, &options);
    const size_t descriptors = count_descriptors(p.pid);
    send_segments_from(&p, &model, 1);
    send_bind(&p, &model, "scalar");
    expect_fault(&p, "within 2000 ms"); /* the plan's descriptor was not sent */
    assert_int_equal(count_descriptors(p.pid), descriptors);
    send_segments(&p, &model);
    send_bind(&p, &model, "quantum");
    expect_fault(&p, "quantum");
    model.instructions[2].columns = 7;
    send_segments(&p, &model);
    send_bind(&p, &model, "scalar");
    expect_fault(&p, "instruction 2");
    send_simple(&p, TERN_MSG_QUIT, 0);
    assert_int_equal(wait_for_exit(&p), 0);
    drop(&p);
    model_free(&model);
}

static void what_must_not_be_sent_ends_it(void **state)
{
    (void)state;
    struct process p;
    struct model model;
    start(&p, "TERN_CPU");
    send_simple(&p, TERN_MSG_STOP, 0);
    assert_int_equal(WEXITSTATUS(wait_for_exit(&p)), TERN_WORKER_BAD_INPUT);
    drop(&p);
    start(&p, "TERN_CPU");
    model_make(&model, &options);
    bind_model(&p, &model);
    issue(&p, MODEL_VOCABULARY, 0);
    assert_int_equal(WEXITSTATUS(wait_for_exit(&p)), TERN_WORKER_BAD_INPUT);
    drop(&p);
    model_free(&model);
}

static void injected_faults_happen(void **state)
{
    (void)state;
    struct process p;
    struct model model;
    model_make(&model, &options);

    setenv("TERN_INJECT", "crash:2:5", 1);
    start(&p, "TERN_CPU_FAULTY");
    bind_model(&p, &model);
    issue(&p, 1, 0);
    assert_non_null(wait_done(&p, &model));
    issue(&p, 2, 1);
    const int status = wait_for_exit(&p);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(atomic_load(&p.worker_board->progress), tern_word(INCARNATION, 2, 5));
    drop(&p);

    setenv("TERN_INJECT", "nan:1:0,exit:2:*", 1);
    start(&p, "TERN_CPU_FAULTY");
    bind_model(&p, &model);
    issue(&p, 1, 0);
    const struct tern_step_result *result = wait_done(&p, &model);
    assert_non_null(result);
    assert_int_equal(result->fault[0], tern_fault(TERN_FAULT_NOT_FINITE, 1));
    issue(&p, 1, 0);
    assert_int_equal(WEXITSTATUS(wait_for_exit(&p)), TERN_WORKER_RETRY);
    drop(&p);

    setenv("TERN_INJECT", "hang:*:4", 1);
    start(&p, "TERN_CPU_FAULTY");
    bind_model(&p, &model);
    issue(&p, 1, 0);
    usleep(100000);
    assert_int_equal(atomic_load(&p.worker_board->progress), tern_word(INCARNATION, 1, 4));
    kill(p.pid, SIGKILL);
    assert_true(WIFSIGNALED(wait_for_exit(&p)));
    drop(&p);
    unsetenv("TERN_INJECT");
    model_free(&model);
}

static void stages_run_twice_write_the_same(void **state)
{
    (void)state;
    struct process p;
    struct model model;
    struct model_options two = options;
    two.two_stages = true;
    model_make(&model, &two);
    setenv("TERN_RUN_TWICE", "1", 1);
    start(&p, "TERN_CPU_FAULTY");
    bind_model(&p, &model);
    run_steps(&p, &model);
    send_simple(&p, TERN_MSG_RELEASE, PLAN);
    struct tern_message answer;
    expect(&p, TERN_MSG_RELEASED, &answer);

    /* A stage that writes over what an earlier stage gave it is caught. */
    struct tern_instruction *add = model_find(&model, TERN_OP_ADD_NORM);
    while (add->stage == 0 || add->op != TERN_OP_ADD_NORM)
        add++;
    add->out[0] = add->in[0];
    bind_model(&p, &model);
    issue(&p, 1, 6);
    assert_int_equal(WEXITSTATUS(wait_for_exit(&p)), TERN_WORKER_FATAL);
    drop(&p);
    unsetenv("TERN_RUN_TWICE");
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binds_runs_and_ends),
        cmocka_unit_test(the_end_of_the_channel_ends_it),
        cmocka_unit_test(bad_bindings_are_faults),
        cmocka_unit_test(what_must_not_be_sent_ends_it),
        cmocka_unit_test(injected_faults_happen),
        cmocka_unit_test(stages_run_twice_write_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
