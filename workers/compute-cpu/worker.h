/*
 * The CPU worker as a whole: control on the calling thread, steps on a thread of their own.
 */
#ifndef TERN_CPU_WORKER_H
#define TERN_CPU_WORKER_H

#include "proto/worker.h"

/* Runs the worker until it is to end; see proto/worker.h for what it finds where. The caller exits
 * the process at once with what it returns. */
enum tern_worker_exit tern_worker_run(void);

#endif
