#include "proto/threads.h"

#include <pthread.h>
#include <string.h>

/* Stays until the gate opens, so that all exist at one time. */
static void *stay(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

enum tern_status tern_threads_fit(struct tern_error *error)
{
    enum { THREADS = 2 };
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread[THREADS];
    int started = 0, failure = 0;
    pthread_mutex_lock(&gate);
    while (started < THREADS && failure == 0) {
        failure = pthread_create(&thread[started], NULL, stay, &gate);
        started += failure == 0;
    }
    pthread_mutex_unlock(&gate);
    while (started > 0)
        pthread_join(thread[--started], NULL);
    if (failure != 0)
        return tern_fail(error, TERN_FAILED,
                         "cannot start a thread: %s; end other programs or raise the limits "
                         "(ulimit -u, -v, -d)",
                         strerror(failure));
    return TERN_OK;
}
