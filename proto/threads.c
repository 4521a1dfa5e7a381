#include "proto/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct probe {
    pthread_t thread;
    pthread_mutex_t *gate;
    pid_t id;
};

/* Stays until the gate opens, so that all exist at one time. */
static void *stay(void *context)
{
    struct probe *probe = context;
    probe->id = gettid();
    pthread_mutex_lock(probe->gate);
    pthread_mutex_unlock(probe->gate);
    return NULL;
}

/* A thread that is joined counts against limits until the kernel has taken it down. */
static void wait_until_gone(const struct probe *probe)
{
    pthread_join(probe->thread, NULL);
    while (tgkill(getpid(), probe->id, 0) == 0)
        sched_yield();
}

enum tern_status tern_threads_fit(struct tern_error *error)
{
    enum { THREADS = 2 };
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    struct probe probe[THREADS];
    int started = 0, failure = 0;
    pthread_mutex_lock(&gate);
    while (started < THREADS && failure == 0) {
        probe[started].gate = &gate;
        failure = pthread_create(&probe[started].thread, NULL, stay, &probe[started]);
        started += failure == 0;
    }
    pthread_mutex_unlock(&gate);
    while (started > 0)
        wait_until_gone(&probe[--started]);
    if (failure != 0)
        return tern_fail(error, TERN_FAILED,
                         "cannot start a thread: %s; end other programs or raise the limits "
                         "(ulimit -u, -v, -d)",
                         strerror(failure));
    return TERN_OK;
}
