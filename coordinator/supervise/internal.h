/*
 * What the files of supervision share: the supervisor itself, with the CPU worker as its one
 * long-lived process and the model-file jobs as a list.
 *
 *   table.c     making, freeing, listing processes, control messages in
 *   compute.c   the CPU worker's life: start, hello, death, next incarnation
 *   plans.c     plans bound to it, in this incarnation and every later one
 *   steps.c     steps in flight: issued, done, granted, lost
 *   topology.c  the machine's cores, found out once
 *   deadline.c  is it hung or only slow?
 *   loader.c    one process per open model file (its own header)
 *
 * Callbacks to the rest of the coordinator may call back into any public function, so every caller
 * of one re-reads what it needs afterwards.
 */
#ifndef TERN_SUPERVISE_INTERNAL_H
#define TERN_SUPERVISE_INTERNAL_H

#include "coordinator/supervise/activity.h"
#include "coordinator/supervise/process.h"
#include "proto/channel.h"
#include "proto/message.h"

enum {
    SECRET_BYTES = 16,
    ROUTING_MAX = 255,               /* bytes of a ZeroMQ routing id */
    BUFFER_BYTES = TERN_CHANNEL_MAX, /* bytes of a message from a process, largest */
    ROW_CLASSES = 11,                /* steps of 1, 2-3, 4-7, ... 1024 rows */
};

/* The numbers of the failure policy (DESIGN section 7); tests shorten them. */
struct policy {
    uint64_t poll_ns;       /* how often progress is looked at while there is work */
    uint64_t hang_ns;       /* no instruction finished for this long, or 10x its usual time */
    uint64_t hang_max_ns;   /* deadlines double up to this */
    uint64_t unknown_ns;    /* busy with a step of unknown usual time, a start or a binding */
    uint64_t loader_ns;     /* a loader's own time without progress */
    uint64_t quit_ns;       /* between QUIT and SIGKILL */
    uint64_t restart_ns[3]; /* fourth, fifth, later starts without a finished step */
    uint32_t bind_faults;   /* deaths by its own fault that a new plan may cause */
    uint32_t bind_kills;    /* deaths from outside, or any for a plan that was in use */
};

/* A plan on the worker. */
struct plan {
    struct plan *next;
    struct tern_binding binding;
    tern_bound bound;
    void *context;
    uint32_t stages, instructions;
    bool answered;                  /* `bound` was called: the plan is known to work */
    bool ready;                     /* bound in this incarnation */
    uint32_t faults, kills;         /* deaths while it was being bound, until it is */
    uint64_t usual_ns[ROW_CLASSES]; /* a step's usual time; 0: not known */
};

/* A step in flight. Its rows stay in the coordinator's ring. */
struct flight {
    uint64_t number, issued_ns;
    struct plan *plan;
    uint32_t grant; /* run-ahead steps that may follow */
    uint32_t taken; /* of those, delivered */
    bool delivered; /* the step itself */
    bool ended;     /* no further run-ahead step will come */
    bool revoked;   /* none after `limit` may begin */
    uint64_t limit;
};

struct lost {
    uint64_t number;
    uint32_t plan;
    enum tern_death death;
};

enum compute_state {
    COMPUTE_STOPPED,  /* nothing is bound */
    COMPUTE_WAITING,  /* the next start is due later */
    COMPUTE_STARTING, /* running, hello not seen */
    COMPUTE_BINDING,  /* plans of the incarnation before are being bound again */
    COMPUTE_READY,
};

/* The look-out for a worker that hangs; idle while no work is out. */
struct deadline {
    int timer;
    uint64_t word, done;  /* the board's words when last seen to move */
    uint64_t since_ns;    /* when that was */
    uint64_t extended_ns; /* the deadline of a slow worker, 0 = the usual one */
    bool measured;        /* `before` is filled */
    bool asleep;          /* all threads slept at the last look */
    struct activity before, now;
};

struct compute {
    struct process process;
    enum compute_state state;
    uint8_t secret[SECRET_BYTES];
    uint8_t routing[ROUTING_MAX]; /* where its messages come from, after hello */
    size_t routing_size;
    int event, event_watch;    /* the worker writes it after a step */
    struct tern_segment board; /* this incarnation's, read-only */
    uint32_t starts;           /* without a finished step in between */
    int restart;               /* timer */
    enum tern_death verdict;   /* why we killed it */
    bool condemned;            /* we killed it: `verdict` counts, not the signal */
    struct plan *plans;        /* in the order of binding */
    struct plan *binding;      /* BIND sent, answer not seen; NULL if released since */
    bool bind_pending;         /* the answer to a BIND is due ... */
    uint32_t bind_number;      /* ... for this plan */
    uint32_t releases;         /* sent to this incarnation and not answered */
    tern_callback released;    /* all are answered */
    void *released_context;
    struct flight flight[TERN_STEP_RING];
    size_t flights;
    struct lost lost[TERN_STEP_RING]; /* told when the successor is ready */
    size_t losts;
    uint64_t last_number; /* of a step, issued or granted */
    struct deadline deadline;
    struct tern_step_result result; /* the one being delivered */
};

