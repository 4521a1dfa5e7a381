/* coordinator/supervise: model files, with a fake loader that dies, hangs and lies. */
#include "tests/unit/supervise_harness.h"

#include "proto/catalog.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 8000 };
static const uint64_t fake_weights = 300000;

struct job {
    struct harness *harness;
    struct tern_loader *loader;
    int weights_fd;
    uint64_t weights_size;
    bool real; /* the real loader and a real file */
    unsigned catalogs, progresses, fills;
    bool fill_at_once, close_at_catalog, failed;
    struct tern_error error;
};

static void fill(struct job *job)
{
    struct tern_error error;
    const uint64_t id = tern_supervisor_segment_id(job->harness->supervisor);
    assert_int_equal(
        tern_segment_create(TERN_SEGMENT_WEIGHTS, id, job->weights_size, &job->weights_fd, &error),
        TERN_OK);
    assert_int_equal(
        tern_loader_fill(job->loader, job->weights_fd, id, job->weights_size, true, &error),
        TERN_OK);
}

static void on_catalog(void *context, const struct tern_segment *catalog)
{
    struct job *job = context;
    job->catalogs++;
    assert_int_equal(catalog->kind, TERN_SEGMENT_CATALOG);
    if (job->real) {
        struct tern_catalog *opened;
        assert_int_equal(tern_catalog_open(catalog, &opened, &job->error), TERN_OK);
        assert_true(tern_catalog_tensors(opened) > 0);
        uint64_t offsets[64];
        assert_in_range(tern_catalog_tensors(opened), 1, 64);
        assert_int_equal(tern_catalog_layout(opened, offsets, &job->weights_size, &job->error),
                         TERN_OK);
        tern_catalog_close(opened);
    } else {
        job->weights_size = fake_weights;
        assert_string_equal(catalog->data, "the catalog");
    }
    if (job->fill_at_once)
        fill(job);
    else
        tern_loop_stop(job->harness->loop);
    if (job->close_at_catalog)
        tern_loader_close(job->loader);
}

static void on_progress(void *context, uint64_t bytes, uint64_t of)
{
    struct job *job = context;
    job->progresses++;
    assert_true(bytes <= of);
    assert_true(job->real || of == fake_weights || of == 2);
}

static void on_filled(void *context)
{
    struct job *job = context;
    job->fills++;
    assert_int_equal(harness_process(job->harness, "loader").pid, 0);
    tern_loop_stop(job->harness->loop);
}

static void on_failed(void *context, const struct tern_error *error)
{
    struct job *job = context;
    assert_false(job->failed);
    job->failed = true;
    job->error = *error;
    tern_loop_stop(job->harness->loop);
}

static const char *write_model(const struct harness *h, const char *order)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/model", h->folder);
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, order, strlen(order)), strlen(order));
    close(fd);
    return path;
}

static void open_path(struct job *job, struct harness *h, const char *path)
{
    struct tern_error error;
    const struct tern_loader_events events = {.context = job,
                                              .catalog = on_catalog,
                                              .progress = on_progress,
                                              .filled = on_filled,
                                              .failed = on_failed};
    job->harness = h;
    job->weights_fd = -1;
    h->supervisor->policy.loader_ns = 400000000u;
    assert_int_equal(tern_loader_open(h->supervisor, path, &events, &job->loader, &error), TERN_OK);
}

static void open_model(struct job *job, struct harness *h, const char *order)
{
    open_path(job, h, write_model(h, order));
}

/* Runs until a callback above stops the loop. */
static void run(struct job *job)
{
    harness_wait(job->harness, PATIENCE_MS);
    if (job->harness->timed_out)
        fail_msg("nothing happened");
}

static void close_job(struct job *job)
{
    tern_loader_close(job->loader);
    if (job->weights_fd >= 0)
        close(job->weights_fd);
}

static void expect_weights(const struct job *job)
{
    uint8_t bytes[2];
    assert_int_equal(pread(job->weights_fd, bytes, 1, TERN_SEGMENT_DATA), 1);
    assert_int_equal(
        pread(job->weights_fd, bytes + 1, 1, TERN_SEGMENT_DATA + (off_t)fake_weights - 1), 1);
    assert_int_equal(bytes[0], 0x5a);
    assert_int_equal(bytes[1], 0x5a);
}

