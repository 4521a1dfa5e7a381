/* Model files: opened through a loader, shared by identity, a few kept open. */
#include "coordinator/model/file.h"

#include "coordinator/chat/chat.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    IDLE_FILES = 4,    /* files without users that stay open */
    MOST_OPENING = 16, /* loaders that open files at one time: each is a process with its memory */
};

struct tern_files {
    struct tern_supervisor *supervisor;
    struct tern_jobs *jobs;
    struct tern_model_file *list; /* newest first */
    bool starting, ended;
    tern_callback changed;
    void *context;
};

struct tern_files *tern_files_new(struct tern_supervisor *supervisor, struct tern_jobs *jobs,
                                  tern_callback changed, void *context)
{
    struct tern_files *files = calloc(1, sizeof *files);
    if (files == NULL)
        return NULL;
    *files = (struct tern_files){
        .supervisor = supervisor, .jobs = jobs, .changed = changed, .context = context};
    return files;
}

static void close_loader(struct tern_model_file *file)
{
    if (file->loader != NULL)
        tern_loader_close(file->loader);
    file->loader = NULL;
}

static void free_file(struct tern_model_file *file)
{
    struct tern_model_file **link = &file->files->list;
    while (*link != file)
        link = &(*link)->next;
    *link = file->next;
    close_loader(file);
    tern_tokenizer_free(file->tokenizer);
    tern_catalog_close(file->catalog);
    free(file->path);
    free(file);
}

void tern_files_end(struct tern_files *files)
{
    if (files != NULL)
        files->ended = true;
}

void tern_files_free(struct tern_files *files)
{
    if (files == NULL)
        return;
    while (files->list != NULL)
        free_file(files->list);
    free(files);
}

/* ---- identity ---- */

enum tern_status tern_identify(const char *path, struct tern_identity *identity,
                               struct tern_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return tern_fail(error, TERN_BAD_MODEL, "cannot read the model file %s: %s", path,
                         strerror(errno));
    *identity = (struct tern_identity){.device = info.st_dev,
                                       .inode = info.st_ino,
                                       .size = info.st_size,
                                       .modified = info.st_mtim};
    return TERN_OK;
}

