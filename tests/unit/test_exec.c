/* workers/compute-cpu/exec: small plans run in this process give, to the bit, what evaluating the
 * model one operation after the other gives, however work is split; faults stay in their rows. */
#include "cpu_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROMPT = 75, BOTH = TERN_ROW_LOGITS | TERN_ROW_ARGMAX };

static const struct model_options plain = {
    .type = TERN_Q8_0, .precision = TERN_FAST, .kv = TERN_KV_F16};

static uint32_t prompt_token(uint32_t i)
{
    return (i * 37 + 11) % MODEL_VOCABULARY;
}

static void fill_prompt(uint32_t *tokens)
{
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = prompt_token(i);
}

static uint32_t first_largest(const float *x)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < MODEL_VOCABULARY; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* Runs the prompt in chunks, all rows output rows, and compares every logit. */
static void compare_prompt(struct driver *driver, const struct model *model, uint32_t plan,
                           uint32_t chunk, const float *expected)
{
    for (uint32_t begin = 0; begin < PROMPT; begin += chunk) {
        struct tern_step step = {.plan = plan};
        for (uint32_t p = begin; p < PROMPT && p < begin + chunk; p++)
            step_row(&step, prompt_token(p), p, 5, BOTH);
        const struct tern_step_result *result = driver_wait(driver, driver_issue(driver, &step));
        for (uint32_t i = 0; i < step.rows; i++) {
            const float *logits = expected + (begin + i) * MODEL_VOCABULARY;
            assert_int_equal(result->fault[i], 0);
            assert_memory_equal(model_logits(model, i), logits, MODEL_VOCABULARY * sizeof(float));
            assert_int_equal(result->argmax[i], first_largest(logits));
        }
    }
}

static void check_model(const struct model_options *options)
{
    static float expected[PROMPT * MODEL_VOCABULARY];
    static const uint32_t chunks[] = {1, 7, 48};
    uint32_t tokens[PROMPT];
    struct driver driver;
    struct model model;
    fill_prompt(tokens);
    driver_start(&driver, 2);
    driver_pages(&driver, 5, 3, MODEL_CONTEXT / TERN_PAGE_POSITIONS);
    for (int fused = 0; fused < 2; fused++) {
        struct model_options chosen = *options;
        chosen.fused = fused != 0;
        model_make(&model, &chosen);
        model_evaluate(&model, tokens, PROMPT, expected);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            struct tern_program *program = driver_bind(&driver, &model, threads, threads);
            compare_prompt(&driver, &model, threads, chunks[threads - 1], expected);
            driver_release(&driver, program);
        }
        model_free(&model);
    }
    driver_stop(&driver);
}

static void float_weights(void **state)
{
    (void)state;
    check_model(&(struct model_options){.type = TERN_F32, .kv = TERN_KV_F32, .head_norms = true});
}

static void quantized_weights_fast(void **state)
{
    (void)state;
    check_model(&(struct model_options){
        .type = TERN_Q8_0, .precision = TERN_FAST, .kv = TERN_KV_F16, .biases = true});
}

static void quantized_weights_high_in_two_stages(void **state)
{
    (void)state;
    check_model(&(struct model_options){.type = TERN_Q8_0,
                                        .precision = TERN_HIGH,
                                        .kv = TERN_KV_F32,
                                        .head_norms = true,
                                        .window = 20,
                                        .two_stages = true});
}

/* ---- several sequences ---- */

static void sequences_share_a_step(void **state)
{
    (void)state;
    static float expected[PROMPT * MODEL_VOCABULARY];
    uint32_t tokens[PROMPT];
    struct driver driver;
    struct model model;
    struct model_options options = plain;
    options.fused = true;
    fill_prompt(tokens);
    driver_start(&driver, 2);
    model_make(&model, &options);
    model_evaluate(&model, tokens, 20, expected);
    struct tern_program *program = driver_bind(&driver, &model, 1, 2);
    driver_pages(&driver, 0, 0, 2);
    driver_pages(&driver, 9, 4, 2);
    driver_pages(&driver, 63, 8, 2);
    for (uint32_t p = 0; p < 20; p++) {
        struct tern_step step = {.plan = 1};
        step_row(&step, tokens[p], p, 9, p % 2 ? BOTH : 0);
        step_row(&step, tokens[p], p, 63, BOTH);
        step_row(&step, (p * 5) % MODEL_VOCABULARY, p, 0, TERN_ROW_LOGITS);
        driver_wait(&driver, driver_issue(&driver, &step));
        const float *logits = expected + p * MODEL_VOCABULARY;
        for (uint32_t i = 0; i < 1 + p % 2; i++)
            assert_memory_equal(model_logits(&model, i), logits, MODEL_VOCABULARY * sizeof(float));
    }
    driver_release(&driver, program);
    driver_stop(&driver);
    model_free(&model);
}

