/*
 * Is the worker hung or only slow? Looked at only while it has work: at idle no timer runs.
 *
 * A worker is hung when no instruction finished for its deadline while it was stopped, asleep, or
 * using CPU. One whose threads want a CPU or wait for a disk and got nothing is slow (a quota, a
 * full machine, swapping): its deadline doubles.
 */
#include "coordinator/supervise/internal.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Starting and binding have no instructions to count: a binding populates the map of its weights,
 * at no less than a gigabyte a second. */
static struct patience patience_without_steps(const struct tern_supervisor *s)
{
    const struct plan *plan = s->compute.binding;
    const uint64_t busy = s->policy.unknown_ns + (plan != NULL ? plan->binding.weights_size : 0);
    return (struct patience){
        .stopped_ns = s->policy.hang_ns,
        .asleep_ns = larger(s->policy.hang_ns, s->policy.unknown_ns / 3),
        .busy_ns = busy,
    };
}

/* The usual time of a step of so many rows, guessed from smaller steps (*guessed) if there was
 * none. 0: not known. */
static uint64_t usual_time(const struct plan *plan, uint32_t rows, bool *guessed)
{
    const int class = row_class(rows);
    *guessed = plan->usual_ns[class] == 0;
    for (int i = class; i >= 0; i--)
        if (plan->usual_ns[i] != 0)
            return plan->usual_ns[i] << (class - i);
    return 0;
}

/* A step's usual time stands for its instructions': boards tell when steps began and ended. A step
 * whose usual time is not known may compute for longer, but not stop or sleep. */
static struct patience find_patience(const struct tern_supervisor *s)
{
    const struct compute *c = &s->compute;
    uint32_t rows;
    bool guessed;
    const struct plan *plan = steps_oldest(s, &rows);
    if (plan == NULL || c->bind_pending || c->state == COMPUTE_STARTING)
        return patience_without_steps(s);
    const uint64_t usual = usual_time(plan, rows, &guessed);
    const uint64_t limit = smaller(larger(s->policy.hang_ns, 10 * usual), s->policy.hang_max_ns);
    if (!guessed)
        return (struct patience){.stopped_ns = limit, .asleep_ns = limit, .busy_ns = limit};
    return (struct patience){
        .stopped_ns = s->policy.hang_ns,
        .asleep_ns = s->policy.hang_ns,
        .busy_ns = larger(limit, s->policy.unknown_ns),
    };
}

static bool has_work(const struct compute *c)
{
    return c->flights > 0 || c->bind_pending || c->state == COMPUTE_STARTING;
}

void deadline_progress(struct tern_supervisor *s)
{
    struct deadline *d = &s->compute.deadline;
    d->since_ns = tern_now_ns();
    d->extended_ns = 0;
    d->measured = d->asleep = false;
}

/* Compares the board's words with those of the last look. */
static bool has_moved(struct tern_supervisor *s)
{
    struct deadline *d = &s->compute.deadline;
    const struct tern_worker_board *board = worker_board(s);
    const uint64_t word = atomic_load_explicit(&board->progress, memory_order_relaxed);
    const uint64_t done = atomic_load_explicit(&board->done, memory_order_relaxed);
    const bool moved = word != d->word || done != d->done;
    d->word = word;
    d->done = done;
    return moved;
}

/* Wants a CPU or a disk: hung only if it has had the CPU time, or if even the longest deadline is
 * over. */
static enum judgement judge_busy(const struct stall *stall)
{
    const uint64_t busy_ns = stall->patience.busy_ns;
    if (stall->elapsed_ns < larger(busy_ns, stall->extended_ns))
        return JUDGE_WAIT;
    if (stall->used_ns >= busy_ns / 4 * 3 || stall->elapsed_ns >= larger(busy_ns, stall->most_ns))
        return JUDGE_HUNG;
    return JUDGE_SLOW;
}

enum judgement deadline_judge(const struct stall *stall)
{
    if (stall->stopped)
        return stall->elapsed_ns >= stall->patience.stopped_ns ? JUDGE_HUNG : JUDGE_WAIT;
    if (stall->wants)
        return judge_busy(stall);
    if (stall->elapsed_ns < stall->patience.asleep_ns)
        return JUDGE_WAIT;
    return stall->slept ? JUDGE_HUNG : JUDGE_ASLEEP;
}

static void extend(struct tern_supervisor *s, const struct stall *stall)
{
    struct deadline *d = &s->compute.deadline;
    d->extended_ns =
        smaller(2 * larger(stall->patience.busy_ns, stall->extended_ns), stall->most_ns);
    tern_log("warning", "the CPU worker gets little CPU or waits for a disk: deadline now %llu ms",
             (unsigned long long)d->extended_ns / 1000000);
}

static bool hangs(struct tern_supervisor *s)
{
    struct deadline *d = &s->compute.deadline;
    const uint64_t elapsed = tern_now_ns() - d->since_ns;
    if (!d->measured)
        d->measured = activity_read(s->compute.process.pid, &d->before);
    if (elapsed < s->policy.hang_ns || !activity_read(s->compute.process.pid, &d->now))
        return false;
    const struct stall stall = {
        .elapsed_ns = elapsed,
        .used_ns = activity_busiest(&d->before, &d->now),
        .stopped = d->now.stopped,
        .wants = d->now.runnable || d->now.disk,
        .slept = d->asleep,
        .extended_ns = d->extended_ns,
        .most_ns = s->policy.hang_max_ns,
        .patience = find_patience(s),
    };
    const enum judgement judgement = deadline_judge(&stall);
    d->asleep = judgement == JUDGE_ASLEEP;
    if (judgement == JUDGE_SLOW)
        extend(s, &stall);
    return judgement == JUDGE_HUNG;
}

static void on_poll(void *context)
{
    struct tern_supervisor *s = context;
    struct compute *c = &s->compute;
    c->deadline.timer = 0;
    if (c->process.pid == 0 || c->condemned)
        return;
    steps_collect(s);
    if (!has_work(c))
        return;
    if (has_moved(s)) {
        deadline_progress(s);
    } else if (hangs(s)) {
        tern_log("error", "the CPU worker hangs: nothing finished for %llu ms",
                 (unsigned long long)(tern_now_ns() - c->deadline.since_ns) / 1000000);
        compute_condemn(s, TERN_DEATH_HANG);
        return;
    }
    deadline_expect(s, false);
}

void deadline_expect(struct tern_supervisor *s, bool first)
{
    struct deadline *d = &s->compute.deadline;
    if (first)
        deadline_progress(s);
    if (d->timer == 0)
        d->timer = tern_loop_timer(s->loop, tern_now_ns() + s->policy.poll_ns, on_poll, s);
}

void deadline_end(struct tern_supervisor *s)
{
    struct deadline *d = &s->compute.deadline;
    tern_loop_cancel(s->loop, d->timer);
    d->timer = 0;
    d->word = d->done = 0;
}
