/* See pace.h: least squares over two quantities, old steps fading. */
#include "coordinator/schedule/pace.h"

enum {
    FIRST_ROWS = 32, /* of a lane that was never measured */
    LEAST_ROWS = 8, /* below this a step's time is that of reading the weights, whatever its rows */
    GROWTH = 4,     /* a step has at most this many times the rows that were measured */
    MEASURED_ROWS = 8, /* steps with fewer say nothing about the time of a prompt's row */
};
static const double STEP_NS = 250e6;   /* how long a step should take at most */
static const double SHARED_NS = 125e6; /* of all lanes in turn, beside their tokens alone */
static const double FADE = 0.8;

void tern_pace_measure(struct tern_pace *pace, uint32_t rows, uint64_t attended, uint64_t ns)
{
    const double r = rows, a = (double)attended, t = (double)ns;
    if (rows == 0 || ns == 0)
        return;
    if (rows < MEASURED_ROWS) {
        pace->small_ns = pace->small_ns == 0 ? t : 0.75 * pace->small_ns + 0.25 * t;
        return;
    }
    pace->rows_rows = FADE * pace->rows_rows + r * r;
    pace->rows_attended = FADE * pace->rows_attended + r * a;
    pace->attended_attended = FADE * pace->attended_attended + a * a;
    pace->rows_ns = FADE * pace->rows_ns + r * t;
    pace->attended_ns = FADE * pace->attended_ns + a * t;
    pace->rows = rows;
}

/* Time of a row at this position. Steps that were all alike tell the two times not apart, and noise
 * can make one negative: then all of it is laid to the rows (or the positions). */
static double row_ns(const struct tern_pace *pace, double position)
{
    const double determinant =
        pace->rows_rows * pace->attended_attended - pace->rows_attended * pace->rows_attended;
    const double mean = pace->rows_ns / pace->rows_rows;
    if (determinant < 1e-3 * pace->rows_rows * pace->attended_attended)
        return mean;
    const double each =
        (pace->rows_ns * pace->attended_attended - pace->attended_ns * pace->rows_attended) /
        determinant;
    const double slope =
        (pace->attended_ns * pace->rows_rows - pace->rows_ns * pace->rows_attended) / determinant;
    if (slope <= 0)
        return mean;
    if (each <= 0)
        return position * pace->attended_ns / pace->attended_attended;
    return each + slope * position;
}

uint32_t tern_pace_rows(const struct tern_pace *pace, uint32_t position, uint32_t sharing,
                        uint32_t most)
{
    const double share = sharing > 0 ? SHARED_NS / sharing : STEP_NS;
    const double target = sharing > 0 ? share + pace->small_ns : share;
    const uint32_t least = sharing > 0 && pace->small_ns > share ? 1 : LEAST_ROWS;
    double rows = sharing > 0 ? LEAST_ROWS : FIRST_ROWS;
    if (pace->rows != 0) {
        const double growth = (double)pace->rows * GROWTH, each = row_ns(pace, position);
        rows = each > 0 && target / each < growth ? target / each : growth;
        if (rows < least)
            rows = least;
    }
    return rows < most ? (uint32_t)rows : most;
}