static void plans_take_turns(void **state)
{
    (void)state;
    static float expected[2][PROMPT * MODEL_VOCABULARY];
    uint32_t tokens[PROMPT];
    struct driver driver;
    struct model model[2];
    struct tern_program *program[2];
    fill_prompt(tokens);
    driver_start(&driver, 2);
    for (uint32_t i = 0; i < 2; i++) {
        struct model_options options = plain;
        options.fused = i == 0;
        options.type = i == 0 ? TERN_Q8_0 : TERN_F32;
        model_make(&model[i], &options);
        model_evaluate(&model[i], tokens, 30, expected[i]);
        program[i] = driver_bind(&driver, &model[i], 40 + i, 1 + 2 * i);
        driver_pages(&driver, i, 0, 2);
    }
    for (uint32_t p = 0; p < 30; p++) {
        uint64_t number = 0;
        for (uint32_t i = 0; i < 2; i++) { /* both in flight at once */
            struct tern_step step = {.plan = 40 + i};
            step_row(&step, tokens[p], p, i, BOTH);
            number = driver_issue(&driver, &step);
        }
        driver_wait(&driver, number);
        for (uint32_t i = 0; i < 2; i++)
            assert_memory_equal(model_logits(&model[i], 0), expected[i] + p * MODEL_VOCABULARY,
                                MODEL_VOCABULARY * sizeof(float));
    }
    struct tern_error error;
    assert_int_equal(tern_executor_add(driver.executor, program[0], &error), TERN_USAGE);
    for (uint32_t i = 0; i < 2; i++) {
        driver_release(&driver, program[i]);
        model_free(&model[i]);
    }
    driver_stop(&driver);
}

/* ---- run-ahead ---- */

/* The greedy path of `count` tokens after the prompt. */
static void greedy_path(const struct model *model, uint32_t prompt, uint32_t count, uint32_t *path)
{
    static float logits[PROMPT * MODEL_VOCABULARY];
    uint32_t tokens[PROMPT];
    fill_prompt(tokens);
    for (uint32_t i = 0; i < count; i++) {
        model_evaluate(model, tokens, prompt + i, logits);
        path[i] = first_largest(logits + (prompt + i - 1) * MODEL_VOCABULARY);
        tokens[prompt + i] = path[i];
    }
}

enum { AHEAD_PROMPT = 10, AHEAD = 30 };

static struct tern_step granting_step(uint32_t grant)
{
    struct tern_step step = {.plan = 7, .grant = grant};
    for (uint32_t p = 0; p < AHEAD_PROMPT; p++)
        step_row(&step, prompt_token(p), p, 2, p + 1 == AHEAD_PROMPT ? BOTH : 0);
    return step;
}

static void check_granted(const struct driver *driver, uint64_t first, const uint32_t *path,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct tern_granted_token *granted =
            &driver->board->granted[(first + i) % TERN_GRANT_RING];
        assert_int_equal(granted->step, first + i);
        assert_int_equal(granted->token, path[i]);
        assert_int_equal(granted->fault, 0);
    }
}

/* Until step `least` has begun, and none has begun or finished for a while: the last one. */
static uint64_t settle(const struct driver *driver, uint64_t least)
{
    uint64_t begun, same = 0;
    do {
        begun = same;
        usleep(50000);
        same = atomic_load(&driver->board->begun);
    } while (begun < least || begun != same ||
             tern_word_step(atomic_load(&driver->board->done)) != (uint32_t)begun);
    return begun;
}

