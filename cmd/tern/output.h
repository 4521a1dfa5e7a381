/* What goes to a person's screen: progress lines on stderr, answers, replies; files read whole. */
#ifndef TERN_CMD_OUTPUT_H
#define TERN_CMD_OUTPUT_H

#include "cmd/tern/screen.h"
#include "proto/message.h"
#include <jansson.h>

/* A PROGRESS reply. With units: a line that is redrawn, on terminals only. Without: a note, one
 * line. */
void output_progress(const struct tern_message *reply);
/* The redrawn line, for work that the client does itself. */
void output_units(const char *text, uint64_t done, uint64_t all);
/* Clears a redrawn line, if there is one. */
void output_progress_end(void);

/* Everything of a file ("-": standard input), malloc'ed, NUL-terminated behind *length bytes. */
enum tern_status read_all(const char *path, char **bytes, size_t *length, struct tern_error *error);

/* A JSON list of token ids from a file ("-": standard input) as malloc'ed u32s. TERN_USAGE. */
enum tern_status read_ids(const char *path, uint32_t **ids, size_t *count,
                          struct tern_error *error);

/* Writes all bytes to standard output; false when nobody reads any more. */
bool write_out(const void *bytes, size_t length);

/* Prints ids as one JSON list and a newline; false when nobody reads any more. */
bool print_ids(const uint32_t *ids, size_t count);

/* Writes a piece of an answer to standard output: cleaned when it is a terminal, else as it is.
 * False when nobody reads any more. */
bool write_answer(struct screen *screen, const char *text, size_t length);

/* Ends the line of an answer; progress may be drawn again. False when nobody reads any more. */
bool end_answer(void);
/* The same only if one stands on a terminal, where a message or a prompt would run into it. */
void end_answer_on_screen(void);

/* Prints a text that may hold anything so that it cannot command a terminal: control characters
 * become '?'. Returns the characters printed. */
int print_shown(const char *text);

/* Something else than writing failed, so that the output is not whole; for finish_output. */
void output_failed(int reason);

/* For client_call: keeps the json and text fields of a RESULT. Free `text` yourself and json with
 * json_decref. */
struct result {
    json_t *json;
    char *text;
};
bool take_result(void *result, const struct tern_message *reply);

/* For client_call: collects the ids and bytes of TOKENS replies; free both. */
struct collected {
    uint32_t *ids;
    size_t count;
    char *bytes;
    size_t length;
    bool failed; /* out of memory */
};
bool collect(void *collected, const struct tern_message *reply);

/* Waits that long for nothing, or until a signal asks for the end; false, at once, when nobody
 * reads standard output any more. */
bool wait_while_read(int64_t ns);

/* Ends standard output: `code`, or failure with a message when something could not be written (a
 * full disk). A reader that went away (`tern ... | head -1`) is no failure. */
int finish_output(int code);

#endif
