/*
 * A worker that misbehaves to order, to test supervision. Called as tern-cpu or as tern-loader (the
 * tests make links), it speaks the protocol of the real ones and computes nothing.
 *
 * As tern-cpu: the answer to a row is its token + 1. TERN_FAKE says how to behave at the start; a
 * row whose token is an order (below) and whose position is this incarnation is obeyed.
 * As tern-loader: the model file's first word says how to behave.
 */
#include "tests/unit/fake_worker.h"
#include "proto/board.h"
#include "proto/channel.h"
#include "proto/message.h"
#include "proto/plan.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

static char buffer[TERN_CHANNEL_MAX];

static bool behaves(const char *how)
{
    const char *fake = getenv("TERN_FAKE");
    return fake != NULL && strcmp(fake, how) == 0;
}

/* Also where a sanitizer handles the signal. */
static void crash(void)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void die_with_parent(void)
{
    const pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || parent == 1)
        _exit(1);
}

static struct tern_parcel receive(void)
{
    struct tern_parcel parcel;
    struct tern_error error;
    const enum tern_status status =
        tern_channel_receive(TERN_CHANNEL_FD, -1, &parcel, buffer, &error);
    if (status != TERN_OK)
        _exit(status == TERN_NO_SERVICE ? 0 : 20);
    return parcel;
}

static struct tern_segment map(const struct tern_parcel *parcel, bool writable)
{
    struct tern_segment segment;
    struct tern_error error;
    if (tern_segment_map(parcel->fd, parcel->segment, parcel->id, writable, false, &segment,
                         &error) != TERN_OK) {
        tern_log("error", "fake: %s", error.message);
        _exit(21);
    }
    close(parcel->fd);
    return segment;
}

/* ---- tern-cpu ---- */

struct cpu {
    void *socket;
    uint32_t incarnation, stages;
    const struct tern_coordinator_board *coordinator;
    struct tern_worker_board *board;
    int event;
    uint64_t last;
};

static void send_message(void *socket, struct tern_pack *pack)
{
    size_t size;
    const void *bytes = tern_pack_end(pack, &size);
    zmq_send(socket, bytes, size, 0);
    tern_pack_free(pack);
}

static void say_hello(const struct cpu *cpu, bool wrong)
{
    uint8_t secret[16];
    const char *hex = getenv("TERN_SECRET");
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        if (hex == NULL || sscanf(hex + 2 * i, "%2x", &byte) != 1)
            _exit(22);
        secret[i] = (uint8_t)(wrong ? byte + 1 : byte);
    }
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_HELLO);
    tern_pack_u64(&pack, TERN_F_INCARNATION, cpu->incarnation);
    tern_pack_bytes(&pack, TERN_F_SECRET, secret, sizeof secret);
    tern_pack_u64(&pack, TERN_F_PID, (uint64_t)getpid());
    send_message(cpu->socket, &pack);
}

static void obey(const struct cpu *cpu, const struct tern_row *row)
{
    if (row->position != cpu->incarnation)
        return;
    switch (row->token) {
    case FAKE_CRASH:
        crash();
        break;
    case FAKE_SPIN:
        for (;;)
            tern_pause();
    case FAKE_SLEEP:
        for (;;)
            pause();
    case FAKE_STOP:
        raise(SIGSTOP);
        break;
    case FAKE_EXIT:
        _exit(9);
    default:
        break;
    }
}

static void finish(struct cpu *cpu, uint64_t number)
{
    const uint64_t one = 1;
    atomic_store(&cpu->board->done, tern_word(cpu->incarnation, number, cpu->stages));
    if (write(cpu->event, &one, sizeof one) < 0)
        _exit(23);
}

static bool begin_granted(struct cpu *cpu, uint64_t number)
{
    atomic_store(&cpu->board->begun, number);
    if (number <= atomic_load(&cpu->coordinator->run_limit)) {
        atomic_store(&cpu->board->progress, tern_word(cpu->incarnation, number, 0));
        return true;
    }
    atomic_store(&cpu->board->begun, number - 1);
    return false;
}

static bool is_end(const struct tern_step *step, uint32_t token)
{
    for (uint32_t i = 0; i < step->end_tokens; i++)
        if (step->end_token[i] == token)
            return true;
    return false;
}

static void run_ahead(struct cpu *cpu, const struct tern_step *step, uint32_t token)
{
    for (uint64_t n = step->number + 1; n <= step->number + step->grant; n++) {
        if (is_end(step, token) || !begin_granted(cpu, n))
            return;
        usleep(1000);
        token++;
        cpu->board->granted[n % TERN_GRANT_RING] =
            (struct tern_granted_token){.step = n, .token = token};
        finish(cpu, n);
    }
}

