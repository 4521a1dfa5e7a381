/*
 * One loader process with its open file. loader.c: its life; loader_talk.c: what it says, and how
 * long it may say nothing; model_file.c: what may be opened at all.
 */
#ifndef TERN_SUPERVISE_LOADER_H
#define TERN_SUPERVISE_LOADER_H

#include "coordinator/supervise/internal.h"
#include <sys/stat.h>

/* Opens what may be a model file: regular, not empty, in one part; without blocking. */
enum tern_status model_file_open(const char *path, int *fd, struct stat *identity,
                                 struct tern_error *error);
/* The part of the path that a person knows the file by. */
const char *model_file_name(const char *path);
/* The open file was not written to since. */
bool model_file_is_same(int fd, const struct stat *identity);

enum phase {
    PHASE_READING, /* CATALOG is awaited */
    PHASE_OPEN,    /* the catalog is there, FILL was not asked for */
    PHASE_FILLING, /* FILLED is awaited */
    PHASE_FILLED,  /* the process is about to exit */
    PHASE_ENDED,   /* failed or done: no further event */
};

struct tern_loader {
    struct tern_loader *next;
    struct tern_supervisor *supervisor;
    struct process process;
    struct tern_loader_events events;
    enum phase phase;
    bool closed;       /* by its owner; goes when the process has */
    bool told_catalog; /* the event came, in this or an earlier incarnation */
    bool want_fill;    /* FILL is to be sent when the catalog is there */
    bool retried;      /* after a kill from outside */
    bool hung;         /* we killed it for that */
    bool refused;      /* it sent ERROR, kept in `reason`, or broke the protocol */
    struct tern_error reason;
    char *name; /* of the file, for messages */
    int file;
    struct stat identity;
    int catalog_fd;
    uint64_t catalog_id;
    struct tern_segment catalog; /* mapped once */
    int weights_fd;              /* a duplicate, -1 before FILL */
    uint64_t weights_id, weights_size;
    bool drop_cache;
    uint64_t filled_bytes; /* as it last said */
    int channel_watch;
    /* Its own time without progress, see `looked`. */
    int timer;
    uint64_t looked_ns, idle_ns;
    struct activity before, now;
};

/* Sends the weights segment and FILL; a failure shows in the end of the process. */
void loader_begin_fill(struct tern_loader *l);
void loader_stop_watching(struct tern_loader *l);
/* Something came from the loader, or it was given work: its time starts anew. */
void loader_progress(struct tern_loader *l);
/* Callbacks of the channel: one message; all that came before the process ended. */
void loader_on_channel(void *context);
void loader_on_ending(void *context);

#endif
