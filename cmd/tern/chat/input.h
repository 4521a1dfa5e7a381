/*
 * What a person or a script says in a chat, a turn at a time. On a terminal lines are edited
 * (editor.c), else they are read as they come (reader.c).
 */
#ifndef TERN_CMD_CHAT_INPUT_H
#define TERN_CMD_CHAT_INPUT_H

#include "proto/message.h"
#include <stdbool.h>
#include <stddef.h>

enum input_event {
    INPUT_TEXT,        /* a line, or a turn's text */
    INPUT_COMMAND,     /* of turns: a line that begins with one slash */
    INPUT_END,         /* end of input, Ctrl-D */
    INPUT_INTERRUPTED, /* Ctrl-C twice where nothing was typed; or a signal that ends */
    INPUT_CLOSED,      /* nobody reads the answers any more */
    INPUT_FAILED,      /* with a message */
};

/* Bytes of a turn at most. */
enum { INPUT_TURN_MAX = TERN_MESSAGE_MAX / 4 };

struct input {
    struct editor *editor; /* NULL: no terminal */
    struct reader *reader;
};

/* Reads from standard input. TERN_NO_MEMORY. */
enum tern_status input_open(struct input *input, struct tern_error *error);
void input_close(struct input *input);

/*
 * The next turn, valid UTF-8 without NUL and not blank, as *text to be freed: one line, or several:
 * a line that ends in a backslash goes on in the next, and lines between two that hold only """ are
 * taken as they are. A second slash at the beginning makes a text of what would be a command, and
 * is left out. End of input ends a turn as a newline does.
 */
enum input_event input_turn(struct input *input, char **text, struct tern_error *error);

/* ---- lines ---- */

struct line {
    const char *text; /* NUL-terminated, without its newline; until the next line is read */
    size_t length;
};

struct editor *editor_open(void); /* NULL: out of memory, or a terminal that cannot be used */
void editor_close(struct editor *editor);
/* *cleared: Ctrl-C cleared a line that was not empty. */
enum input_event editor_line(struct editor *editor, const char *prompt, struct line *line,
                             bool *cleared);
/* Keeps a turn for the arrow keys, and for later chats. */
void editor_remember(struct editor *editor, const char *text);

struct reader *reader_open(void);
void reader_close(struct reader *reader);
enum input_event reader_line(struct reader *reader, struct line *line, struct tern_error *error);

#endif
