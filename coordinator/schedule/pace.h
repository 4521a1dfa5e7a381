/*
 * How long a lane's steps take, learned from those that it ran: a time per row, and one per
 * position that a row attends to (so that the far end of a long prompt is not taken for its
 * beginning).
 */
#ifndef TERN_PACE_H
#define TERN_PACE_H

#include <stdint.h>

struct tern_pace {
    double rows_rows, rows_attended, attended_attended; /* fading sums of the steps so far */
    double rows_ns, attended_ns;
    double small_ns; /* a step of few rows, 0: none was seen */
    uint32_t rows;   /* of the newest step that counted, 0: none */
};

/* A step of `rows` rows, attending to `attended` positions in all, took the worker `ns` (0: not
 * known). */
void tern_pace_measure(struct tern_pace *pace, uint32_t rows, uint64_t attended, uint64_t ns);

/* Rows at positions from `position` on that a step can have in the time that it should last, 1 to
 * `most`. `sharing`: lanes that take turns while somebody in one of them waits for a token, so that
 * it should last less long; 0: nobody waits. */
uint32_t tern_pace_rows(const struct tern_pace *pace, uint32_t position, uint32_t sharing,
                        uint32_t most);

#endif