static void run_ahead_follows_the_greedy_path(void **state)
{
    (void)state;
    uint32_t path[AHEAD + 1];
    struct driver driver;
    struct model model;
    driver_start(&driver, 2);
    model_make(&model, &(struct model_options){.type = TERN_F32, .kv = TERN_KV_F16, .fused = true});
    greedy_path(&model, AHEAD_PROMPT, AHEAD + 1, path);
    struct tern_program *program = driver_bind(&driver, &model, 7, 2);
    driver_pages(&driver, 2, 1, 2);

    struct tern_step step = granting_step(AHEAD);
    const uint64_t number = driver_issue(&driver, &step);
    driver_wait(&driver, number + AHEAD);
    assert_int_equal(driver.board->result[number % TERN_STEP_RING].argmax[0], path[0]);
    check_granted(&driver, number + 1, path + 1, AHEAD);
    assert_int_equal(settle(&driver, number), number + AHEAD);

    /* An end token is the last: nothing is begun after it. */
    driver.issued = number + AHEAD;
    step = granting_step(AHEAD);
    step.end_tokens = 2;
    step.end_token[0] = MODEL_VOCABULARY + 5;
    step.end_token[1] = path[4];
    uint32_t steps = 0;
    while (path[steps] != path[4])
        steps++;
    const uint64_t ended = driver_issue(&driver, &step);
    assert_int_equal(settle(&driver, ended), ended + steps);
    check_granted(&driver, ended + 1, path + 1, steps);

    driver_release(&driver, program);
    driver_stop(&driver);
    model_free(&model);
}

static void run_ahead_stops_at_the_limit(void **state)
{
    (void)state;
    struct driver driver;
    struct model model;
    driver_start(&driver, 2);
    model_make(&model, &plain);
    struct tern_program *program = driver_bind(&driver, &model, 7, 1);
    driver_pages(&driver, 2, 1, 2);

    /* A limit below the grant is as far as it goes; begun is taken back. */
    struct tern_step step = granting_step(AHEAD);
    struct tern_coordinator_board *board = driver.coordinator;
    const uint64_t number = ++driver.issued;
    step.number = number;
    board->ring[number % TERN_STEP_RING] = step;
    atomic_store(&board->run_limit, number + 3);
    atomic_store(&board->issued, number);
    tern_ring(&board->bell);
    assert_int_equal(settle(&driver, number), number + 3);

    /* Whatever the moment of revoking: nothing past the limit is begun once it is seen. */
    driver.issued = number + 3;
    for (uint32_t i = 0; i < 30; i++) {
        step = granting_step(AHEAD);
        const uint64_t first = driver_issue(&driver, &step);
        usleep(20 * i);
        const uint64_t begun = atomic_load(&driver.board->begun);
        const uint64_t limit = begun > first ? begun : first;
        atomic_store(&board->run_limit, limit);
        /* A step that is begun afterwards sees the limit; however long this thread was away. */
        const uint64_t newest = atomic_load(&driver.board->begun);
        const uint64_t last = settle(&driver, limit);
        assert_true(last >= limit && last <= (newest > limit ? newest : limit));
        driver.issued = last;
    }
    driver_release(&driver, program);
    driver_stop(&driver);
    model_free(&model);
}

/* ---- faults ---- */

static float *matrix_row(const struct model *model, const struct tern_weight *weight, uint32_t row)
{
    return (float *)(void *)(model->segments.weights.data + weight->offset) +
           (size_t)row * weight->columns;
}

static void faults_stay_in_their_rows(void **state)
{
    (void)state;
    static float expected[PROMPT * MODEL_VOCABULARY];
    uint32_t tokens[PROMPT];
    struct driver driver;
    struct model model;
    fill_prompt(tokens);
    driver_start(&driver, 2);
    driver_pages(&driver, 0, 0, 2);
    driver_pages(&driver, 1, 4, 2);
    driver_pages(&driver, 2, 8, 2);
    for (uint32_t fused = 0; fused < 2; fused++) {
        model_make(&model, &(struct model_options){
                               .type = TERN_F32, .kv = TERN_KV_F16, .fused = fused != 0});
        matrix_row(&model, &model.embedding, 98)[5] = NAN;
        matrix_row(&model, &model.embedding, 97)[0] = 1e30f; /* its square overflows in the norm */
        model_evaluate(&model, tokens, 1, expected);
        struct tern_program *program = driver_bind(&driver, &model, fused, 2);
        struct tern_step step = {.plan = fused};
        step_row(&step, 98, 0, 0, BOTH);
        step_row(&step, tokens[0], 0, 1, BOTH);
        step_row(&step, 97, 0, 2, BOTH);
        const struct tern_step_result *result = driver_wait(&driver, driver_issue(&driver, &step));
        assert_int_equal(result->fault[0], tern_fault(TERN_FAULT_NOT_FINITE, 0));
        assert_int_equal(result->fault[1], 0);
        assert_int_equal(result->fault[2], tern_fault(TERN_FAULT_NOT_FINITE, 1));
        assert_memory_equal(model_logits(&model, 1), expected, MODEL_VOCABULARY * sizeof(float));
        driver_release(&driver, program);
        model_free(&model);
    }
    driver_stop(&driver);
}

