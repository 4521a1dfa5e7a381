/*
 * What went wrong, for a person to read: a status (which is also the exit code of the command line
 * tool) and one line that names the thing, its value and the remedy. Functions that can fail for a
 * reason a person will read take a `struct tern_error *` and return its status.
 */
#ifndef TERN_PROTO_STATUS_H
#define TERN_PROTO_STATUS_H

#include "proto/log.h"

enum tern_status {
    TERN_OK = 0,
    TERN_FAILED = 1,      /* anything without a code of its own */
    TERN_USAGE = 2,       /* the caller's values: options, ids, text that is not UTF-8 */
    TERN_BAD_MODEL = 3,   /* the file is no usable model: malformed, truncated, non-finite */
    TERN_NO_MEMORY = 4,   /* not enough memory or context */
    TERN_UNSUPPORTED = 5, /* a valid file with something Tern does not support */
    TERN_GAVE_UP = 6,     /* a worker died on the same step of this request again and again */
    TERN_NO_SERVICE = 7,  /* the service cannot be reached or started */
    TERN_INTERRUPTED = 130,
};

/* What a reader can do about a model file that is no good. */
#define TERN_REMEDY_AGAIN   "get the file again"
#define TERN_REMEDY_CONVERT "the file is malformed: get it again or convert the model anew"
#define TERN_REMEDY_OTHER   "use another model file"

struct tern_error {
    enum tern_status status;
    char message[500]; /* one line, no newline at its end, valid UTF-8 whatever was formatted in */
};

/* Fills *error (which may be NULL) and returns `status`, so that `return tern_fail(...)` reads
 * well. Control characters and bytes that are not UTF-8 in the formatted text are replaced by '?'.
 */
enum tern_status tern_fail(struct tern_error *error, enum tern_status status, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));

/* Where `status` says that a model file is malformed or not supported, appends "; " and the remedy
 * to the message of *error (which may be NULL). Returns `status`. */
enum tern_status tern_add_remedy(struct tern_error *error, enum tern_status status);

/* Puts "name: " before the message, unless it tells the name already. */
void tern_add_name(struct tern_error *error, const char *name);

#endif
