#include "cmd/tern/chat/input.h"

#include "cmd/tern/client.h"
#include "proto/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A turn being gathered. */
struct turn {
    char *text;
    size_t length;
    bool block; /* between two """ */
    bool begun; /* a line of it was read */
};

enum tern_status input_open(struct input *input, struct tern_error *error)
{
    const bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    *input = (struct input){0};
    if (terminal)
        input->editor = editor_open();
    else
        input->reader = reader_open();
    if (input->editor == NULL && input->reader == NULL)
        return tern_fail(error, terminal ? TERN_FAILED : TERN_NO_MEMORY,
                         terminal ? "this terminal cannot be used; try TERM=dumb"
                                  : "out of memory");
    return TERN_OK;
}

void input_close(struct input *input)
{
    if (input->editor != NULL)
        editor_close(input->editor);
    if (input->reader != NULL)
        reader_close(input->reader);
}

static void drop(struct turn *turn)
{
    free(turn->text);
    *turn = (struct turn){0};
}

/* Adds a line to the turn, behind a newline if there is one already. */
static bool add(struct turn *turn, const char *text, size_t length, struct tern_error *error)
{
    if (turn->length + length > INPUT_TURN_MAX)
        return tern_fail(error, TERN_USAGE, "a turn is longer than %d MiB", INPUT_TURN_MAX >> 20) ==
               TERN_OK;
    char *larger = realloc(turn->text, turn->length + length + 2);
    if (larger == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory for the text") == TERN_OK;
    turn->text = larger;
    if (turn->begun)
        turn->text[turn->length++] = '\n';
    memcpy(turn->text + turn->length, text, length);
    turn->length += length;
    turn->text[turn->length] = '\0';
    turn->begun = true;
    return true;
}

/* Takes one line. *more: the turn goes on. */
static bool take_line(struct turn *turn, const struct line *line, bool *more,
                      struct tern_error *error)
{
    const bool quotes = strcmp(line->text, "\"\"\"") == 0;
    *more = true;
    if (quotes && turn->block) {
        *more = false;
        return true;
    }
    if (quotes && !turn->begun) {
        turn->block = true;
        return true;
    }
    if (turn->block)
        return add(turn, line->text, line->length, error);
    *more = line->length > 0 && line->text[line->length - 1] == '\\';
    return add(turn, line->text, line->length - *more, error);
}

/* Lines until the turn is whole. */
static enum input_event gather(struct input *input, struct turn *turn, struct tern_error *error)
{
    bool more = true, warned = false;
    while (more) {
        struct line line;
        bool cleared = false;
        const enum input_event event =
            input->editor != NULL
                ? editor_line(input->editor, turn->begun || turn->block ? ". " : "> ", &line,
                              &cleared)
                : reader_line(input->reader, &line, error);
        if (event == INPUT_INTERRUPTED && !client_interrupted()) { /* a Ctrl-C that was taken */
            const bool typed = cleared || turn->begun || turn->block;
            if (!typed && warned)
                return event;
            if (!typed)
                fprintf(stderr, "Ctrl-C once more ends the chat, as Ctrl-D does.\n");
            warned = !typed;
            drop(turn);
            continue;
        }
        if (event == INPUT_END && turn->begun)
            return INPUT_TEXT;
        if (event != INPUT_TEXT)
            return event;
        if (!take_line(turn, &line, &more, error))
            return INPUT_FAILED;
    }
    return INPUT_TEXT;
}

static bool blank(const struct turn *turn)
{
    return turn->text == NULL || strspn(turn->text, " \t\r\n") == turn->length;
}

/* Text as a person would type it: a block's slash at its beginning is doubled. */
static void remember(struct editor *editor, const struct turn *turn)
{
    char *typed = malloc(turn->length + 2);
    if (typed == NULL)
        return; /* only the arrow keys miss it */
    stpcpy(stpcpy(typed, turn->block && turn->text[0] == '/' ? "/" : ""), turn->text);
    editor_remember(editor, typed);
    free(typed);
}

static enum input_event check(struct turn *turn, struct tern_error *error)
{
    if (strlen(turn->text) != turn->length || !tern_utf8_valid(turn->text, turn->length)) {
        tern_fail(error, TERN_USAGE, "the text is not UTF-8 without NUL; it was not sent");
        return INPUT_FAILED;
    }
    if (turn->block || turn->text[0] != '/')
        return INPUT_TEXT;
    if (turn->text[1] != '/')
        return INPUT_COMMAND;
    memmove(turn->text, turn->text + 1, turn->length); /* with its NUL */
    return INPUT_TEXT;
}

enum input_event input_turn(struct input *input, char **text, struct tern_error *error)
{
    struct turn turn;
    enum input_event event;
    *text = NULL;
    do {
        turn = (struct turn){0};
        event = gather(input, &turn, error);
        if (event != INPUT_TEXT)
            drop(&turn);
    } while (event == INPUT_TEXT && blank(&turn) && (free(turn.text), true));
    if (event != INPUT_TEXT)
        return event;
    if (input->editor != NULL)
        remember(input->editor, &turn);
    event = check(&turn, error);
    if (event == INPUT_FAILED)
        free(turn.text);
    else
        *text = turn.text;
    return event;
}
