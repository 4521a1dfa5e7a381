/*
 * Boards: one small shared segment per process, written by that process alone and read by all.
 *
 * The coordinator's board holds the step ring and the page tables. A *step* is one pass of the
 * model over a batch of rows (decode rows of several sessions, chunks of prompts). The coordinator
 * writes a step, then `issued`, then rings its doorbell; the compute worker runs it, writes its
 * results on its own board, then its done word, then writes the eventfd that wakes the coordinator.
 *
 * A worker's board belongs to one incarnation (one start of the process); the next start gets a
 * fresh board. Everyone ignores words that carry another incarnation. The coordinator checks the
 * range of every number it reads from a worker's board.
 *
 * Each writer's words that others poll have cache lines of their own.
 */
#ifndef TERN_PROTO_BOARD_H
#define TERN_PROTO_BOARD_H

#include "proto/tier.h"
#include "proto/wait.h"
#include <stdalign.h>
#include <stddef.h>

enum {
    TERN_MAX_ROWS = 1024,    /* rows of a step: the largest --batch */
    TERN_MAX_THREADS = 512,  /* of a plan: the largest --threads */
    TERN_MAX_SEQUENCES = 64, /* sessions with pages at one time, over all models */
    TERN_MAX_CONTEXT = 1 << 20 /* positions */,
    TERN_PAGE_POSITIONS = 64, /* positions of a KV page; a block of attention is 4 pages */
    TERN_MAX_PAGES = TERN_MAX_CONTEXT / TERN_PAGE_POSITIONS, /* of one sequence */
    TERN_STEP_RING = 4,   /* steps that may be issued and not yet accepted, must be 2^n */
    TERN_MAX_STAGES = 64, /* of a plan */
    TERN_MAX_END_TOKENS = 16,
    TERN_GRANT_RING = 64, /* run-ahead tokens that may be published and not yet taken, 2^n */
};

enum tern_row_flags {
    TERN_ROW_LOGITS = 1, /* this row is an output row: the head computes its logits */
    TERN_ROW_ARGMAX = 2, /* with TERN_ROW_LOGITS: the worker also finds the first largest logit */
};

struct tern_row {
    uint32_t token;
    uint32_t position; /* in its sequence, from 0 */
    uint16_t sequence; /* index into the page tables, < TERN_MAX_SEQUENCES */
    uint16_t flags;
};

/* Rows of one sequence are neighbours in increasing position. Output rows keep the order of rows:
 * the i-th row with TERN_ROW_LOGITS is output i. Every page that holds a position up to the
 * largest of the step is in the sequence's page table when the step is issued. */
struct tern_step {
    uint64_t number; /* 1, 2, 3, ...; slot = number % TERN_STEP_RING */
    uint32_t epoch;
    uint32_t plan; /* which bound plan (a loaded model) */
    uint32_t rows, outputs;
    /* Run-ahead: after this step (of a single greedy row) the worker may run up to `grant` further
     * decode steps of its own, numbers number + 1 ... number + grant, each feeding the token it
     * found at the next position. It stops after an end token and when number > the board's
     * run_limit. Pages for all positions are in the table beforehand, and the rows of the RoPE
     * tables are filled. At most TERN_GRANT_RING; > 0 only if the step has one output row, its last
     * row, with TERN_ROW_ARGMAX, and all rows are of one sequence. */
    uint32_t grant;
    uint32_t end_tokens;
    uint32_t end_token[TERN_MAX_END_TOKENS];
    struct tern_row row[TERN_MAX_ROWS];
};

struct tern_coordinator_board {
    alignas(64) tern_doorbell bell;         /* rung when a step is issued or the epoch rises */
    alignas(64) _Atomic uint64_t issued;    /* number of the newest step issued, 0 = none */
    alignas(64) _Atomic uint32_t epoch;     /* raised after a worker's death */
    alignas(64) _Atomic uint64_t run_limit; /* no run-ahead step with a larger number may begin */
    alignas(64) struct tern_step ring[TERN_STEP_RING];
    /* page_table[sequence][position / TERN_PAGE_POSITIONS] = page number in the KV segment. */
    uint32_t page_table[TERN_MAX_SEQUENCES][TERN_MAX_PAGES];
};

/* A done or progress word: incarnation 16 | step 32 | stage or instruction 16, one atomic. */
static inline uint64_t tern_word(uint32_t incarnation, uint64_t step, uint32_t index)
{
    return (uint64_t)(incarnation & 0xffff) << 48 | (step & 0xffffffff) << 16 | (index & 0xffff);
}
static inline uint32_t tern_word_incarnation(uint64_t word)
{
    return (uint32_t)(word >> 48);
}
static inline uint32_t tern_word_step(uint64_t word)
{
    return (uint32_t)(word >> 16);
}
static inline uint32_t tern_word_index(uint64_t word)
{
    return (uint32_t)(word & 0xffff);
}

/* Why a row failed; 0 in a row's fault word means it did not. kind 8 | sub-operation 8 |
 * instruction 16. The instruction's index in the plan names layer and operation. */
enum tern_fault_kind {
    TERN_FAULT_NONE = 0,
    TERN_FAULT_NOT_FINITE = 1,  /* a value, a norm's sum of squares or a score is NaN or infinite */
    TERN_FAULT_KV_OVERFLOW = 2, /* a key or value does not fit the f16 cache: --kv f32 */
};
static inline uint32_t tern_fault(enum tern_fault_kind kind, uint32_t instruction)
{
    return (uint32_t)kind << 24 | (instruction & 0xffff);
}

/* Results of a step, valid once the done word of its last stage is published. */
struct tern_step_result {
    uint64_t began_ns, ended_ns;    /* the worker's time in the step */
    uint32_t fault[TERN_MAX_ROWS];  /* per row, see tern_fault_kind */
    uint32_t argmax[TERN_MAX_ROWS]; /* per output with TERN_ROW_ARGMAX */
};

/* One token found by a run-ahead step. */
struct tern_granted_token {
    uint64_t step;
    uint32_t token, fault;
    uint64_t began_ns, ended_ns; /* the worker's time in the step */
};

struct tern_worker_board {
    alignas(64) _Atomic uint64_t progress; /* last finished instruction + 1, 0 = begun */
    alignas(64) _Atomic uint64_t done;     /* newest finished stage + 1 of the newest step */
    /* Number of the newest step begun, run-ahead too. A worker stores it, then reads run_limit
     * (both sequentially consistent), and takes it back (number - 1) if the step may not begin;
     * else it stores `progress` with index 0 of that step. So whoever lowers run_limit and then
     * reads a larger `begun` knows within microseconds which of the two it was. */
    alignas(64) _Atomic uint64_t begun;
    alignas(64) _Atomic uint64_t calls[TERN_TIERS]; /* kernel calls by tier since the start */
    alignas(64) struct tern_step_result result[TERN_STEP_RING]; /* slot = number % ring */
    struct tern_granted_token granted[TERN_GRANT_RING];         /* slot = number % ring */
};

#endif
