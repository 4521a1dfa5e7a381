/* Lines of a pipe or file. */
#include "cmd/tern/chat/input.h"
#include "cmd/tern/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reader {
    char *bytes;
    size_t room, begin, end; /* unread: bytes[begin .. end) */
    bool begun, ended;
};

void reader_close(struct reader *reader)
{
    if (reader != NULL)
        free(reader->bytes);
    free(reader);
}

/* Waits for input, a signal, or the end of whoever reads standard output. */
static enum input_event wait_for_input(void)
{
    struct pollfd ends[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = STDOUT_FILENO}};
    while (client_poll(ends, 2, -1) < 0 && errno == EINTR)
        if (client_interrupted())
            return INPUT_INTERRUPTED;
    return (ends[1].revents & POLLERR) != 0 ? INPUT_CLOSED : INPUT_TEXT;
}

/* Room for more bytes behind bytes[end). */
static bool make_room(struct reader *reader)
{
    if (reader->begin > 0) {
        memmove(reader->bytes, reader->bytes + reader->begin, reader->end - reader->begin);
        reader->end -= reader->begin;
        reader->begin = 0;
    }
    if (reader->end + 1 < reader->room)
        return true;
    const size_t room = reader->room > 0 ? 2 * reader->room : 65536;
    char *larger = realloc(reader->bytes, room);
    if (larger == NULL)
        return false;
    reader->bytes = larger;
    reader->room = room;
    return true;
}

struct reader *reader_open(void)
{
    struct reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL || make_room(reader))
        return reader;
    free(reader);
    return NULL;
}

static enum input_event read_more(struct reader *reader, struct tern_error *error)
{
    if (reader->end - reader->begin > INPUT_TURN_MAX) {
        tern_fail(error, TERN_USAGE, "a line of the input is longer than %d MiB",
                  INPUT_TURN_MAX >> 20);
        return INPUT_FAILED;
    }
    if (!make_room(reader)) {
        tern_fail(error, TERN_NO_MEMORY, "out of memory for a line of the input");
        return INPUT_FAILED;
    }
    const enum input_event event = wait_for_input();
    if (event != INPUT_TEXT)
        return event;
    const ssize_t got =
        read(STDIN_FILENO, reader->bytes + reader->end, reader->room - reader->end - 1);
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
        tern_fail(error, TERN_USAGE, "cannot read standard input: %s", strerror(errno));
        return INPUT_FAILED;
    }
    reader->ended = got == 0;
    reader->end += got > 0 ? (size_t)got : 0;
    return INPUT_TEXT;
}

/* What editors of other systems put around lines is no part of what is said: a mark of the byte
 * order before the first one, carriage returns before the newlines. */
static struct line bare_line(struct reader *reader, char *start, size_t length)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t marked = !reader->begun && length >= 3 && memcmp(start, mark, 3) == 0 ? 3 : 0;
    reader->begun = true;
    if (length > marked && start[length - 1] == '\r')
        start[--length] = '\0';
    return (struct line){.text = start + marked, .length = length - marked};
}

enum input_event reader_line(struct reader *reader, struct line *line, struct tern_error *error)
{
    size_t searched = 0;
    for (;;) {
        const size_t length = reader->end - reader->begin;
        char *start = reader->bytes + reader->begin;
        char *newline =
            length > searched ? memchr(start + searched, '\n', length - searched) : NULL;
        if (newline == NULL && reader->ended && length == 0)
            return INPUT_END;
        if (newline == NULL && reader->ended)
            newline = start + length; /* the last line needs no newline; there is room for a NUL */
        if (newline != NULL) {
            *newline = '\0';
            *line = bare_line(reader, start, (size_t)(newline - start));
            reader->begin += (size_t)(newline - start) + 1;
            if (reader->begin > reader->end)
                reader->begin = reader->end;
            return INPUT_TEXT;
        }
        searched = length;
        const enum input_event event = read_more(reader, error);
        if (event != INPUT_TEXT)
            return event;
    }
}
