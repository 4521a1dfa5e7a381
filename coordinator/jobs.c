/* Two threads, two queues under one lock, and a list of what is done behind an eventfd. */
#include "coordinator/jobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { THREADS = 2 };

struct queue {
    struct tern_job *first, **end;
};

struct tern_jobs {
    struct tern_loop *loop;
    int event, watch;
    pthread_t threads[THREADS];
    unsigned started;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something was queued, or it ends */
    /* Under the lock: */
    struct queue brief, lengthy, finished;
    bool ends, second; /* second: the next thread that starts is the one for short jobs */
};

static void put(struct queue *queue, struct tern_job *job)
{
    job->next = NULL;
    *queue->end = job;
    queue->end = &job->next;
}

/* How many jobs of this client come before `until`, itself counted. */
static unsigned rank_of(const struct queue *queue, const struct tern_job *until, uint64_t client)
{
    unsigned rank = 1;
    for (const struct tern_job *job = queue->first; job != until; job = job->next)
        rank += job->client == client;
    return rank;
}

/* A client's third job stands behind everybody's second, whoever came first. */
static void put_in_turn(struct queue *queue, struct tern_job *job)
{
    const unsigned rank = rank_of(queue, NULL, job->client);
    struct tern_job **place = &queue->first;
    for (struct tern_job **link = place; *link != NULL; link = &(*link)->next)
        if (rank_of(queue, *link, (*link)->client) <= rank)
            place = &(*link)->next;
    job->next = *place;
    *place = job;
    if (job->next == NULL)
        queue->end = &job->next;
}

static struct tern_job *take(struct queue *queue)
{
    struct tern_job *job = queue->first;
    if (job == NULL)
        return NULL;
    queue->first = job->next;
    if (queue->first == NULL)
        queue->end = &queue->first;
    return job;
}

/* Waits for a job; NULL: it ends. The lock is held. */
static struct tern_job *next_job(struct tern_jobs *jobs, bool only_short)
{
    for (;;) {
        if (jobs->ends)
            return NULL;
        struct tern_job *job = only_short ? NULL : take(&jobs->lengthy);
        if (job == NULL)
            job = take(&jobs->brief);
        if (job != NULL)
            return job;
        pthread_cond_wait(&jobs->changed, &jobs->lock);
    }
}

static void *work(void *context)
{
    struct tern_jobs *jobs = context;
    const uint64_t one = 1;
    struct tern_job *job;
    pthread_mutex_lock(&jobs->lock);
    const bool only_short = jobs->second;
    jobs->second = true;
    while ((job = next_job(jobs, only_short)) != NULL) {
        pthread_mutex_unlock(&jobs->lock);
        job->run(job);
        pthread_mutex_lock(&jobs->lock);
        put(&jobs->finished, job);
        while (write(jobs->event, &one, sizeof one) < 0 && errno == EINTR)
            ;
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

/* `done` may add jobs; those that finish meanwhile ring again. */
static void on_finished(void *context)
{
    struct tern_jobs *jobs = context;
    uint64_t count;
    if (read(jobs->event, &count, sizeof count) < 0)
        return;
    for (; count > 0; count--) {
        pthread_mutex_lock(&jobs->lock);
        struct tern_job *job = take(&jobs->finished);
        pthread_mutex_unlock(&jobs->lock);
        if (job != NULL)
            job->done(job);
    }
}

static enum tern_status start(struct tern_jobs *jobs, struct tern_error *error)
{
    jobs->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (jobs->event < 0)
        return tern_fail(error, TERN_FAILED, "cannot make an eventfd: %s", strerror(errno));
    jobs->watch = tern_loop_watch_fd(jobs->loop, jobs->event, on_finished, jobs);
    if (jobs->watch == 0)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    for (; jobs->started < THREADS; jobs->started++) {
        const int failed = pthread_create(&jobs->threads[jobs->started], NULL, work, jobs);
        if (failed != 0)
            return tern_fail(error, TERN_FAILED, "cannot start a thread: %s", strerror(failed));
    }
    return TERN_OK;
}

enum tern_status tern_jobs_new(struct tern_loop *loop, struct tern_jobs **out,
                               struct tern_error *error)
{
    struct tern_jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    *jobs = (struct tern_jobs){.loop = loop, .event = -1};
    jobs->brief.end = &jobs->brief.first;
    jobs->lengthy.end = &jobs->lengthy.first;
    jobs->finished.end = &jobs->finished.first;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->changed, NULL);
    const enum tern_status status = start(jobs, error);
    if (status == TERN_OK)
        *out = jobs;
    else
        tern_jobs_free(jobs);
    return status;
}

void tern_jobs_free(struct tern_jobs *jobs)
{
    if (jobs == NULL)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->ends = true;
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
    for (unsigned i = 0; i < jobs->started; i++)
        pthread_join(jobs->threads[i], NULL);
    tern_loop_unwatch(jobs->loop, jobs->watch);
    if (jobs->event >= 0)
        close(jobs->event);
    pthread_cond_destroy(&jobs->changed);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

static struct queue *queue_of(struct tern_jobs *jobs, const struct tern_job *job)
{
    return job->bytes <= TERN_SHORT_JOB ? &jobs->brief : &jobs->lengthy;
}

void tern_jobs_add(struct tern_jobs *jobs, struct tern_job *job)
{
    pthread_mutex_lock(&jobs->lock);
    put_in_turn(queue_of(jobs, job), job);
    pthread_cond_broadcast(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
}

bool tern_jobs_drop(struct tern_jobs *jobs, struct tern_job *job)
{
    pthread_mutex_lock(&jobs->lock);
    struct queue *queue = queue_of(jobs, job);
    struct tern_job **link = &queue->first;
    while (*link != NULL && *link != job)
        link = &(*link)->next;
    const bool waited = *link != NULL;
    if (waited && (*link = job->next) == NULL)
        queue->end = link;
    pthread_mutex_unlock(&jobs->lock);
    return waited;
}
