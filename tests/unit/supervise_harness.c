#include "tests/unit/supervise_harness.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

size_t count_fds(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void hear(struct harness *h, struct heard heard)
{
    assert_true(h->heard_count < HARNESS_EVENTS);
    struct heard *slot = &h->heard[h->heard_count++];
    *slot = heard;
    if (h->next != NULL && (heard.what == HEARD_DONE || heard.what == HEARD_LOST))
        h->next(h, slot);
    if (h->heard_count >= h->wanted)
        tern_loop_stop(h->loop);
}

static void on_done(void *context, uint64_t step, const struct tern_step_result *result)
{
    hear(context, (struct heard){.what = HEARD_DONE, .step = step, .token = result->argmax[0]});
}

static void on_granted(void *context, uint64_t step, const struct tern_granted_token *granted)
{
    assert_int_equal(granted->fault, 0);
    hear(context, (struct heard){.what = HEARD_GRANTED, .step = step, .token = granted->token});
}

static void on_lost(void *context, uint64_t step, enum tern_death death)
{
    struct harness *h = context;
    assert_true(tern_supervisor_ready(h->supervisor));
    hear(h, (struct heard){.what = HEARD_LOST, .step = step, .death = death});
}

static void on_plan_lost(void *context, uint32_t plan, const struct tern_error *error)
{
    hear(context, (struct heard){.what = HEARD_PLAN_LOST, .step = plan, .error = *error});
}

static void on_bound(void *context, const struct tern_error *error)
{
    const struct answer *answer = context;
    hear(answer->harness,
         (struct heard){.what = HEARD_BOUND, .step = answer->plan, .error = *error});
}

static void make_segment(struct harness *h, enum tern_segment_kind kind, uint64_t size, int *fd,
                         uint64_t *id, uint64_t *bytes)
{
    struct tern_error error;
    *id = tern_supervisor_segment_id(h->supervisor);
    *bytes = size;
    assert_int_equal(tern_segment_create(kind, *id, size, fd, &error), TERN_OK);
}

static void make_binding(struct harness *h)
{
    struct tern_binding *b = &h->binding;
    const struct tern_plan plan = {.version = TERN_PLAN_VERSION, .instructions = 10, .stages = 2};
    make_segment(h, TERN_SEGMENT_PLAN, sizeof plan, &b->plan_fd, &b->plan_id, &b->plan_size);
    make_segment(h, TERN_SEGMENT_WEIGHTS, 8192, &b->weights_fd, &b->weights_id, &b->weights_size);
    make_segment(h, TERN_SEGMENT_TABLES, 100, &b->tables_fd, &b->tables_id, &b->tables_size);
    make_segment(h, TERN_SEGMENT_KV, 8192, &b->kv_fd, &b->kv_id, &b->kv_size);
    make_segment(h, TERN_SEGMENT_ACTIVATIONS, 8192, &b->activations_fd, &b->activations_id,
                 &b->activations_size);
    assert_int_equal(pwrite(b->plan_fd, &plan, sizeof plan, TERN_SEGMENT_DATA), sizeof plan);
    b->tier = TERN_AVX2;
    b->threads = 2;
    b->vocabulary = HARNESS_VOCABULARY;
}

static void link_worker(const struct harness *h, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", h->folder, name);
    assert_int_equal(symlink(getenv("TERN_FAKE_WORKER"), path), 0);
}

int harness_setup(void **state)
{
    struct harness *h = calloc(1, sizeof *h);
    struct tern_error error;
    assert_non_null(h);
    unsetenv("TERN_FAKE");
    h->fds_before = count_fds();
    strcpy(h->folder, "/tmp/tern-test-XXXXXX");
    assert_non_null(mkdtemp(h->folder));
    link_worker(h, "tern-cpu");
    link_worker(h, "tern-loader");
    snprintf(h->control, sizeof h->control, "ipc://%s/workers", h->folder);
    h->loop = tern_loop_new();
    h->zmq = zmq_ctx_new();
    const struct tern_supervisor_events events = {.context = h,
                                                  .step_done = on_done,
                                                  .step_granted = on_granted,
                                                  .step_lost = on_lost,
                                                  .plan_lost = on_plan_lost};
    assert_int_equal(tern_supervisor_new(h->loop, h->zmq, h->control, h->folder, &events,
                                         &h->supervisor, &error),
                     TERN_OK);
    make_binding(h);
    /* Short enough for a test, long enough for a loaded machine. */
    h->supervisor->policy.hang_ns = 500000000u;
    h->supervisor->policy.unknown_ns = 1000000000u;
    h->supervisor->policy.quit_ns = 300000000u;
    *state = h;
    return 0;
}

static void remove_folder(const struct harness *h)
{
    static const char *const names[] = {"tern-cpu", "tern-loader", "workers", "model", "marker"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", h->folder, names[i]);
        unlink(path);
    }
    rmdir(h->folder);
}

int harness_teardown(void **state)
{
    struct harness *h = *state;
    tern_supervisor_free(h->supervisor);
    tern_loop_free(h->loop);
    zmq_ctx_term(h->zmq);
    const struct tern_binding *b = &h->binding;
    const int fds[] = {b->plan_fd, b->weights_fd, b->tables_fd, b->kv_fd, b->activations_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
    remove_folder(h);
    const bool no_child = waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
    const bool no_fd = count_fds() == h->fds_before;
    free(h);
    if (!no_child || !no_fd)
        print_error("left behind: %s%s\n", no_child ? "" : "a process ",
                    no_fd ? "" : "descriptors");
    return no_child && no_fd ? 0 : -1;
}

static void on_timeout(void *context)
{
    struct harness *h = context;
    h->timed_out = true;
    tern_loop_stop(h->loop);
}

void harness_hear(struct harness *h, size_t wanted, int ms)
{
    h->wanted = wanted;
    h->timed_out = false;
    if (h->heard_count >= wanted)
        return;
    const int timer =
        tern_loop_timer(h->loop, tern_now_ns() + (uint64_t)ms * 1000000, on_timeout, h);
    tern_loop_run(h->loop);
    tern_loop_cancel(h->loop, timer);
    if (h->timed_out)
        fail_msg("%zu of %zu events after %d ms", h->heard_count, wanted, ms);
}

void harness_wait(struct harness *h, int ms)
{
    h->wanted = SIZE_MAX;
    h->timed_out = false;
    const int timer =
        tern_loop_timer(h->loop, tern_now_ns() + (uint64_t)ms * 1000000, on_timeout, h);
    tern_loop_run(h->loop);
    tern_loop_cancel(h->loop, timer);
}

void harness_bind(struct harness *h, uint32_t plan)
{
    struct tern_error error;
    struct answer *answer = &h->answer[plan];
    *answer = (struct answer){.harness = h, .plan = plan};
    h->binding.plan = plan;
    assert_int_equal(tern_supervisor_bind(h->supervisor, &h->binding, on_bound, answer, &error),
                     TERN_OK);
}

uint64_t harness_issue(struct harness *h, uint32_t token, uint32_t position, uint32_t grant)
{
    static struct tern_step step;
    step = (struct tern_step){
        .plan = 1, .rows = 1, .outputs = 1, .grant = grant, .end_tokens = 1, .end_token = {500}};
    step.row[0] = (struct tern_row){
        .token = token, .position = position, .flags = TERN_ROW_LOGITS | TERN_ROW_ARGMAX};
    return tern_supervisor_issue(h->supervisor, &step);
}

struct tern_process_info harness_process(const struct harness *h, const char *role)
{
    struct tern_process_info info[8];
    const size_t count = tern_supervisor_processes(h->supervisor, info, 8);
    for (size_t i = 0; i < count && i < 8; i++)
        if (strcmp(info[i].role, role) == 0)
            return info[i];
    return (struct tern_process_info){.role = NULL};
}
