/*
 * The log, in one format for all processes: one line each, control characters and bytes that are
 * not UTF-8 escaped as \xNN.
 *
 *   2026-11-30T05:14:16.123Z warning cpu: text      to a terminal or a file
 *   <4>cpu: text                                    to a pipe or socket, as sd-daemon(3) says;
 *                                                   who reads it (the journal, or ternd its
 *                                                   workers) adds the time
 */
#ifndef TERN_PROTO_LOG_H
#define TERN_PROTO_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum tern_log_level {
    TERN_LOG_ERROR,
    TERN_LOG_WARNING,
    TERN_LOG_INFO,
    TERN_LOG_DEBUG,
    TERN_LOG_LEVELS,
};

/* "error", "warning", "info", "debug". */
const char *tern_log_level_name(enum tern_log_level level);
/* False if there is no such level. `name` need not be NUL-terminated. */
bool tern_log_level_find(const char *name, size_t length, enum tern_log_level *level);

/* The environment variable that sets the level of a process and of those it starts; "info" when it
 * is absent or names no level. */
#define TERN_LOG_LEVEL "TERN_LOG_LEVEL"

/* The NAME of this process in its lines ("ternd", "cpu", "loader"; a string that lives for ever).
 * Reads the level from the environment. Call it first. */
void tern_log_name(const char *name);

/* One line, if the level is wanted; `level` is one of the names above. Never fails, never ends the
 * process: what cannot be written is dropped. */
void tern_log(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a line that another process wrote. */
void tern_log_as(const char *name, enum tern_log_level level, const char *text);

/* Where finished lines go (with their newline); standard error at first. `timed`: they begin with
 * the time whatever standard error is. */
void tern_log_to(void (*write)(const char *line, size_t length), bool timed);

/* Takes a "<N>" prefix of sd-daemon(3) off *text; `otherwise` without one. */
enum tern_log_level tern_log_prefix(const char **text, enum tern_log_level otherwise);

#endif