static void a_key_too_large_for_the_cache(void **state)
{
    (void)state;
    struct driver driver;
    struct model model;
    driver_start(&driver, 2);
    for (uint32_t fused = 0; fused < 2; fused++) {
        model_make(&model, &(struct model_options){
                               .type = TERN_F32, .kv = TERN_KV_F16, .fused = fused != 0});
        for (uint32_t i = 0; i < MODEL_WIDTH; i++)
            matrix_row(&model, &model.layer[1].v, 3)[i] = 1e6f;
        struct tern_program *program = driver_bind(&driver, &model, fused, 1);
        const struct tern_instruction *write =
            model_find(&model, fused ? TERN_OP_QKV_ROPE_WRITE : TERN_OP_KV_WRITE);
        uint32_t index = (uint32_t)(write - model.instructions) + 1;
        while (model.instructions[index].op != write->op)
            index++;
        struct tern_step step = {.plan = fused};
        step_row(&step, 1, 0, 0, BOTH);
        const struct tern_step_result *result = driver_wait(&driver, driver_issue(&driver, &step));
        assert_int_equal(result->fault[0], tern_fault(TERN_FAULT_KV_OVERFLOW, index));
        driver_release(&driver, program);
        model_free(&model);
    }
    driver_stop(&driver);
}

static void a_fault_in_the_head_reaches_the_row(void **state)
{
    (void)state;
    struct driver driver;
    struct model model;
    driver_start(&driver, 2);
    driver_pages(&driver, 0, 0, 1);
    model_make(&model, &(struct model_options){.type = TERN_F32, .kv = TERN_KV_F16});
    matrix_row(&model, &model.head, 90)[1] = INFINITY;
    struct tern_program *program = driver_bind(&driver, &model, 0, 2);
    struct tern_step step = {.plan = 0, .grant = 5};
    step_row(&step, 1, 0, 0, 0);
    step_row(&step, 2, 1, 0, BOTH);
    const uint64_t number = driver_issue(&driver, &step);
    const struct tern_step_result *result = driver_wait(&driver, number);
    assert_int_equal(result->fault[0], 0);
    assert_int_equal(result->fault[1],
                     tern_fault(TERN_FAULT_NOT_FINITE, model.plan->instructions - 2));
    assert_int_equal(settle(&driver, number), number); /* and nothing runs ahead from it */
    driver_release(&driver, program);
    driver_stop(&driver);
    model_free(&model);
}

/* ---- the board ---- */

static void words_on_the_board(void **state)
{
    (void)state;
    struct driver driver;
    struct model model;
    driver_start(&driver, 2);
    model_make(&model, &plain);
    struct tern_program *program = driver_bind(&driver, &model, 0, 2);
    struct tern_step step = {.plan = 0};
    step_row(&step, 1, 0, 0, BOTH);
    const uint64_t number = driver_issue(&driver, &step);
    const struct tern_step_result *result = driver_wait(&driver, number);
    assert_true(result->ended_ns > result->began_ns);
    assert_int_equal(atomic_load(&driver.board->begun), number);
    assert_int_equal(atomic_load(&driver.board->done),
                     tern_word(DRIVER_INCARNATION, number, model.plan->stages));
    assert_int_equal(atomic_load(&driver.board->progress),
                     tern_word(DRIVER_INCARNATION, number, model.plan->instructions));
    assert_int_equal(atomic_load(&driver.board->calls[TERN_SCALAR]), model.plan->instructions);
    for (int tier = TERN_SCALAR + 1; tier < TERN_TIERS; tier++)
        assert_int_equal(atomic_load(&driver.board->calls[tier]), 0);
    driver_release(&driver, program);
    driver_stop(&driver);
    assert_int_equal(driver.exit, TERN_WORKER_ENDED);
    model_free(&model);
}

static void steps_of_another_epoch_are_skipped(void **state)
{
    (void)state;
    struct driver driver;
    struct model model;
    driver_start(&driver, 2);
    model_make(&model, &plain);
    struct tern_program *program = driver_bind(&driver, &model, 0, 2);
    struct tern_coordinator_board *board = driver.coordinator;
    struct tern_step step = {.plan = 0};
    step_row(&step, 1, 0, 0, BOTH);
    atomic_store(&board->epoch, 4);
    board->ring[1] = step; /* epoch 0: issued before somebody died */
    board->ring[1].number = 1;
    board->ring[2] = step;
    board->ring[2].number = 2;
    board->ring[2].epoch = 4;
    atomic_store(&board->issued, 2);
    tern_ring(&board->bell);
    driver_wait(&driver, 2);
    assert_int_equal(atomic_load(&driver.board->calls[TERN_SCALAR]), model.plan->instructions);
    driver_release(&driver, program);
    driver_stop(&driver);
    model_free(&model);
}

