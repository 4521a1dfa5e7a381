/* The threads that read, check and write pieces; see fill.h for why. */
#include "workers/loader/fill.h"

#include "workers/loader/check.h"
#include "workers/loader/pieces.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    AHEAD = 16, /* pieces that the kernel is asked to bring in before they are read */
    PROGRESS_MS = 50,
    STACK_BYTES = 256 * 1024,
};

struct tern_fill {
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    pthread_t *threads;
    unsigned count, working;
    bool run, quit;

    /* Set before `run`, read-only after. */
    const struct tern_fill_job *job;
    struct tern_piece *pieces;
    size_t piece_count;
    uint64_t reported; /* bytes of the last report; of the calling thread only */

    _Atomic size_t next;
    _Atomic uint64_t done; /* bytes in place */
    _Atomic unsigned stop;

    /* Under the lock: the first failure in the file's order. */
    size_t failed_piece;
    struct tern_error error;
};

/* ---- one piece ---- */

static enum tern_status read_piece(const struct tern_fill *fill, const struct tern_piece *piece,
                                   uint8_t *buffer, struct tern_error *error)
{
    size_t got = 0;
    while (got < piece->bytes) {
        const ssize_t n = pread(fill->job->file, buffer + got, piece->bytes - got,
                                (off_t)(piece->file_offset + got));
        if (n > 0)
            got += (size_t)n;
        else if (n == 0)
            return tern_fail(error, TERN_BAD_MODEL,
                             "the file became shorter while it was read: it ends at byte %" PRIu64
                             "; load it again when nobody writes to it",
                             piece->file_offset + got);
        else if (errno != EINTR)
            return tern_fail(error, TERN_FAILED, "cannot read the file at byte %" PRIu64 ": %s",
                             piece->file_offset + got, strerror(errno));
    }
    return TERN_OK;
}

static enum tern_status check_piece(const struct tern_fill *fill, const struct tern_piece *piece,
                                    uint8_t *buffer, struct tern_error *error)
{
    struct tern_tensor tensor;
    size_t bad;
    tern_catalog_tensor(fill->job->catalog, piece->tensor, &tensor);
    const size_t unit = tern_check_unit(tensor.type);
    if (tern_check_values(tensor.type, buffer, piece->bytes / unit, &bad))
        return TERN_OK;
    const struct tern_type_info *info = tern_type_info(tensor.type);
    const uint64_t index = (piece->file_offset - tensor.file_offset) / unit + bad;
    return tern_fail(error, TERN_BAD_MODEL,
                     "tensor '%.*s' (%s): %s %" PRIu64 " (row %" PRIu64
                     ") is not a finite number; the file is damaged, get it again",
                     (int)tensor.name.length, tensor.name.bytes, info->name,
                     info->block == 1 ? "element" : "a scale of block", index,
                     index / (tensor.size[0] / info->block));
}

static enum tern_status write_piece(const struct tern_fill *fill, const struct tern_piece *piece,
                                    const uint8_t *buffer, struct tern_error *error)
{
    size_t put = 0;
    while (put < piece->bytes) {
        const ssize_t n = pwrite(fill->job->weights, buffer + put, piece->bytes - put,
                                 (off_t)(TERN_SEGMENT_DATA + piece->segment_offset + put));
        if (n > 0)
            put += (size_t)n;
        else if (n < 0 && (errno == ENOMEM || errno == ENOSPC))
            return tern_fail(error, TERN_NO_MEMORY, "no memory left for the weights");
        else if (n == 0 || errno != EINTR)
            return tern_fail(error, TERN_FAILED, "cannot write to the weights segment: %s",
                             strerror(errno));
    }
    return TERN_OK;
}

static enum tern_status take_piece(const struct tern_fill *fill, const struct tern_piece *piece,
                                   uint8_t *buffer, struct tern_error *error)
{
    enum tern_status status = read_piece(fill, piece, buffer, error);
    if (status == TERN_OK && fill->job->drop_cache)
        posix_fadvise(fill->job->file, (off_t)piece->file_offset, piece->bytes,
                      POSIX_FADV_DONTNEED);
    if (status == TERN_OK)
        status = check_piece(fill, piece, buffer, error);
    return status == TERN_OK ? write_piece(fill, piece, buffer, error) : status;
}

/* ---- threads ---- */

static void note_failure(struct tern_fill *fill, size_t index, const struct tern_error *error)
{
    pthread_mutex_lock(&fill->lock);
    if (index < fill->failed_piece) {
        fill->failed_piece = index;
        fill->error = *error;
    }
    pthread_mutex_unlock(&fill->lock);
    atomic_store(&fill->stop, 1);
}

static void look_ahead(const struct tern_fill *fill, size_t index)
{
    if (index + AHEAD >= fill->piece_count)
        return;
    const struct tern_piece *piece = &fill->pieces[index + AHEAD];
    posix_fadvise(fill->job->file, (off_t)piece->file_offset, piece->bytes, POSIX_FADV_WILLNEED);
}

/* Pieces are taken in order and each one taken is finished, so whatever fails first in the file is
 * always found, however the threads run. */
