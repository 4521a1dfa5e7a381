/* The loader's side of the channel, and the order of its work; what it says is in session.h. */
#include "workers/loader/session.h"

#include "proto/catalog.h"
#include "proto/channel.h"
#include "proto/message.h"
#include "workers/loader/fill.h"
#include "workers/loader/gguf.h"
#include "workers/loader/sandbox.h"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_THREADS = 4 };

struct session {
    int channel;
    int file;
    struct stat before; /* the file as it was when it came */
    struct tern_segment segment;
    struct tern_catalog *catalog;
    struct tern_fill *fill;
    int weights; /* -1 until it comes */
    uint64_t weights_size;
    bool peer_gone;
    uint8_t buffer[TERN_CHANNEL_MAX];
};

/* ---- sending ---- */

static enum tern_status send_packed(struct session *session, struct tern_pack *pack,
                                    struct tern_error *error)
{
    struct tern_parcel parcel = {.kind = TERN_PARCEL_MESSAGE, .fd = -1};
    const void *message = tern_pack_end(pack, &parcel.bytes);
    enum tern_status status = TERN_NO_MEMORY;
    if (message == NULL)
        tern_fail(error, status, "no memory for a message");
    else
        status = tern_channel_send(session->channel, &parcel, message, error);
    tern_pack_free(pack);
    return status;
}

static enum tern_status send_plain(struct session *session, enum tern_message_kind kind,
                                   struct tern_error *error)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, kind);
    return send_packed(session, &pack, error);
}

static void send_error(struct session *session, const struct tern_error *reason)
{
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_ERROR);
    tern_pack_u64(&pack, TERN_F_STATUS, reason->status);
    tern_pack_text(&pack, TERN_F_TEXT, reason->message);
    send_packed(session, &pack, NULL); /* the exit code says it too */
}

static bool send_progress(void *context, uint64_t done, uint64_t all)
{
    struct session *session = context;
    struct tern_pack pack;
    tern_pack_begin(&pack, TERN_MSG_PROGRESS);
    tern_pack_u64(&pack, TERN_F_DONE_UNITS, done);
    tern_pack_u64(&pack, TERN_F_ALL_UNITS, all);
    return send_packed(session, &pack, NULL) == TERN_OK;
}

/* ---- the file ---- */

