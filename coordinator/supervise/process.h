/*
 * One entry of the table of processes: what every process the coordinator starts has in common.
 * Starting, killing and reaping are the same for all roles; what an end means is the owner's.
 */
#ifndef TERN_SUPERVISE_PROCESS_H
#define TERN_SUPERVISE_PROCESS_H

#include "coordinator/supervise.h"
#include "coordinator/supervise/last_words.h"
#include <sys/types.h>

enum process_state {
    PROCESS_STOPPED,    /* not running and not wanted */
    PROCESS_STARTING,   /* running, has not said hello */
    PROCESS_RUNNING,    /* at work or ready for it */
    PROCESS_RESTARTING, /* died; the next incarnation is due or getting ready */
};

/* How a process ended. */
struct process_end {
    bool by_signal;
    int code; /* signal or exit code */
};

struct process {
    struct process *next;
    struct tern_loop *loop;
    const char *role; /* as `tern ps` shows it */
    enum process_state state;
    pid_t pid;   /* 0: not running */
    int pidfd;   /* -1 if not running */
    int channel; /* our end, non-blocking; -1 if not running */
    int watch;   /* of the pidfd */
    int overdue; /* timer: has not died long after SIGKILL */
    bool killed; /* by us */
    struct last_words words;
    uint32_t incarnation;
    uint32_t restarts;
    /* The process has ended, but its channel can still be read. May be NULL. */
    void (*ending)(void *owner);
    /* The process has been reaped and its descriptors closed; called from the loop. */
    void (*ended)(void *owner, const struct process_end *end);
    void *owner;
};

void process_init(struct process *process, struct tern_loop *loop, const char *role,
                  void (*ended)(void *owner, const struct process_end *end), void *owner);

/* The next incarnation: `program` with no arguments, `extra` (NULL-terminated NAME=VALUE strings)
 * on top of the environment, its channel at descriptor 3. Not running before. */
enum tern_status process_start(struct process *process, const char *program,
                               const char *const *extra, struct tern_error *error);

/* SIGKILL, once. The end is reported as any other. */
void process_kill(struct process *process);

/* Waits until all of the listed processes have ended or `until_ns`; reaps without reporting.
 * Returns how many still run. For shutting down. */
size_t process_wait_all(struct process *list, uint64_t until_ns);

/* Whose fault an end was. */
enum tern_death process_death(const struct process_end *end);

/* "killed by SIGSEGV", "exited with code 3". */
void process_describe_end(const struct process_end *end, char *text, size_t size);

/* TERN_NO_SERVICE on a kernel without pidfds (before Linux 5.3). */
enum tern_status process_check_kernel(struct tern_error *error);

#endif
