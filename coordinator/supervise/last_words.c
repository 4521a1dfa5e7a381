#include "coordinator/supervise/last_words.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { READS = 16 }; /* at one time: a process that writes without end gets its share only */

/* Lines of our programs begin with "<N>NAME: "; whatever else is said is no good sign. */
static void write_line(struct last_words *words)
{
    const size_t length = strlen(words->name);
    const char *text = words->line;
    words->line[words->used] = '\0';
    words->used = 0;
    const enum tern_log_level level = tern_log_prefix(&text, TERN_LOG_WARNING);
    if (strncmp(text, words->name, length) == 0 && text[length] == ':' && text[length + 1] == ' ')
        text += length + 2;
    if (*text != '\0')
        tern_log_as(words->name, level, text);
}

static void take(struct last_words *words, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != '\n' && words->used + 1 < sizeof words->line)
            words->line[words->used++] = bytes[i] != '\0' ? bytes[i] : '?';
        if (bytes[i] == '\n' || words->used + 1 == sizeof words->line)
            write_line(words);
    }
}

static void stop(struct last_words *words)
{
    if (words->used > 0)
        write_line(words);
    tern_loop_unwatch(words->loop, words->watch);
    close(words->fd);
    words->fd = -1;
}

static void on_readable(void *context)
{
    struct last_words *words = context;
    char bytes[4096];
    for (int i = 0; i < READS; i++) {
        const ssize_t got = read(words->fd, bytes, sizeof bytes);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            stop(words);
            return;
        }
        take(words, bytes, (size_t)got);
    }
}

enum tern_status last_words_open(struct last_words *words, struct tern_loop *loop, const char *name,
                                 int *writer, struct tern_error *error)
{
    int ends[2];
    *words = (struct last_words){.loop = loop, .name = name, .fd = -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return tern_fail(error, TERN_FAILED, "cannot make a pipe for the %s process: %s", name,
                         strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    words->fd = ends[0];
    words->watch = tern_loop_watch_fd(loop, ends[0], on_readable, words);
    *writer = ends[1];
    if (words->watch != 0)
        return TERN_OK;
    close(ends[0]);
    close(ends[1]);
    words->fd = -1;
    return tern_fail(error, TERN_NO_MEMORY, "out of memory");
}

void last_words_close(struct last_words *words)
{
    if (words->fd >= 0)
        on_readable(words); /* a pipe holds no more than this reads */
    if (words->fd >= 0)
        stop(words);
}