struct tern_supervisor {
    struct tern_loop *loop;
    void *router;
    int router_watch;
    char *control, *libexec;
    struct tern_supervisor_events events;
    struct policy policy;
    uint64_t last_segment;
    int board_fd;              /* the coordinator's board */
    struct tern_segment board; /* writable */
    int topology_fd;           /* made at the first start of a worker; -1: none */
    bool topology_tried;
    struct process *processes; /* the table */
    struct compute compute;
    struct tern_loader *loaders;
    void *buffer; /* one received message, BUFFER_BYTES */
};

static inline struct tern_coordinator_board *own_board(const struct tern_supervisor *s)
{
    return (struct tern_coordinator_board *)(void *)s->board.data;
}

/* NULL while no incarnation exists. */
static inline const struct tern_worker_board *worker_board(const struct tern_supervisor *s)
{
    return (const struct tern_worker_board *)(const void *)s->compute.board.data;
}

/* table.c */
void table_add(struct tern_supervisor *s, struct process *process);
void table_remove(struct tern_supervisor *s, struct process *process);
/* Path of a program in the libexec folder; the caller frees it. NULL: out of memory. */
char *program_path(const struct tern_supervisor *s, const char *name);
/* Sends to the CPU worker over ZeroMQ and frees the pack. False if it could not be queued. */
bool send_control(struct tern_supervisor *s, struct tern_pack *pack);
/* Sends a segment's descriptor, reopened read-only unless `writable`. */
enum tern_status send_segment(int channel, int fd, enum tern_segment_kind kind, uint64_t id,
                              uint64_t size, bool writable, struct tern_error *error);

/* topology.c */
/* hwloc's XML in a memfd, or -1: workers find out for themselves. */
int topology_export(void);

/* compute.c */
void compute_init(struct tern_supervisor *s);
void compute_free(struct tern_supervisor *s);
/* Starts the worker if it is stopped. */
enum tern_status compute_want(struct tern_supervisor *s, struct tern_error *error);
void compute_message(struct tern_supervisor *s, const uint8_t *routing, size_t routing_size,
                     const struct tern_message *message);
/* Kills the worker; what follows is the order after a death. */
void compute_condemn(struct tern_supervisor *s, enum tern_death verdict);
/* All plans of earlier incarnations are bound again: work goes on. */
void compute_ready(struct tern_supervisor *s);

/* plans.c */
void plans_hello(struct tern_supervisor *s); /* binds what there is, one after the other */
void plans_next(struct tern_supervisor *s);
void plans_answer(struct tern_supervisor *s, const struct tern_message *message);
/* The worker died, in `binding` if it was binding a plan, or before hello. */
void plans_death(struct tern_supervisor *s, enum tern_death death, bool before_hello,
                 const char *how);
/* The worker unmapped so many of the plans that were released; after a death all of them. */
void plans_released(struct tern_supervisor *s, uint32_t count);
void plans_free(struct tern_supervisor *s);

/* steps.c */
void steps_collect(struct tern_supervisor *s); /* delivers what is finished */
void steps_death(struct tern_supervisor *s, enum tern_death death);
void steps_tell_lost(struct tern_supervisor *s);
/* The plan is released: nothing more is told about its steps. */
void steps_forget(struct tern_supervisor *s, const struct plan *plan);
/* Rows of the oldest step in flight and its plan, or NULL. */
const struct plan *steps_oldest(const struct tern_supervisor *s, uint32_t *rows);

/* deadline.c */

/* How long a worker without progress is believed, by what it is doing. */
struct patience {
    uint64_t stopped_ns, asleep_ns, busy_ns;
};

/* What is seen of a worker without progress. */
struct stall {
    uint64_t elapsed_ns;           /* since the last progress */
    uint64_t used_ns;              /* CPU time of its busiest thread since about then */
    bool stopped;                  /* state T */
    bool wants;                    /* a thread wants a CPU or waits for a disk */
    bool slept;                    /* it was asleep at the look before, too */
    uint64_t extended_ns, most_ns; /* its doubled deadline, and where doubling ends */
    struct patience patience;
};

enum judgement {
    JUDGE_WAIT,
    JUDGE_ASLEEP, /* look again: it may have been caught between two instructions */
    JUDGE_SLOW,   /* its deadline doubles */
    JUDGE_HUNG,
};
enum judgement deadline_judge(const struct stall *stall);

/* Work was given to the worker. `first`: it had none before, so its time starts now. */
void deadline_expect(struct tern_supervisor *s, bool first);
void deadline_progress(struct tern_supervisor *s); /* it was seen to get on */
void deadline_end(struct tern_supervisor *s);      /* no worker, no work */
static inline int row_class(uint32_t rows)
{
    return rows == 0 ? 0 : 31 - __builtin_clz(rows | 1);
}

/* loader.c */
void loaders_free(struct tern_supervisor *s);

#endif