static void run_step(struct cpu *cpu, const struct tern_step *step)
{
    struct tern_step_result *result = &cpu->board->result[step->number % TERN_STEP_RING];
    atomic_store(&cpu->board->begun, step->number);
    atomic_store(&cpu->board->progress, tern_word(cpu->incarnation, step->number, 0));
    result->began_ns = tern_now_ns();
    for (uint32_t i = 0; i < step->rows; i++) {
        obey(cpu, &step->row[i]);
        result->argmax[i] = step->row[i].token + 1;
        if (step->row[i].token == FAKE_LIE && step->row[i].position == cpu->incarnation)
            result->argmax[i] = UINT32_MAX;
        result->fault[i] = 0;
    }
    if (step->row[0].position == FAKE_SLOW)
        usleep(1000);
    result->ended_ns = tern_now_ns();
    atomic_fetch_add(&cpu->board->calls[TERN_AVX2], 7);
    finish(cpu, step->number);
    run_ahead(cpu, step, result->argmax[0]);
}

/* The step thread, as in the real worker: steps go on while a plan is being bound. */
static void *run_steps(void *context)
{
    struct cpu *cpu = context;
    for (;;) {
        const uint32_t seen = atomic_load(&cpu->coordinator->bell);
        const uint64_t issued = atomic_load(&cpu->coordinator->issued);
        for (uint64_t n = cpu->last + 1; n <= issued; n++) {
            const struct tern_step *step = &cpu->coordinator->ring[n % TERN_STEP_RING];
            if (step->number == n && step->epoch == atomic_load(&cpu->coordinator->epoch))
                run_step(cpu, step);
        }
        cpu->last = issued;
        tern_wait(&cpu->coordinator->bell, seen, 1000);
    }
    return NULL;
}

static void answer_bind(struct cpu *cpu, uint64_t plan)
{
    struct tern_segment segment = {0};
    for (int i = 0; i < 5; i++) {
        const struct tern_parcel parcel = receive();
        const bool writable = parcel.kind == TERN_PARCEL_SEGMENT_WRITE;
        const bool owned =
            parcel.segment == TERN_SEGMENT_KV || parcel.segment == TERN_SEGMENT_ACTIVATIONS;
        struct tern_segment mapped = map(&parcel, writable);
        if (writable != owned)
            _exit(24);
        if (parcel.segment == TERN_SEGMENT_PLAN)
            segment = mapped;
        else
            tern_segment_unmap(&mapped);
    }
    cpu->stages = ((const struct tern_plan *)(const void *)segment.data)->stages;
    if (behaves("crash-bind"))
        crash();
    struct tern_pack pack;
    tern_pack_begin(&pack, behaves("fault-bind") ? TERN_MSG_FAULT : TERN_MSG_BOUND);
    tern_pack_u64(&pack, TERN_F_PLAN, plan);
    if (behaves("fault-bind")) {
        tern_pack_u64(&pack, TERN_F_STATUS, TERN_NO_MEMORY);
        tern_pack_text(&pack, TERN_F_TEXT, "no room for it");
    }
    send_message(cpu->socket, &pack);
}

static void take_control(struct cpu *cpu)
{
    struct tern_message message;
    struct tern_error error;
    static char bytes[65536];
    const int size = zmq_recv(cpu->socket, bytes, sizeof bytes, 0);
    if (size < 0 || tern_message_parse(bytes, (size_t)size, &message, &error) != TERN_OK)
        _exit(25);
    if (message.kind == TERN_MSG_QUIT && !behaves("deaf"))
        _exit(0);
    if (message.kind == TERN_MSG_BIND)
        answer_bind(cpu, tern_message_u64(&message, TERN_F_PLAN, 0));
}