static void a_file_is_opened_and_filled(void **state)
{
    struct job job = {0};
    struct tern_error error;
    open_model(&job, *state, "fine");
    run(&job);
    assert_int_equal(job.catalogs, 1);
    assert_string_equal(harness_process(job.harness, "loader").state, "running");
    fill(&job);
    run(&job);
    assert_int_equal(job.fills, 1);
    assert_int_equal(job.progresses, 2);
    expect_weights(&job);
    assert_int_equal(tern_segment_seal(job.weights_fd, &error), TERN_OK);
    close_job(&job);
    assert_null(harness_process(job.harness, "loader").role);
}

static void an_open_file_can_wait_for_ever(void **state)
{
    struct job job = {0};
    open_model(&job, *state, "fine");
    run(&job);
    harness_wait(job.harness, 900); /* more than twice the deadline of a loader at work */
    assert_false(job.failed);
    fill(&job);
    run(&job);
    assert_int_equal(job.fills, 1);
    close_job(&job);
}

static void a_loader_may_be_closed_at_any_time(void **state)
{
    struct job early = {0}, inside = {.close_at_catalog = true};
    open_model(&early, *state, "fine");
    close_job(&early);
    harness_wait(early.harness, 100);
    assert_int_equal(early.catalogs, 0);
    open_model(&inside, *state, "fine");
    run(&inside);
    harness_wait(inside.harness, 100);
    assert_null(harness_process(inside.harness, "loader").role);
    assert_false(inside.failed);
}

static void a_loader_left_open_ends_with_the_supervisor(void **state)
{
    struct job job = {0};
    open_model(&job, *state, "fine");
    run(&job);
}

static void expect_failure(struct harness *h, const char *order, enum tern_status status,
                           const char *text)
{
    struct job job = {.fill_at_once = true};
    open_model(&job, h, order);
    run(&job);
    assert_true(job.failed);
    if (strstr(job.error.message, text) == NULL)
        fail_msg("\"%s\" in place of \"%s\"", job.error.message, text);
    assert_int_equal(job.error.status, status);
    close_job(&job);
}

static void a_crash_rejects_the_file(void **state)
{
    expect_failure(*state, "crash parse", TERN_BAD_MODEL,
                   "model file rejected: the loader crashed");
    expect_failure(*state, "crash fill", TERN_BAD_MODEL, "model file rejected: the loader crashed");
}

static void the_loader_s_own_reason_is_told(void **state)
{
    expect_failure(*state, "error parse", TERN_UNSUPPORTED, "tensor blk.0 has type XYZ");
    expect_failure(*state, "error fill", TERN_UNSUPPORTED, "tensor blk.0 has type XYZ");
}

static void an_exit_without_a_word_is_told(void **state)
{
    expect_failure(*state, "exit parse", TERN_FAILED, "exited with code 5");
}

static void a_loader_that_breaks_the_protocol_is_ended(void **state)
{
    expect_failure(*state, "garbage parse", TERN_BAD_MODEL, "malformed");
    expect_failure(*state, "twice open", TERN_BAD_MODEL, "twice");
    expect_failure(*state, "repeat parse", TERN_BAD_MODEL, "nobody asked");
}

static void a_hanging_loader_is_ended(void **state)
{
    expect_failure(*state, "stop parse", TERN_FAILED, "no progress");
    expect_failure(*state, "spin fill", TERN_FAILED, "no progress");
    expect_failure(*state, "repeat fill", TERN_FAILED, "no progress");
}

static void a_loader_that_is_killed_twice_fails(void **state)
{
    expect_failure(*state, "kill fill", TERN_FAILED, "killed twice");
}

static void a_killed_loader_starts_again(struct harness *h, const char *when)
{
    struct job job = {.fill_at_once = true};
    char order[200];
    snprintf(order, sizeof order, "kill %s %s/marker", when, h->folder);
    open_model(&job, h, order);
    run(&job);
    assert_false(job.failed);
    assert_int_equal(job.fills, 1);
    assert_int_equal(job.catalogs, 1);
    assert_int_equal(harness_process(h, "loader").restarts, 1);
    expect_weights(&job);
    close_job(&job);
}