static void expect_refused(struct tern_step *step)
{
    struct driver driver;
    struct model model;
    driver_start(&driver, 2);
    for (uint32_t sequence = 0; sequence < 2; sequence++)
        driver_pages(&driver, sequence, MODEL_PAGES - 2 * (sequence + 1), 2);
    driver.coordinator->page_table[0][2] = MODEL_PAGES;
    model_make(&model, &plain);
    struct tern_program *program = driver_bind(&driver, &model, 0, 2);
    driver_issue(&driver, step);
    driver_join(&driver);
    assert_int_equal(driver.exit, TERN_WORKER_BAD_INPUT);
    assert_int_equal(atomic_load(&driver.board->begun), 0);
    driver_release(&driver, program);
    driver_stop(&driver);
    model_free(&model);
}

static void steps_that_may_not_be_are_refused(void **state)
{
    (void)state;
    struct tern_step good = {.plan = 0};
    step_row(&good, 1, 0, 0, BOTH);
    const struct tern_row row = good.row[0];
#define REFUSED(...)                                                                               \
    do {                                                                                           \
        struct tern_step step = good;                                                              \
        __VA_ARGS__;                                                                               \
        expect_refused(&step);                                                                     \
    } while (0)
    REFUSED(step.plan = 1);
    REFUSED(step.rows = 0);
    REFUSED(step.rows = MODEL_ROWS + 1);
    REFUSED(step.rows = UINT32_MAX);
    REFUSED(step.outputs = 0);
    REFUSED(step.outputs = 2);
    REFUSED(step.outputs = UINT32_MAX);
    REFUSED(step.row[0].token = MODEL_VOCABULARY);
    REFUSED(step.row[0].position = MODEL_CONTEXT);
    REFUSED(step.row[0].position = 128); /* page 2 of the sequence lies outside the cache */
    REFUSED(step.row[0].sequence = TERN_MAX_SEQUENCES);
    REFUSED(step.row[0].flags = 8);
    REFUSED(step.rows = 2, step.outputs = 2, step.row[1] = row); /* the same position twice */
    REFUSED(step.rows = 3, step.outputs = 3, step.row[1] = row, step.row[1].sequence = 1,
            step.row[2] = row, step.row[2].position = 1); /* a sequence in two parts */
    REFUSED(step.grant = TERN_GRANT_RING + 1);
    REFUSED(step.grant = 1, step.end_tokens = TERN_MAX_END_TOKENS + 1);
    REFUSED(step.grant = 1, step.row[0].flags = TERN_ROW_LOGITS);
    REFUSED(step.grant = 60, step.row[0].position = 100); /* position 128 again */
    REFUSED(step.grant = 1, step.row[0].position = MODEL_CONTEXT - 1);
#undef REFUSED
}

static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void idle_uses_no_processor(void **state)
{
    (void)state;
    struct driver driver;
    struct model model;
    driver_start(&driver, 8);
    model_make(&model, &plain);
    struct tern_program *program = driver_bind(&driver, &model, 0, 3);
    struct tern_step step = {.plan = 0};
    step_row(&step, 1, 0, 0, BOTH);
    driver_wait(&driver, driver_issue(&driver, &step));
    usleep(20000);
    const uint64_t before = cpu_ns();
    usleep(300000);
    assert_true(cpu_ns() - before < 5000000);
    driver_release(&driver, program);
    driver_stop(&driver);
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_weights),
        cmocka_unit_test(quantized_weights_fast),
        cmocka_unit_test(quantized_weights_high_in_two_stages),
        cmocka_unit_test(sequences_share_a_step),
        cmocka_unit_test(plans_take_turns),
        cmocka_unit_test(run_ahead_follows_the_greedy_path),
        cmocka_unit_test(run_ahead_stops_at_the_limit),
        cmocka_unit_test(faults_stay_in_their_rows),
        cmocka_unit_test(a_key_too_large_for_the_cache),
        cmocka_unit_test(a_fault_in_the_head_reaches_the_row),
        cmocka_unit_test(words_on_the_board),
        cmocka_unit_test(steps_of_another_epoch_are_skipped),
        cmocka_unit_test(steps_that_may_not_be_are_refused),
        cmocka_unit_test(idle_uses_no_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