static void work(struct tern_fill *fill, uint8_t *buffer)
{
    while (!atomic_load(&fill->stop)) {
        struct tern_error error;
        const size_t index = atomic_fetch_add(&fill->next, 1);
        if (index >= fill->piece_count)
            return;
        look_ahead(fill, index);
        const struct tern_piece *piece = &fill->pieces[index];
        if (take_piece(fill, piece, buffer, &error) != TERN_OK)
            note_failure(fill, index, &error);
        else
            atomic_fetch_add(&fill->done, piece->bytes);
    }
}

static void *thread_main(void *context)
{
    struct tern_fill *fill = context;
    pthread_mutex_lock(&fill->lock);
    while (!fill->run && !fill->quit)
        pthread_cond_wait(&fill->wake, &fill->lock);
    const bool run = fill->run;
    pthread_mutex_unlock(&fill->lock);
    if (!run)
        return NULL;

    uint8_t *buffer = aligned_alloc(4096, TERN_PIECE_BYTES);
    if (buffer == NULL) {
        struct tern_error error;
        tern_fail(&error, TERN_NO_MEMORY, "no memory for a read buffer");
        note_failure(fill, 0, &error);
    } else {
        work(fill, buffer);
    }
    free(buffer);
    pthread_mutex_lock(&fill->lock);
    fill->working--;
    pthread_cond_signal(&fill->finished);
    pthread_mutex_unlock(&fill->lock);
    return NULL;
}

static bool start_threads(struct tern_fill *fill, unsigned threads)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (fill->count < threads &&
           pthread_create(&fill->threads[fill->count], &attributes, thread_main, fill) == 0)
        fill->count++;
    pthread_attr_destroy(&attributes);
    return fill->count > 0;
}

enum tern_status tern_fill_start(unsigned threads, struct tern_fill **out, struct tern_error *error)
{
    *out = NULL;
    struct tern_fill *fill = calloc(1, sizeof *fill);
    pthread_t *ids = calloc(threads, sizeof *ids);
    if (fill == NULL || ids == NULL) {
        free(fill);
        free(ids);
        return tern_fail(error, TERN_NO_MEMORY, "no memory for %u threads", threads);
    }
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&fill->finished, &clock);
    pthread_condattr_destroy(&clock);
    pthread_cond_init(&fill->wake, NULL);
    pthread_mutex_init(&fill->lock, NULL);
    fill->threads = ids;
    if (!start_threads(fill, threads)) {
        tern_fill_stop(fill);
        return tern_fail(error, TERN_NO_MEMORY, "cannot start a thread");
    }
    *out = fill;
    return TERN_OK;
}

void tern_fill_stop(struct tern_fill *fill)
{
    pthread_mutex_lock(&fill->lock);
    fill->quit = true;
    pthread_cond_broadcast(&fill->wake);
    pthread_mutex_unlock(&fill->lock);
    for (unsigned i = 0; i < fill->count; i++)
        pthread_join(fill->threads[i], NULL);
    pthread_cond_destroy(&fill->wake);
    pthread_cond_destroy(&fill->finished);
    pthread_mutex_destroy(&fill->lock);
    free(fill->threads);
    free(fill->pieces);
    free(fill);
}

/* ---- a run ---- */

static struct timespec in_ms(long ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += ms * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

/* Tells of bytes that came since the last report; silence is what the coordinator takes for a hang.
 * False: nobody listens any more, the threads stop. */
static bool report(struct tern_fill *fill, uint64_t all)
{
    const uint64_t done = atomic_load(&fill->done);
    if (done == fill->reported)
        return true;
    fill->reported = done;
    const bool listened = fill->job->progress(fill->job->context, done, all);
    atomic_fetch_or(&fill->stop, listened ? 0 : 1);
    return listened;
}

/* Wakes the threads and reports until all have finished. False: nobody listens any more. */
static bool run_threads(struct tern_fill *fill, uint64_t all)
{
    bool listened = true;
    pthread_mutex_lock(&fill->lock);
    fill->working = fill->count;
    fill->run = true;
    pthread_cond_broadcast(&fill->wake);
    while (fill->working > 0) {
        const struct timespec until = in_ms(PROGRESS_MS);
        if (pthread_cond_timedwait(&fill->finished, &fill->lock, &until) != ETIMEDOUT)
            continue;
        pthread_mutex_unlock(&fill->lock);
        listened = listened && report(fill, all);
        pthread_mutex_lock(&fill->lock);
    }
    pthread_mutex_unlock(&fill->lock);
    return listened;
}

enum tern_status tern_fill_run(struct tern_fill *fill, const struct tern_fill_job *job,
                               struct tern_error *error)
{
    uint64_t all;
    const enum tern_status status = tern_pieces_cut(job->catalog, job->weights_size, &fill->pieces,
                                                    &fill->piece_count, &all, error);
    if (status != TERN_OK)
        return status;
    fill->job = job;
    fill->failed_piece = SIZE_MAX;
    const bool listened = run_threads(fill, all);
    if (job->drop_cache) /* the pages on the borders of pieces */
        posix_fadvise(job->file, 0, 0, POSIX_FADV_DONTNEED);
    if (fill->failed_piece != SIZE_MAX)
        return tern_fail(error, fill->error.status, "%s", fill->error.message);
    if (!listened)
        return tern_fail(error, TERN_NO_SERVICE, "nobody waits for the weights any more");
    job->progress(job->context, all, all);
    return TERN_OK;
}