bool tern_same_file(const struct tern_identity *a, const struct tern_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

/* ---- what the loader says ---- */

static void start_queued(struct tern_files *files);

static void fail(struct tern_model_file *file, const struct tern_error *error)
{
    struct tern_files *files = file->files;
    file->state = TERN_FILE_FAILED;
    file->error = *error;
    files->changed(files->context);
    start_queued(files);
}

/* Forgets the filling and its loader first: the owner may start or free things when told. */
static struct tern_fill_events end_fill(struct tern_model_file *file)
{
    const struct tern_fill_events events = file->fill;
    file->fill = (struct tern_fill_events){0};
    file->weights.wanted = false;
    close_loader(file);
    return events;
}

static enum tern_status changed_meanwhile(const struct tern_model_file *file,
                                          struct tern_error *error)
{
    return tern_fail(error, TERN_BAD_MODEL,
                     "the model file %s changed while it was read; try again", file->path);
}

/* The file at the path is still the one that was asked for. */
static enum tern_status check_identity(const struct tern_model_file *file, struct tern_error *error)
{
    struct tern_identity now;
    const enum tern_status status = tern_identify(file->path, &now, error);
    if (status != TERN_OK)
        return status;
    return tern_same_file(&now, &file->identity) ? TERN_OK : changed_meanwhile(file, error);
}

/* A loader that was started again for the weights: the catalog must be the one that is known. */
static void continue_fill(struct tern_model_file *file)
{
    struct tern_error error;
    enum tern_status status = check_identity(file, &error);
    file->weights.wanted = false;
    if (status == TERN_OK)
        status = tern_loader_fill(file->loader, file->weights.fd, file->weights.id,
                                  file->weights.size, file->weights.drop_cache, &error);
    if (status == TERN_OK)
        return;
    const struct tern_fill_events events = end_fill(file);
    events.failed(events.context, &error);
}

static void build(struct tern_job *job)
{
    struct tern_model_file *file =
        (void *)((char *)job - offsetof(struct tern_model_file, building));
    tern_tokenizer_new(file->catalog, &file->tokenizer, &file->tokenizer_error);
    tern_chat_check(file->catalog, &file->chat_error);
}

static void on_built(struct tern_job *job)
{
    struct tern_model_file *file =
        (void *)((char *)job - offsetof(struct tern_model_file, building));
    file->state = TERN_FILE_OPEN;
    file->files->changed(file->files->context);
    start_queued(file->files);
    tern_file_release(file);
}

/* A large vocabulary takes a good part of a second, a hostile template too; the file is used by the
 * work meanwhile. */
static void open_file(struct tern_model_file *file, const struct tern_segment *segment)
{
    struct tern_error error;
    if (check_identity(file, &error) != TERN_OK ||
        tern_catalog_open(segment, &file->catalog, &error) != TERN_OK) {
        fail(file, &error);
        return;
    }
    file->built = true;
    file->users++;
    file->building = (struct tern_job){
        .client = (uintptr_t)file, .bytes = TERN_SHORT_JOB + 1, .run = build, .done = on_built};
    tern_jobs_add(file->files->jobs, &file->building);
}

static void on_catalog(void *context, const struct tern_segment *segment)
{
    struct tern_model_file *file = context;
    if (file->state == TERN_FILE_OPENING) {
        file->users++; /* `changed` may release the last other user */
        open_file(file, segment);
        tern_file_release(file);
    } else if (file->weights.wanted) {
        continue_fill(file);
    }
}

static void on_progress(void *context, uint64_t bytes, uint64_t of)
{
    struct tern_model_file *file = context;
    if (file->fill.progress != NULL)
        file->fill.progress(file->fill.context, bytes, of);
}

static void on_filled(void *context)
{
    const struct tern_fill_events events = end_fill(context);
    if (events.filled != NULL)
        events.filled(events.context);
}

static void on_failed(void *context, const struct tern_error *error)
{
    struct tern_model_file *file = context;
    const struct tern_error copy = *error;
    const struct tern_fill_events events = end_fill(file);
    if (file->state == TERN_FILE_OPENING && !file->built)
        fail(file, &copy); /* later the file is of use without this loader */
    else if (events.failed != NULL)
        events.failed(events.context, &copy);
}

static enum tern_status start_loader(struct tern_model_file *file, struct tern_error *error)
{
    const struct tern_loader_events events = {.context = file,
                                              .catalog = on_catalog,
                                              .progress = on_progress,
                                              .filled = on_filled,
                                              .failed = on_failed};
    return tern_loader_open(file->files->supervisor, file->path, &events, &file->loader, error);
}

/* ---- so many loaders and no more ---- */

static bool has_place(const struct tern_files *files)
{
    unsigned opening = 0;
    for (const struct tern_model_file *file = files->list; file != NULL; file = file->next)
        opening += file->state == TERN_FILE_OPENING && !file->queued;
    return opening < MOST_OPENING;
}

static struct tern_model_file *first_queued(const struct tern_files *files)
{
    struct tern_model_file *oldest = NULL;
    for (struct tern_model_file *file = files->list; file != NULL; file = file->next)
        if (file->queued)
            oldest = file;
    return oldest;
}

/* A file left OPENING, or was left alone in it: others may begin. One that fails calls back, and
 * what comes of that is seen by the loop here. */
static void start_queued(struct tern_files *files)
{
    struct tern_model_file *file;
    if (files->starting || files->ended)
        return;
    files->starting = true;
    while (has_place(files) && (file = first_queued(files)) != NULL) {
        struct tern_error error;
        file->queued = false;
        if (start_loader(file, &error) != TERN_OK)
            fail(file, &error);
    }
    files->starting = false;
}

static void destroy(struct tern_model_file *file)
{
    struct tern_files *files = file->files;
    free_file(file);
    start_queued(files);
}

/* ---- users ---- */

static struct tern_model_file *find(struct tern_files *files, const struct tern_identity *identity)
{
    for (struct tern_model_file *file = files->list; file != NULL; file = file->next)
        if (file->state != TERN_FILE_FAILED && tern_same_file(&file->identity, identity))
            return file;
    return NULL;
}

static struct tern_model_file *add(struct tern_files *files, const char *path,
                                   const struct tern_identity *identity)
{
    struct tern_model_file *file = calloc(1, sizeof *file);
    char *copy = strdup(path);
    if (file == NULL || copy == NULL) {
        free(file);
        free(copy);
        return NULL;
    }
    *file = (struct tern_model_file){.next = files->list,
                                     .files = files,
                                     .path = copy,
                                     .identity = *identity,
                                     .queued = !has_place(files)};
    files->list = file;
    return file;
}

enum tern_status tern_file_get(struct tern_files *files, const char *path,
                               struct tern_model_file **out, struct tern_error *error)
{
    struct tern_identity identity;
    enum tern_status status = tern_identify(path, &identity, error);
    if (status != TERN_OK)
        return status;
    struct tern_model_file *file = find(files, &identity);
    if (file == NULL) {
        file = add(files, path, &identity);
        if (file == NULL)
            return tern_fail(error, TERN_NO_MEMORY, "out of memory");
        status = file->queued ? TERN_OK : start_loader(file, error);
        if (status != TERN_OK) {
            free_file(file);
            return status;
        }
    }
    file->users++;
    *out = file;
    return TERN_OK;
}

static void trim(struct tern_files *files)
{
    for (;;) {
        struct tern_model_file *oldest = NULL;
        unsigned idle = 0;
        for (struct tern_model_file *file = files->list; file != NULL; file = file->next) {
            if (file->users > 0)
                continue;
            idle++;
            if (oldest == NULL || file->used_ns < oldest->used_ns)
                oldest = file;
        }
        if (idle <= IDLE_FILES)
            return;
        destroy(oldest);
    }
}

void tern_file_release(struct tern_model_file *file)
{
    if (--file->users > 0)
        return;
    file->used_ns = tern_now_ns();
    if (file->state != TERN_FILE_OPEN) {
        destroy(file); /* a failed or abandoned opening is tried anew the next time */
        return;
    }
    close_loader(file);
    trim(file->files);
}

/* ---- weights ---- */

enum tern_status tern_file_fill(struct tern_model_file *file, int weights_fd, uint64_t weights_id,
                                uint64_t weights_size, bool drop_cache,
                                const struct tern_fill_events *events, struct tern_error *error)
{
    if (file->state != TERN_FILE_OPEN || file->fill.context != NULL)
        return tern_fail(error, TERN_FAILED, "the model file %s is being read already", file->path);
    file->weights.fd = weights_fd;
    file->weights.id = weights_id;
    file->weights.size = weights_size;
    file->weights.drop_cache = drop_cache;
    enum tern_status status;
    if (file->loader == NULL) {
        status = start_loader(file, error);
        file->weights.wanted = status == TERN_OK;
    } else {
        status =
            tern_loader_fill(file->loader, weights_fd, weights_id, weights_size, drop_cache, error);
    }
    if (status == TERN_OK)
        file->fill = *events;
    return status;
}

void tern_file_stop_fill(struct tern_model_file *file)
{
    if (file->fill.context != NULL)
        end_fill(file);
}
