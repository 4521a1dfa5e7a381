/* Drives an executor as the coordinator does. */
#include "cpu_fixture.h"

#include "proto/wait.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAIT_MS = 20000 };

static struct tern_error error;

static void map_twice(enum tern_segment_kind kind, uint64_t id, uint64_t size,
                      struct tern_segment *writer, struct tern_segment *reader)
{
    int fd;
    assert_int_equal(tern_segment_create(kind, id, size, &fd, &error), TERN_OK);
    const int read_only = tern_segment_reader(fd);
    assert_int_equal(tern_segment_map(fd, kind, id, true, false, writer, &error), TERN_OK);
    assert_int_equal(tern_segment_map(read_only, kind, id, false, false, reader, &error), TERN_OK);
    close(read_only);
    close(fd);
}

static void *run(void *context)
{
    struct driver *driver = context;
    tern_pool_pin_caller(driver->pool);
    driver->exit = tern_executor_run(driver->executor);
    return NULL;
}

void driver_start(struct driver *driver, uint32_t cores)
{
    *driver = (struct driver){.event = eventfd(0, EFD_CLOEXEC)};
    map_twice(TERN_SEGMENT_BOARD, 1, sizeof(struct tern_coordinator_board),
              &driver->coordinator_writer, &driver->coordinator_reader);
    map_twice(TERN_SEGMENT_BOARD, 2, sizeof(struct tern_worker_board), &driver->board_writer,
              &driver->board_reader);
    driver->coordinator = (void *)driver->coordinator_writer.data;
    driver->board = (const void *)driver->board_reader.data;
    struct tern_cores found;
    tern_cores_find(NULL, &found);
    found.usable = cores;
    driver->pool = tern_pool_new(&found);
    const struct tern_executor_setup setup = {
        .coordinator = (const void *)driver->coordinator_reader.data,
        .board = (void *)driver->board_writer.data,
        .event = driver->event,
        .incarnation = DRIVER_INCARNATION,
        .pool = driver->pool,
        .serial_work = 0,
    };
    driver->executor = tern_executor_new(&setup);
    assert_non_null(driver->executor);
    assert_int_equal(pthread_create(&driver->thread, NULL, run, driver), 0);
}

void driver_join(struct driver *driver)
{
    if (!driver->joined)
        pthread_join(driver->thread, NULL);
    driver->joined = true;
}

void driver_stop(struct driver *driver)
{
    tern_executor_stop(driver->executor);
    tern_ring(&driver->coordinator->bell);
    driver_join(driver);
    tern_executor_free(driver->executor);
    tern_pool_free(driver->pool);
    tern_segment_unmap(&driver->coordinator_writer);
    tern_segment_unmap(&driver->coordinator_reader);
    tern_segment_unmap(&driver->board_writer);
    tern_segment_unmap(&driver->board_reader);
    close(driver->event);
}

struct tern_program *driver_bind(struct driver *driver, const struct model *model, uint32_t plan,
                                 uint32_t threads)
{
    struct tern_program *program;
    const enum tern_status status =
        tern_bind(plan, &model->segments, tern_kernels(TERN_SCALAR), threads, &program, &error);
    if (status != TERN_OK)
        fail_msg("%s", error.message);
    assert_int_equal(tern_pool_grow(driver->pool, threads, &error), TERN_OK);
    assert_int_equal(tern_executor_add(driver->executor, program, &error), TERN_OK);
    driver->stages = model->plan->stages;
    return program;
}

void driver_release(struct driver *driver, struct tern_program *program)
{
    tern_executor_remove(driver->executor, program);
    tern_program_free(program);
}

void driver_pages(struct driver *driver, uint32_t sequence, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        driver->coordinator->page_table[sequence][i] = first + i;
}

void step_row(struct tern_step *step, uint32_t token, uint32_t position, uint32_t sequence,
              uint32_t flags)
{
    step->row[step->rows++] = (struct tern_row){
        .token = token,
        .position = position,
        .sequence = (uint16_t)sequence,
        .flags = (uint16_t)flags,
    };
    step->outputs += flags & TERN_ROW_LOGITS ? 1 : 0;
}

uint64_t driver_issue(struct driver *driver, const struct tern_step *step)
{
    struct tern_coordinator_board *board = driver->coordinator;
    const uint64_t number = ++driver->issued;
    struct tern_step *slot = &board->ring[number % TERN_STEP_RING];
    *slot = *step;
    slot->number = number;
    slot->epoch = atomic_load(&board->epoch);
    if (step->grant > 0)
        atomic_store(&board->run_limit, number + step->grant);
    atomic_store(&board->issued, number);
    tern_ring(&board->bell);
    return number;
}

const struct tern_step_result *driver_wait(struct driver *driver, uint64_t number)
{
    const uint64_t until = tern_now_ns() + WAIT_MS * 1000000ull;
    while (tern_now_ns() < until) {
        const uint64_t done = atomic_load_explicit(&driver->board->done, memory_order_acquire);
        const uint32_t step = tern_word_step(done);
        if (step > number || (step == number && tern_word_index(done) == driver->stages)) {
            assert_int_equal(tern_word_incarnation(done), DRIVER_INCARNATION);
            return &driver->board->result[number % TERN_STEP_RING];
        }
        struct pollfd event = {.fd = driver->event, .events = POLLIN};
        uint64_t count;
        if (poll(&event, 1, 1000) > 0)
            assert_int_equal(read(driver->event, &count, sizeof count), sizeof count);
    }
    fail_msg("step %llu was not done in time", (unsigned long long)number);
    return NULL;
}
