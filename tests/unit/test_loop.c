/* coordinator/loop: descriptors, ZeroMQ sockets, timers, and changes from inside callbacks. */
#include "coordinator/loop.h"
#include "proto/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

struct probe {
    struct tern_loop *loop;
    void *socket;
    int fd, watch, other, calls;
};

static void stop(void *context)
{
    tern_loop_stop(context);
}

static char order[16];
static size_t order_length;

static void note_a(void *context)
{
    (void)context;
    order[order_length++] = 'a';
}

static void note_b(void *context)
{
    (void)context;
    order[order_length++] = 'b';
}

static void timers_fire_in_order_of_time(void **state)
{
    (void)state;
    struct tern_loop *loop = tern_loop_new();
    const uint64_t now = tern_now_ns();
    order_length = 0;
    tern_loop_timer(loop, now + 20000000, stop, loop);
    tern_loop_timer(loop, now + 8000000, note_b, NULL);
    tern_loop_timer(loop, now + 2000000, note_a, NULL);
    const int cancelled = tern_loop_timer(loop, now + 5000000, note_b, NULL);
    tern_loop_cancel(loop, cancelled);
    tern_loop_cancel(loop, cancelled);
    tern_loop_cancel(loop, 0);
    assert_true(tern_loop_run(loop));
    assert_true(tern_now_ns() >= now + 20000000);
    assert_int_equal(order_length, 2);
    assert_memory_equal(order, "ab", 2);
    tern_loop_free(loop);
}

static void read_one(void *context)
{
    struct probe *p = context;
    char byte;
    assert_int_equal(read(p->fd, &byte, 1), 1);
    if (++p->calls == 3)
        tern_loop_stop(p->loop);
}

static void a_descriptor_is_reported_while_it_has_input(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct tern_loop *loop = tern_loop_new();
    struct probe p = {.loop = loop, .fd = ends[0]};
    assert_true(tern_loop_watch_fd(loop, ends[0], read_one, &p) > 0);
    assert_int_equal(write(ends[1], "xyz", 3), 3);
    tern_loop_run(loop);
    assert_int_equal(p.calls, 3);
    close(ends[0]);
    close(ends[1]);
    tern_loop_free(loop);
}

static void note_hangup(void *context)
{
    struct probe *p = context;
    p->calls++;
    tern_loop_stop(p->loop);
}

static void a_hangup_is_reported(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct tern_loop *loop = tern_loop_new();
    struct probe p = {.loop = loop};
    tern_loop_watch_fd(loop, ends[0], note_hangup, &p);
    close(ends[1]);
    tern_loop_run(loop);
    assert_int_equal(p.calls, 1);
    close(ends[0]);
    tern_loop_free(loop);
}

/* Two descriptors are ready; whichever comes first removes the other. */
static void remove_other(void *context)
{
    struct probe *p = context;
    p->calls++;
    tern_loop_unwatch(p->loop, p->other);
    tern_loop_unwatch(p->loop, p->watch);
    tern_loop_timer(p->loop, tern_now_ns() + 3000000, stop, p->loop);
}

static void a_removed_watch_is_never_called(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    struct tern_loop *loop = tern_loop_new();
    struct probe a = {.loop = loop}, b = {.loop = loop};
    a.watch = b.other = tern_loop_watch_fd(loop, ends[0], remove_other, &a);
    b.watch = a.other = tern_loop_watch_fd(loop, ends[0], remove_other, &b);
    tern_loop_run(loop);
    assert_int_equal(a.calls + b.calls, 1);
    close(ends[0]);
    close(ends[1]);
    tern_loop_free(loop);
}

static void again(void *context)
{
    struct probe *p = context;
    p->calls++;
    tern_loop_timer(p->loop, 0, again, p);
}

static void a_timer_that_repeats_does_not_starve_descriptors(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    struct tern_loop *loop = tern_loop_new();
    struct probe busy = {.loop = loop}, p = {.loop = loop, .fd = ends[0], .calls = 2};
    tern_loop_timer(loop, 0, again, &busy);
    tern_loop_watch_fd(loop, ends[0], read_one, &p);
    tern_loop_run(loop);
    assert_int_equal(p.calls, 3);
    close(ends[0]);
    close(ends[1]);
    tern_loop_free(loop);
}

static void take_message(void *context)
{
    struct probe *p = context;
    char text[8];
    p->calls++;
    assert_int_equal(zmq_recv(p->socket, text, sizeof text, ZMQ_DONTWAIT), 2);
    if (p->calls == 2)
        tern_loop_stop(p->loop);
}

static void a_socket_is_reported_while_it_has_messages(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    void *in = zmq_socket(context, ZMQ_PAIR), *out = zmq_socket(context, ZMQ_PAIR);
    assert_int_equal(zmq_bind(in, "inproc://loop"), 0);
    assert_int_equal(zmq_connect(out, "inproc://loop"), 0);
    struct tern_loop *loop = tern_loop_new();
    struct probe p = {.loop = loop, .socket = in};
    tern_loop_watch_socket(loop, in, take_message, &p);
    zmq_send(out, "ab", 2, 0);
    zmq_send(out, "cd", 2, 0);
    tern_loop_run(loop);
    assert_int_equal(p.calls, 2);
    zmq_close(in);
    zmq_close(out);
    zmq_ctx_term(context);
    tern_loop_free(loop);
}

static void a_loop_that_cannot_poll_says_so(void **state)
{
    (void)state;
    void *context = zmq_ctx_new();
    void *in = zmq_socket(context, ZMQ_PAIR);
    struct tern_loop *loop = tern_loop_new();
    struct probe p = {.loop = loop, .socket = in};
    tern_loop_watch_socket(loop, in, take_message, &p);
    assert_int_equal(zmq_ctx_shutdown(context), 0);
    assert_false(tern_loop_run(loop));
    assert_int_equal(p.calls, 0);
    zmq_close(in);
    zmq_ctx_term(context);
    tern_loop_free(loop);
}

static void waiting_uses_no_cpu(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct tern_loop *loop = tern_loop_new();
    struct probe p = {.loop = loop};
    struct rusage before, after;
    tern_loop_watch_fd(loop, ends[0], note_hangup, &p);
    tern_loop_timer(loop, tern_now_ns() + 200000000, stop, loop);
    getrusage(RUSAGE_SELF, &before);
    tern_loop_run(loop);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_nvcsw - before.ru_nvcsw < 10);
    close(ends[0]);
    close(ends[1]);
    tern_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_of_time),
        cmocka_unit_test(a_descriptor_is_reported_while_it_has_input),
        cmocka_unit_test(a_hangup_is_reported),
        cmocka_unit_test(a_removed_watch_is_never_called),
        cmocka_unit_test(a_timer_that_repeats_does_not_starve_descriptors),
        cmocka_unit_test(a_socket_is_reported_while_it_has_messages),
        cmocka_unit_test(a_loop_that_cannot_poll_says_so),
        cmocka_unit_test(waiting_uses_no_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