static int run_cpu(void)
{
    struct cpu cpu = {.stages = 1};
    const struct tern_parcel coordinator = receive(), own = receive(), event = receive();
    if (coordinator.kind != TERN_PARCEL_SEGMENT || own.kind != TERN_PARCEL_SEGMENT_WRITE ||
        event.kind != TERN_PARCEL_EVENT)
        return 26;
    cpu.coordinator =
        (const struct tern_coordinator_board *)(const void *)map(&coordinator, false).data;
    cpu.board = (struct tern_worker_board *)(void *)map(&own, true).data;
    cpu.event = event.fd;
    cpu.incarnation = (uint32_t)atoi(getenv("TERN_INCARNATION"));
    cpu.last = atomic_load(&cpu.coordinator->issued);
    if (behaves("crash-start") || (behaves("crash-restart") && cpu.incarnation > 1))
        crash();
    if (behaves("silent"))
        pause();

    cpu.socket = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
    if (zmq_connect(cpu.socket, getenv("TERN_CONTROL")) != 0)
        return 27;
    if (behaves("wrong-secret"))
        say_hello(&cpu, true);
    say_hello(&cpu, false);
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_steps, &cpu) != 0)
        return 28;
    for (;;) {
        zmq_pollitem_t items[] = {{.socket = cpu.socket, .events = ZMQ_POLLIN},
                                  {.fd = TERN_CHANNEL_FD, .events = ZMQ_POLLERR}};
        if (zmq_poll(items, 2, -1) < 0)
            return 29;
        if (items[1].revents != 0 && !behaves("deaf"))
            _exit(0); /* the coordinator is gone */
        if (items[0].revents != 0)
            take_control(&cpu);
    }
}

/* ---- tern-loader ---- */

static void tell(enum tern_message_kind kind, uint64_t done, uint64_t all, const char *text)
{
    struct tern_pack pack;
    struct tern_parcel parcel = {.kind = TERN_PARCEL_MESSAGE, .fd = -1};
    tern_pack_begin(&pack, kind);
    if (kind == TERN_MSG_PROGRESS) {
        tern_pack_u64(&pack, TERN_F_DONE_UNITS, done);
        tern_pack_u64(&pack, TERN_F_ALL_UNITS, all);
    }
    if (text != NULL) {
        tern_pack_u64(&pack, TERN_F_STATUS, TERN_UNSUPPORTED);
        tern_pack_text(&pack, TERN_F_TEXT, text);
    }
    const void *bytes = tern_pack_end(&pack, &parcel.bytes);
    tern_channel_send(TERN_CHANNEL_FD, &parcel, bytes, NULL);
    tern_pack_free(&pack);
}

/* True the first time only: a marker file beside the model remembers. */
static bool first_time(const char *marker)
{
    const int fd = open(marker, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void misbehave(const char *order, const char *when)
{
    char what[64], moment[64], marker[256] = "";
    if (sscanf(order, "%63s %63s %255s", what, moment, marker) < 2 || strcmp(moment, when) != 0)
        return;
    if (strcmp(what, "crash") == 0)
        crash();
    if (strcmp(what, "kill") == 0 && (marker[0] == '\0' || first_time(marker)))
        raise(SIGKILL);
    if (strcmp(what, "spin") == 0)
        for (;;)
            tern_pause();
    while (strcmp(what, "repeat") == 0) {
        tell(TERN_MSG_PROGRESS, 1, 2, NULL);
        usleep(20000);
    }
    if (strcmp(what, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(what, "exit") == 0)
        _exit(5);
    if (strcmp(what, "garbage") == 0)
        send(TERN_CHANNEL_FD, "xyz", 3, 0);
    if (strcmp(what, "twice") == 0)
        tell(TERN_MSG_CATALOG, 0, 0, NULL);
    if (strcmp(what, "error") == 0) {
        tell(TERN_MSG_ERROR, 0, 0, "tensor blk.0 has type XYZ");
        _exit(3);
    }
}

static int run_loader(void)
{
    const struct tern_parcel parcel = receive(), file = receive();
    char order[400] = "";
    if (parcel.kind != TERN_PARCEL_SEGMENT_WRITE || file.kind != TERN_PARCEL_MODEL_FILE ||
        pread(file.fd, order, sizeof order - 1, 0) < 0)
        return 30;
    const struct tern_segment catalog = map(&parcel, true);
    misbehave(order, "parse");
    memcpy(catalog.data, "the catalog", 12);
    tell(TERN_MSG_CATALOG, 0, 0, NULL);
    misbehave(order, "open");

    const struct tern_parcel weights = receive();
    const struct tern_segment segment = map(&weights, true);
    receive(); /* FILL */
    tell(TERN_MSG_PROGRESS, segment.size / 2, segment.size, NULL);
    misbehave(order, "fill");
    memset(segment.data, 0x5a, segment.size);
    tell(TERN_MSG_PROGRESS, segment.size, segment.size, NULL);
    tell(TERN_MSG_FILLED, 0, 0, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    die_with_parent();
    return strstr(argv[0], "tern-loader") != NULL ? run_loader() : run_cpu();
}
