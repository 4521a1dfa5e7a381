/*
 * Work beside the loop: what may take long and touches nothing of the loop's (texts, tokenizers,
 * chat templates) runs on threads of the coordinator and comes back as an event. Two threads: one
 * takes whatever comes, the long first; the other takes only short jobs. So neither kind waits for
 * the other, and clients take turns within each.
 */
#ifndef TERN_JOBS_H
#define TERN_JOBS_H

#include "coordinator/loop.h"
#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of text up to which a job is short: some milliseconds. */
#define TERN_SHORT_JOB (64u << 10)

struct tern_jobs;

/* Part of the caller's struct. What `run` uses must stay until `done`, or until tern_jobs_free. */
struct tern_job {
    struct tern_job *next;
    uint64_t client;                    /* who asks */
    size_t bytes;                       /* of text, or what takes as long */
    void (*run)(struct tern_job *job);  /* on a thread */
    void (*done)(struct tern_job *job); /* from the loop, once, after `run` */
};

/* TERN_NO_MEMORY, or TERN_FAILED where no thread can be started. Borrows the loop. */
enum tern_status tern_jobs_new(struct tern_loop *loop, struct tern_jobs **out,
                               struct tern_error *error);
/* Waits for what runs now; nothing else runs any more and no `done` comes. */
void tern_jobs_free(struct tern_jobs *jobs);

/* Fails never: the job is the queue's entry. */
void tern_jobs_add(struct tern_jobs *jobs, struct tern_job *job);
/* True: the job waited and is taken back, nothing comes of it. False: `done` comes. */
bool tern_jobs_drop(struct tern_jobs *jobs, struct tern_job *job);

#endif
