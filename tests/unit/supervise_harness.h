/* A supervisor with fake workers in a folder of its own, and a loop that gives up after a time. */
#ifndef TERN_TESTS_SUPERVISE_HARNESS_H
#define TERN_TESTS_SUPERVISE_HARNESS_H

#include "coordinator/supervise/internal.h"
#include "tests/unit/fake_worker.h"

enum { HARNESS_EVENTS = 512, HARNESS_VOCABULARY = 5000 };

/* What the supervisor reported, in order. */
struct heard {
    enum { HEARD_DONE, HEARD_GRANTED, HEARD_LOST, HEARD_BOUND, HEARD_PLAN_LOST } what;
    uint64_t step;
    uint32_t token; /* of the first output */
    enum tern_death death;
    struct tern_error error;
};

struct harness;
struct answer {
    struct harness *harness;
    uint32_t plan;
};

struct harness {
    struct tern_loop *loop;
    void *zmq;
    struct tern_supervisor *supervisor;
    char folder[64], control[128];
    struct tern_binding binding;
    struct answer answer[8]; /* by plan */
    struct heard heard[HARNESS_EVENTS];
    size_t heard_count;
    size_t wanted; /* the loop stops when so many events were heard */
    bool timed_out;
    size_t fds_before;
    /* Called after each step_done or step_lost, to go on from there; may be NULL. */
    void (*next)(struct harness *h, const struct heard *heard);
};

/* cmocka fixtures; *state is a struct harness. TERN_FAKE is unset. */
int harness_setup(void **state);
/* Also checks that no process and no descriptor is left. */
int harness_teardown(void **state);

/* Runs the loop until `wanted` events were heard in all; fails the test after `ms`. */
void harness_hear(struct harness *h, size_t wanted, int ms);
/* Runs the loop for `ms`. */
void harness_wait(struct harness *h, int ms);
/* Binds plan number `plan`; the answer is heard as HEARD_BOUND with step = plan. */
void harness_bind(struct harness *h, uint32_t plan);
/* Issues one greedy row. */
uint64_t harness_issue(struct harness *h, uint32_t token, uint32_t position, uint32_t grant);

size_t count_fds(void);
struct tern_process_info harness_process(const struct harness *h, const char *role);

#endif
