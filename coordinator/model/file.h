/*
 * A model file as the coordinator knows it: identity, catalog, tokenizer. Enough for tokenize,
 * detokenize and info, which load no weights; the start of a loaded model too. The last few files
 * stay open when nobody uses them, so that the next tokenize costs nothing.
 *
 * The loader process that read the catalog stays only until the file is open and nobody asked for
 * the weights.
 */
#ifndef TERN_MODEL_FILE_H
#define TERN_MODEL_FILE_H

#include "coordinator/jobs.h"
#include "coordinator/supervise.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "proto/catalog.h"

#include <sys/types.h>
#include <time.h>

struct tern_files;

/* The file itself, whatever its path. */
struct tern_identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
};

enum tern_file_state { TERN_FILE_OPENING, TERN_FILE_OPEN, TERN_FILE_FAILED };

/* Progress of bringing the weights in. One of filled and failed comes, once and last. */
struct tern_fill_events {
    void *context;
    void (*progress)(void *context, uint64_t bytes, uint64_t of);
    void (*filled)(void *context);
    void (*failed)(void *context, const struct tern_error *error);
};

struct tern_model_file {
    struct tern_model_file *next;
    struct tern_files *files;
    char *path;
    struct tern_identity identity;
    enum tern_file_state state;
    struct tern_error error; /* FAILED: why */
    struct tern_catalog *catalog;
    struct tern_tokenizer *tokenizer;  /* NULL: tokenizer_error says why */
    struct tern_error tokenizer_error; /* the catalog may be of use without a tokenizer */
    struct tern_error chat_error;      /* OPEN: TERN_OK, or why it is no model to chat with */
    struct tern_job building;          /* of the tokenizer and chat_error, beside the loop */
    bool built;                        /* or being built */
    uint32_t users;
    uint64_t used_ns; /* when the last user left */
    bool queued;      /* OPENING when others have been opened */
    struct tern_loader *loader;
    struct tern_fill_events fill;
    struct { /* the weights segment that waits for a loader */
        int fd;
        uint64_t id, size;
        bool drop_cache, wanted;
    } weights;
};

/* `changed` is called from the loop whenever a file left OPENING. */
struct tern_files *tern_files_new(struct tern_supervisor *supervisor, struct tern_jobs *jobs,
                                  tern_callback changed, void *context); /* NULL: out of memory */
/* The service ends: no file is opened any more. NULL is allowed. */
void tern_files_end(struct tern_files *files);
/* No job runs any more. */
void tern_files_free(struct tern_files *files);

/* TERN_BAD_MODEL if there is no such file. */
enum tern_status tern_identify(const char *path, struct tern_identity *identity,
                               struct tern_error *error);
bool tern_same_file(const struct tern_identity *a, const struct tern_identity *b);

/* The file at `path`, to be given back with tern_file_release. It may still be OPENING.
 * TERN_BAD_MODEL if there is no such file, TERN_NO_MEMORY; also what tern_loader_open returns. */
enum tern_status tern_file_get(struct tern_files *files, const char *path,
                               struct tern_model_file **out, struct tern_error *error);
void tern_file_release(struct tern_model_file *file);

/* Reads all tensors into the weights segment, see tern_loader_fill. The file is OPEN and nobody
 * fills from it at the moment (TERN_FAILED otherwise). */
enum tern_status tern_file_fill(struct tern_model_file *file, int weights_fd, uint64_t weights_id,
                                uint64_t weights_size, bool drop_cache,
                                const struct tern_fill_events *events, struct tern_error *error);
/* Stops it: no event comes any more. */
void tern_file_stop_fill(struct tern_model_file *file);

#endif
