/*
 * What was computed: tokens of prompts and decoded ones, in all and in the last seconds. Kept for
 * the scheduler and for each lane; a few additions a step.
 */
#ifndef TERN_FIGURES_H
#define TERN_FIGURES_H

#include <stdint.h>

enum {
    TERN_FIGURES_SLOTS = 10,
    TERN_FIGURES_SLOT_NS = 500 * 1000 * 1000, /* the last seconds are the last five */
};

struct tern_count {
    uint64_t prompt, decode; /* tokens */
};

struct tern_figures {
    struct tern_count all;
    uint64_t prompt_ns, decode_ns; /* time of the steps, shared by their rows */
    uint64_t steps;

    uint64_t slot_number[TERN_FIGURES_SLOTS]; /* time / TERN_FIGURES_SLOT_NS that the slot counts */
    struct tern_count slot[TERN_FIGURES_SLOTS];
    uint64_t active_ns; /* since when no five seconds went by without a step */
    uint64_t newest_ns;
};

/* Tokens a second. */
struct tern_rates {
    double prompt, decode;
};

/* A step of so many rows ended at `now` (tern_now_ns) after `spent` nanoseconds. */
void tern_figures_add(struct tern_figures *figures, struct tern_count rows, uint64_t spent,
                      uint64_t now);

/* By the clock, over the last five seconds or since work began if that is less; 0 when idle. */
struct tern_rates tern_figures_recent(const struct tern_figures *figures, uint64_t now);
/* In all, by the time that was spent computing. */
struct tern_rates tern_figures_all(const struct tern_figures *figures);

#endif
