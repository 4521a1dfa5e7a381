/*
 * Supervision: the table of processes. Starts the CPU worker and loaders, watches them through
 * pidfds and boards, applies the failure policy (DESIGN sections 2 and 7), and is the only part
 * that talks to them. The rest of the coordinator sees plans being bound, steps being done or lost,
 * and model files being opened and filled.
 *
 * All callbacks come from the loop, never from inside a call made here.
 */
#ifndef TERN_SUPERVISE_H
#define TERN_SUPERVISE_H

#include "coordinator/loop.h"
#include "proto/board.h"
#include "proto/plan.h"
#include "proto/segment.h"

struct tern_supervisor;

/* Why a step was lost. */
enum tern_death {
    TERN_DEATH_FAULT,  /* the worker's own fault: SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, exit */
    TERN_DEATH_KILLED, /* from outside: SIGKILL, SIGTERM, out of memory */
    TERN_DEATH_HANG,   /* killed by us: no instruction finished within the deadline */
};

struct tern_supervisor_events {
    void *context;
    /* The step's results, copied from the board of the incarnation that ran it and range-checked
     * (argmax < vocabulary of the plan); valid during the call. */
    void (*step_done)(void *context, uint64_t step, const struct tern_step_result *result);
    /* A run-ahead step finished (see tern_step.grant). Steps come in order. A death in a run is
     * told as step_lost with the number after the last one granted. */
    void (*step_granted)(void *context, uint64_t step, const struct tern_granted_token *granted);
    /* The worker died in this step (or before beginning it); the successor is bound and ready.
     * Nothing of the step will be written any more. The scheduler issues its rows again. */
    void (*step_lost)(void *context, uint64_t step, enum tern_death death);
    /* A plan that was in use could not be bound again, in many starts of the worker. Its steps are
     * not told lost; it is released. May be NULL: it is tried for ever. */
    void (*plan_lost)(void *context, uint32_t plan, const struct tern_error *error);
};

/* Starts nothing yet: the CPU worker starts with the first binding. `control` is the ipc:// address
 * workers connect to. libexec is the folder with tern-cpu and tern-loader. */
enum tern_status tern_supervisor_new(struct tern_loop *loop, void *zmq_context, const char *control,
                                     const char *libexec,
                                     const struct tern_supervisor_events *events,
                                     struct tern_supervisor **out, struct tern_error *error);
/* Asks all processes to end, kills what remains after a second, reaps; without callbacks. Loaders
 * that are still open are freed with it. Not from inside a callback. */
void tern_supervisor_free(struct tern_supervisor *supervisor);

/* ---- segments ---- */

/* A segment id that was never used before. */
uint64_t tern_supervisor_segment_id(struct tern_supervisor *supervisor);

/* ---- plans on the CPU worker ---- */

/* Everything a worker needs for one model. Descriptors are borrowed while the binding exists;
 * writable ones are reopened read-only for whoever must not write. */
struct tern_binding {
    uint32_t plan; /* chosen by the caller, unique among bindings */
    int plan_fd, weights_fd, kv_fd, activations_fd, tables_fd;
    uint64_t plan_id, weights_id, kv_id, activations_id, tables_id;
    uint64_t plan_size, weights_size, kv_size, activations_size, tables_size; /* data bytes */
    enum tern_tier tier;
    uint32_t threads;
    uint32_t vocabulary;
};
/* Answers once. status TERN_OK: the plan may be used in steps. */
typedef void (*tern_bound)(void *context, const struct tern_error *error);

/* Sends the binding to the worker (starting it if needed) and again to every later incarnation. */
enum tern_status tern_supervisor_bind(struct tern_supervisor *supervisor,
                                      const struct tern_binding *binding, tern_bound bound,
                                      void *context, struct tern_error *error);
/* No step of that plan should be in flight; of one that is, nothing more is told. The descriptors
 * are the caller's again after the call; the worker unmaps soon after. */
void tern_supervisor_release(struct tern_supervisor *supervisor, uint32_t plan);
/* Does the worker still map what was released? `released` is called when it does not any more. */
bool tern_supervisor_releasing(const struct tern_supervisor *supervisor);
void tern_supervisor_on_released(struct tern_supervisor *supervisor, tern_callback released,
                                 void *context);

/* ---- steps ---- */

/* The page table of a sequence on the coordinator's board (TERN_MAX_PAGES entries). Change only
 * entries that no step in flight reads. */
uint32_t *tern_supervisor_page_table(struct tern_supervisor *supervisor, uint32_t sequence);

/* Issues a step; number and epoch are filled in here. At most TERN_STEP_RING - 1 may be in flight.
 * Returns the step's number, or 0 (and logs) for one that cannot be. The caller has checked it
 * against the plan. */
uint64_t tern_supervisor_issue(struct tern_supervisor *supervisor, const struct tern_step *step);
/* Room for one more step? False also while the worker is being restarted, and while a step with
 * run-ahead is in flight. */
bool tern_supervisor_ready(const struct tern_supervisor *supervisor);
/* No run-ahead step after `number` may begin; returns the newest one that did (or number). Its
 * token and those before it still come, and tern_supervisor_ready is false until then. */
uint64_t tern_supervisor_revoke(struct tern_supervisor *supervisor, uint64_t number);

/* ---- model files ---- */

struct tern_loader; /* one loader process with one open file */

struct tern_loader_events {
    void *context;
    /* The catalog, mapped read-only; stays valid until tern_loader_close. */
    void (*catalog)(void *context, const struct tern_segment *catalog);
    void (*progress)(void *context, uint64_t bytes, uint64_t of);
    void (*filled)(void *context);
    /* The loader refused the file, crashed, hung or was killed. Comes at most once and last. */
    void (*failed)(void *context, const struct tern_error *error);
};

/* Opens `path` (regular files only, without blocking) and starts a loader on it. */
enum tern_status tern_loader_open(struct tern_supervisor *supervisor, const char *path,
                                  const struct tern_loader_events *events, struct tern_loader **out,
                                  struct tern_error *error);
/* After `catalog`: reads all tensors into the weights segment (writable fd, its id and data size);
 * the layout is tern_catalog_layout's. drop_cache: leave no copy in the page cache. After `filled`
 * the loader has exited and the segment may be sealed. */
enum tern_status tern_loader_fill(struct tern_loader *loader, int weights_fd, uint64_t weights_id,
                                  uint64_t weights_size, bool drop_cache, struct tern_error *error);
/* Ends the process if it still runs, unmaps the catalog, frees. Allowed from inside callbacks. */
void tern_loader_close(struct tern_loader *loader);

/* ---- what `tern ps` shows ---- */

struct tern_process_info {
    const char *role;  /* "cpu", "loader" */
    int pid;           /* 0: not running */
    const char *state; /* "running", "starting", "restarting", "stopped" */
    uint32_t restarts;
    uint64_t calls[TERN_TIERS]; /* kernel calls since the process started, by tier */
};
/* Fills at most `room` entries; returns how many there are. */
size_t tern_supervisor_processes(const struct tern_supervisor *supervisor,
                                 struct tern_process_info *info, size_t room);

#endif
