/*
 * What a process that the coordinator started says on its standard output and error: log lines, and
 * the last words of libraries. Read from a pipe, written to the log line by line under its name.
 */
#ifndef TERN_SUPERVISE_LAST_WORDS_H
#define TERN_SUPERVISE_LAST_WORDS_H

#include "coordinator/loop.h"
#include "proto/status.h"
#include <stddef.h>

struct last_words {
    struct tern_loop *loop;
    const char *name; /* of the process, in the log */
    int fd;           /* -1: closed */
    int watch;
    size_t used;
    char line[1000];
};

/* Opens the pipe; *writer is the end for the process, the caller's to close. */
enum tern_status last_words_open(struct last_words *words, struct tern_loop *loop, const char *name,
                                 int *writer, struct tern_error *error);
/* The process has ended: takes what is still in the pipe and closes it. */
void last_words_close(struct last_words *words);

#endif
