/*
 * A small hand-built model for the CPU worker's tests: a plan in real segments, fused or not; a
 * naive evaluation of the same model, straight from proto/numerics; and an executor on a thread of
 * its own, driven through boards that are mapped twice, as between two processes.
 */
#ifndef TERN_TEST_CPU_FIXTURE_H
#define TERN_TEST_CPU_FIXTURE_H

#include "workers/compute-cpu/bind.h"
#include "workers/compute-cpu/exec.h"
#include <pthread.h>

enum {
    MODEL_VOCABULARY = 99,
    MODEL_WIDTH = 64,
    MODEL_HEADS = 6,
    MODEL_KV_HEADS = 2,
    MODEL_HEAD_SIZE = 32,
    MODEL_FFN = 160,
    MODEL_LAYERS = 2,
    MODEL_CONTEXT = 512,
    MODEL_ROWS = 48,
    MODEL_PAGES = 40,
};

struct model_options {
    bool fused;
    uint32_t type; /* of the matrices */
    enum tern_precision precision;
    enum tern_kv_type kv;
    bool biases, head_norms;
    uint32_t window;
    bool two_stages;
};

struct layer_weights {
    struct tern_weight attention_norm, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, out;
    struct tern_weight ffn_norm, gate, up, down;
};

struct model {
    struct model_options options;
    struct tern_program_segments segments;
    int fd[5];                             /* of plan, weights, kv, activations, tables */
    struct tern_plan *plan;                /* in the plan segment, writable */
    struct tern_instruction *instructions; /* after it */
    struct tern_weight embedding, final_norm, head;
    struct layer_weights layer[MODEL_LAYERS];
    uint64_t weights_used, activations_used;
    struct tern_operand rope;
};

void model_make(struct model *model, const struct model_options *options);
void model_free(struct model *model);
/* The first instruction with this operation. */
struct tern_instruction *model_find(struct model *model, enum tern_op op);

/* Logits of all positions: out[count][MODEL_VOCABULARY]. */
void model_evaluate(const struct model *model, const uint32_t *tokens, uint32_t count, float *out);

/* An executor at work. */
struct driver {
    struct tern_segment coordinator_writer, coordinator_reader, board_writer, board_reader;
    struct tern_coordinator_board *coordinator;
    const struct tern_worker_board *board;
    struct tern_pool *pool;
    struct tern_executor *executor;
    pthread_t thread;
    bool joined;
    enum tern_worker_exit exit;
    int event;
    uint64_t issued;
    uint32_t stages; /* of the plan bound last: all that are bound at once have as many */
};

enum { DRIVER_INCARNATION = 3 };

/* Spins only as if the machine had `cores` cores. */
void driver_start(struct driver *driver, uint32_t cores);
/* Waits for an executor that ends by itself. */
void driver_join(struct driver *driver);
/* Stops the executor if it still runs, and frees everything. */
void driver_stop(struct driver *driver);
struct tern_program *driver_bind(struct driver *driver, const struct model *model, uint32_t plan,
                                 uint32_t threads);
void driver_release(struct driver *driver, struct tern_program *program);
/* Gives sequence pages `first`, first + 1, ... */
void driver_pages(struct driver *driver, uint32_t sequence, uint32_t first, uint32_t count);
/* Adds a row to the step. */
void step_row(struct tern_step *step, uint32_t token, uint32_t position, uint32_t sequence,
              uint32_t flags);
/* Issues the step; number and epoch are filled in. */
uint64_t driver_issue(struct driver *driver, const struct tern_step *step);
/* Waits until that step is done; fails the test after some seconds. */
const struct tern_step_result *driver_wait(struct driver *driver, uint64_t number);
/* Logits of an output of the last step. */
const float *model_logits(const struct model *model, uint32_t output);

#endif