static void a_loader_killed_while_parsing_starts_again(void **state)
{
    a_killed_loader_starts_again(*state, "parse");
}

static void a_loader_killed_while_filling_starts_again(void **state)
{
    a_killed_loader_starts_again(*state, "fill");
}

static void a_file_changed_meanwhile_is_not_read_again(void **state)
{
    struct job job = {0};
    open_model(&job, *state, "fine");
    run(&job);
    write_model(job.harness, "other");
    kill(harness_process(job.harness, "loader").pid, SIGKILL);
    run(&job);
    assert_true(job.failed);
    assert_int_equal(job.error.status, TERN_BAD_MODEL);
    close_job(&job);
}

static void use_real_loader(const struct harness *h)
{
    char path[128];
    snprintf(path, sizeof path, "%s/tern-loader", h->folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(getenv("TERN_LOADER"), path), 0);
}

static void the_real_loader_does_as_the_fake_one(void **state)
{
    struct job job = {.real = true};
    struct tern_error error;
    use_real_loader(*state);
    open_path(&job, *state, getenv("TERN_BASE_GGUF"));
    run(&job);
    assert_int_equal(job.catalogs, 1);
    fill(&job);
    run(&job);
    assert_int_equal(job.fills, 1);
    assert_int_equal(tern_segment_seal(job.weights_fd, &error), TERN_OK);
    close_job(&job);
}

static void the_real_loader_refuses_what_is_no_model(void **state)
{
    use_real_loader(*state);
    expect_failure(*state, "no model at all", TERN_BAD_MODEL, "GGUF");
}

static void expect_refusal(struct harness *h, const char *path, enum tern_status status,
                           const char *text)
{
    struct tern_loader *loader;
    struct tern_error error;
    const struct tern_loader_events events = {0};
    assert_int_equal(tern_loader_open(h->supervisor, path, &events, &loader, &error), status);
    assert_null(loader);
    if (strstr(error.message, text) == NULL)
        fail_msg("\"%s\" in place of \"%s\"", error.message, text);
}

static void what_is_no_file_is_refused(void **state)
{
    struct harness *h = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/model", h->folder);
    expect_refusal(h, path, TERN_BAD_MODEL, "No such file");
    expect_refusal(h, "/dev/null", TERN_BAD_MODEL, "device");
    expect_refusal(h, h->folder, TERN_BAD_MODEL, "folder");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(h, path, TERN_BAD_MODEL, "pipe");
    unlink(path);
    expect_refusal(h, write_model(h, ""), TERN_BAD_MODEL, "empty");
    expect_refusal(h, "/x/y-00001-of-00003.gguf", TERN_UNSUPPORTED, "y-00001-of-00003.gguf");
    expect_refusal(h, "/x/-of-00003.gguf", TERN_BAD_MODEL, "No such file");
}

#define WITH_LOADER(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOADER(a_file_is_opened_and_filled),
        WITH_LOADER(an_open_file_can_wait_for_ever),
        WITH_LOADER(a_loader_may_be_closed_at_any_time),
        WITH_LOADER(a_loader_left_open_ends_with_the_supervisor),
        WITH_LOADER(a_crash_rejects_the_file),
        WITH_LOADER(the_loader_s_own_reason_is_told),
        WITH_LOADER(an_exit_without_a_word_is_told),
        WITH_LOADER(a_loader_that_breaks_the_protocol_is_ended),
        WITH_LOADER(a_hanging_loader_is_ended),
        WITH_LOADER(a_loader_that_is_killed_twice_fails),
        WITH_LOADER(a_loader_killed_while_parsing_starts_again),
        WITH_LOADER(a_loader_killed_while_filling_starts_again),
        WITH_LOADER(a_file_changed_meanwhile_is_not_read_again),
        WITH_LOADER(the_real_loader_does_as_the_fake_one),
        WITH_LOADER(the_real_loader_refuses_what_is_no_model),
        WITH_LOADER(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