/* glibc may make of fstat a call that takes a path, which the sandbox refuses. */
static bool file_stat(int fd, struct stat *info)
{
#ifdef __x86_64__
    _Static_assert(sizeof(struct stat) == 144, "the kernel's struct stat");
    return syscall(SYS_fstat, fd, info) == 0;
#else
    return fstat(fd, info) == 0;
#endif
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* The change time sees more than writes: a rename over the file, its removal. */
static enum tern_status check_unchanged(const struct session *session, struct tern_error *error)
{
    struct stat now;
    if (!file_stat(session->file, &now))
        return tern_fail(error, TERN_FAILED, "cannot look at the file: %s", strerror(errno));
    if (now.st_size == session->before.st_size && now.st_ino == session->before.st_ino &&
        same_time(now.st_mtim, session->before.st_mtim) &&
        same_time(now.st_ctim, session->before.st_ctim))
        return TERN_OK;
    return tern_fail(error, TERN_BAD_MODEL,
                     "the file was changed or replaced while it was read (%" PRId64
                     " bytes before, "
                     "%" PRId64 " now); load it again when nobody writes to it",
                     (int64_t)session->before.st_size, (int64_t)now.st_size);
}

static enum tern_status take_file(struct session *session, int fd, struct tern_error *error)
{
    if (session->file >= 0)
        close(session->file);
    session->file = fd;
    if (!file_stat(fd, &session->before))
        return tern_fail(error, TERN_FAILED, "cannot look at the file: %s", strerror(errno));
    if (!S_ISREG(session->before.st_mode))
        return tern_fail(error, TERN_BAD_MODEL, "this is no regular file; name a GGUF model file");
    return TERN_OK;
}

static enum tern_status parse_file(struct session *session, struct tern_error *error)
{
    struct tern_source source;
    enum tern_status status =
        tern_source_file(&source, session->file, (uint64_t)session->before.st_size, error);
    if (status != TERN_OK)
        return status;
    status = tern_gguf_parse(&source, &session->segment, error);
    tern_source_close(&source);
    if (status == TERN_OK)
        status = check_unchanged(session, error);
    /* Finds names that come twice. */
    if (status == TERN_OK)
        status = tern_catalog_open(&session->segment, &session->catalog, error);
    return status;
}

/* ---- receiving ---- */

static enum tern_status receive(struct session *session, struct tern_parcel *parcel,
                                struct tern_error *error)
{
    enum tern_status status;
    do
        status = tern_channel_receive(session->channel, -1, parcel, session->buffer, error);
    while (status == TERN_INTERRUPTED);
    session->peer_gone = status == TERN_NO_SERVICE;
    return status;
}

static enum tern_status unexpected(const struct tern_parcel *parcel, struct tern_error *error)
{
    if (parcel->fd >= 0)
        close(parcel->fd);
    return tern_fail(error, TERN_FAILED, "the loader got a parcel of kind %d out of turn",
                     (int)parcel->kind);
}

static enum tern_status map_catalog(struct session *session, const struct tern_parcel *parcel,
                                    struct tern_error *error)
{
    const enum tern_status status = tern_segment_map(parcel->fd, TERN_SEGMENT_CATALOG, parcel->id,
                                                     true, false, &session->segment, error);
    close(parcel->fd);
    return status;
}

/* Waits for the catalog's segment and the file. */
static enum tern_status receive_work(struct session *session, struct tern_error *error)
{
    while (session->file < 0 || session->segment.map == NULL) {
        struct tern_parcel parcel;
        enum tern_status status = receive(session, &parcel, error);
        if (status != TERN_OK)
            return status;
        if (parcel.kind == TERN_PARCEL_MODEL_FILE)
            status = take_file(session, parcel.fd, error);
        else if (parcel.kind == TERN_PARCEL_SEGMENT_WRITE && session->segment.map == NULL &&
                 parcel.segment == TERN_SEGMENT_CATALOG)
            status = map_catalog(session, &parcel, error);
        else
            status = unexpected(&parcel, error);
        if (status != TERN_OK)
            return status;
    }
    return TERN_OK;
}

static enum tern_status fill_weights(struct session *session, bool drop_cache,
                                     struct tern_error *error)
{
    const struct tern_fill_job job = {
        .file = session->file,
        .catalog = session->catalog,
        .weights = session->weights,
        .weights_size = session->weights_size,
        .drop_cache = drop_cache,
        .progress = send_progress,
        .context = session,
    };
    enum tern_status status = tern_fill_run(session->fill, &job, error);
    session->peer_gone = status == TERN_NO_SERVICE;
    if (status == TERN_OK)
        status = check_unchanged(session, error);
    if (status == TERN_OK)
        status = send_plain(session, TERN_MSG_FILLED, error);
    return status;
}

/* Waits for the weights segment and FILL, and fills. */
static enum tern_status serve_fill(struct session *session, struct tern_error *error)
{
    for (;;) {
        struct tern_parcel parcel;
        struct tern_message message;
        enum tern_status status = receive(session, &parcel, error);
        if (status != TERN_OK)
            return status;
        if (parcel.kind == TERN_PARCEL_SEGMENT_WRITE && session->weights < 0 &&
            parcel.segment == TERN_SEGMENT_WEIGHTS) {
            session->weights = parcel.fd;
            session->weights_size = parcel.size;
            continue;
        }
        if (parcel.kind != TERN_PARCEL_MESSAGE)
            return unexpected(&parcel, error);
        status = tern_message_parse(session->buffer, parcel.bytes, &message, error);
        if (status != TERN_OK)
            return status;
        if (message.kind != TERN_MSG_FILL || session->weights < 0)
            return tern_fail(error, TERN_FAILED, "the loader got a message '%s' out of turn",
                             tern_message_name(message.kind));
        return fill_weights(session, tern_message_bool(&message, TERN_F_DROP_CACHE), error);
    }
}

/* ---- the whole ---- */

static unsigned thread_count(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : (unsigned)cores;
}

static enum tern_status run(struct session *session, struct tern_error *error)
{
    enum tern_status status = receive_work(session, error);
    if (status == TERN_OK)
        status = tern_fill_start(thread_count(), &session->fill, error);
    if (status == TERN_OK)
        status = tern_sandbox_enter(session->channel, (uint64_t)session->before.st_size, error);
    if (status == TERN_OK)
        status = parse_file(session, error);
    if (status == TERN_OK)
        status = send_plain(session, TERN_MSG_CATALOG, error);
    if (status == TERN_OK)
        status = serve_fill(session, error);
    return status;
}

static void release(struct session *session)
{
    if (session->fill != NULL)
        tern_fill_stop(session->fill);
    tern_catalog_close(session->catalog);
    tern_segment_unmap(&session->segment);
    if (session->weights >= 0)
        close(session->weights);
    if (session->file >= 0)
        close(session->file);
    free(session);
}

int tern_loader_session(int channel)
{
    struct tern_error error = {.status = TERN_FAILED};
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return TERN_NO_MEMORY;
    session->channel = channel;
    session->file = session->weights = -1;
    /* With one heap no thread makes another one, which would look at the machine's cores first. */
    mallopt(M_ARENA_MAX, 1);

    enum tern_status status = run(session, &error);
    if (session->peer_gone)
        status = TERN_OK; /* the coordinator has what it wanted, or is gone itself */
    else if (status != TERN_OK)
        send_error(session, &error);
    release(session);
    return (int)status;
}
