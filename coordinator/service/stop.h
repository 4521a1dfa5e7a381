/*
 * Texts that end an answer: matched over the answer's bytes, whatever tokens they come in. Of the
 * answer only what comes before the first match is ever given out; what may still become one is
 * held back. The outcome depends on the bytes alone, not on how they were cut.
 */
#ifndef TERN_STOP_H
#define TERN_STOP_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { TERN_MOST_STOPS = 1024 };

struct tern_stops;

/* From texts that are each followed by a NUL; copied. *out is NULL for none. TERN_USAGE: an empty
 * text, too many, a missing NUL; TERN_NO_MEMORY. */
enum tern_status tern_stops_new(const char *texts, size_t length, struct tern_stops **out,
                                struct tern_error *error);
void tern_stops_free(struct tern_stops *stops);

/* Takes `length` more bytes of the answer. Appends what can be given out now to *out (grown with
 * realloc, *out_length bytes). True in *stopped: a text was found; of several that end at the same
 * byte the longest counts. Nothing may follow then. TERN_NO_MEMORY. */
enum tern_status tern_stops_feed(struct tern_stops *stops, const char *bytes, size_t length,
                                 char **out, size_t *out_length, bool *stopped,
                                 struct tern_error *error);

/* Is this one of the texts, whole? */
bool tern_stops_name(const struct tern_stops *stops, const char *bytes, size_t length);

/* The answer is over: appends what was held back. */
enum tern_status tern_stops_end(struct tern_stops *stops, char **out, size_t *out_length,
                                struct tern_error *error);

#endif
