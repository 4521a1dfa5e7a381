#include "cmd/tern/output.h"

#include "cmd/tern/client.h"
#include "cmd/tern/json_input.h"
#include "proto/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool line_drawn;
static bool answer_on_screen; /* a line drawn now would wipe the answer's last one */
static int write_error;       /* errno of what was not written, 0: all was */

void output_units(const char *text, uint64_t done, uint64_t all)
{
    if (!isatty(STDERR_FILENO) || all == 0 || answer_on_screen)
        return;
    fprintf(stderr, "\r\033[K%s %3.0f%%", text, 100.0 * (double)done / (double)all);
    fflush(stderr);
    line_drawn = true;
}

void output_progress(const struct tern_message *reply)
{
    char text[sizeof((struct tern_error *)0)->message];
    size_t length;
    const char *told = tern_message_text(reply, TERN_F_TEXT, &length);
    if (told == NULL)
        return;
    snprintf(text, sizeof text, "%.*s", (int)length, told);
    tern_utf8_show(text); /* it may name a file, or what stands in one */
    if (tern_message_has(reply, TERN_F_ALL_UNITS)) {
        output_units(text, tern_message_u64(reply, TERN_F_DONE_UNITS, 0),
                     tern_message_u64(reply, TERN_F_ALL_UNITS, 0));
        return;
    }
    output_progress_end();
    fprintf(stderr, "%stern: %s\n", answer_on_screen ? "\n" : "", text);
}

void output_progress_end(void)
{
    if (line_drawn)
        fprintf(stderr, "\r\033[K");
    line_drawn = false;
}

/* As read; a signal that asks for the end ends it with EINTR. */
static ssize_t read_some(int fd, char *bytes, size_t room)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    while (!client_interrupted()) {
        if (client_poll(&item, 1, -1) < 0 && errno == EINTR)
            continue;
        const ssize_t got = read(fd, bytes, room);
        if (got >= 0 || errno != EINTR)
            return got;
    }
    errno = EINTR;
    return -1;
}

/* Everything that comes, with a NUL behind it; the caller frees *bytes, also where it fails. */
static enum tern_status read_descriptor(int fd, const char *path, char **bytes, size_t *length,
                                        struct tern_error *error)
{
    size_t room = 0;
    ssize_t got = 1;
    *bytes = NULL;
    for (*length = 0; got > 0 && *length <= TERN_MESSAGE_MAX;
         *length += got > 0 ? (size_t)got : 0) {
        if (*length == room) {
            char *larger = realloc(*bytes, (room = room > 0 ? 2 * room : 65536) + 1);
            if (larger == NULL)
                return tern_fail(error, TERN_NO_MEMORY, "out of memory while reading %s", path);
            *bytes = larger;
        }
        got = read_some(fd, *bytes + *length, room - *length);
    }
    if (got < 0 && errno == EINTR)
        return tern_fail(error, TERN_INTERRUPTED, "interrupted");
    if (got < 0)
        return tern_fail(error, TERN_USAGE, "cannot read %s: %s", path, strerror(errno));
    if (got > 0)
        return tern_fail(error, TERN_USAGE, "%s is longer than %d MiB", path,
                         TERN_MESSAGE_MAX >> 20);
    (*bytes)[*length] = '\0';
    return TERN_OK;
}

enum tern_status read_all(const char *path, char **bytes, size_t *length, struct tern_error *error)
{
    const bool standard = strcmp(path, "-") == 0;
    const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tern_fail(error, TERN_USAGE, "cannot open %s: %s", path, strerror(errno));
    const enum tern_status status =
        read_descriptor(fd, standard ? "standard input" : path, bytes, length, error);
    if (!standard)
        close(fd);
    if (status != TERN_OK)
        free(*bytes);
    return status;
}

enum tern_status read_ids(const char *path, uint32_t **ids, size_t *count, struct tern_error *error)
{
    char *text;
    size_t length;
    enum tern_status status = read_all(path, &text, &length, error);
    if (status != TERN_OK)
        return status;
    status = ids_parse(strcmp(path, "-") == 0 ? "standard input" : path, text, length, ids, count,
                       error);
    free(text);
    return status;
}

/* Past stdio, which loses what a signal keeps it from writing. Whoever asked for the end does not
 * wait for a reader that takes nothing (a terminal after Ctrl-S): the rest is left out. */
static bool write_through(const char *bytes, size_t length)
{
    struct pollfd item = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (length > 0) {
        const ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written < 0 && errno == EAGAIN)
            client_poll(&item, 1, -1);
        if (written < 0 && (errno == EINTR || errno == EAGAIN)) {
            if (client_interrupted())
                return true;
            continue;
        }
        if (written < 0)
            return false;
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

bool write_out(const void *bytes, size_t length)
{
    answer_on_screen |= length > 0 && isatty(STDOUT_FILENO);
    if (fflush(stdout) == 0 && write_through(bytes, length))
        return true;
    output_failed(errno);
    return false;
}

bool write_answer(struct screen *screen, const char *text, size_t length)
{
    static int terminal = -1;
    if (terminal < 0)
        terminal = isatty(STDOUT_FILENO);
    if (!terminal)
        return write_out(text, length);
    while (length > 0) {
        char clean[SCREEN_ROOM(1024)];
        const size_t piece = length < 1024 ? length : 1024;
        if (!write_out(clean, screen_clean(screen, text, piece, clean)))
            return false;
        text += piece;
        length -= piece;
    }
    return true;
}

bool end_answer(void)
{
    const bool written = write_out("\n", 1);
    answer_on_screen = false;
    return written;
}

void end_answer_on_screen(void)
{
    if (answer_on_screen)
        end_answer();
}

static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

bool wait_while_read(int64_t ns)
{
    struct pollfd item = {.fd = STDOUT_FILENO}; /* what is waited for comes unasked */
    return client_poll(&item, 1, ns) <= 0;
}

int finish_output(int code)
{
    const bool earlier = ferror(stdout) != 0 || write_error != 0;
    if (fflush(stdout) == 0 && !earlier)
        return code;
    const int why = write_error != 0 ? write_error : errno;
    if (reader_is_gone())
        return code;
    fprintf(stderr, "tern: cannot write the output: %s\n", strerror(why));
    return code != 0 ? code : TERN_FAILED;
}

bool print_ids(const uint32_t *ids, size_t count)
{
    fputc('[', stdout);
    for (size_t i = 0; i < count; i++)
        fprintf(stdout, i == 0 ? "%u" : ", %u", ids[i]);
    return write_out("]", 1) && end_answer();
}

int print_shown(const char *text)
{
    int characters = 0;
    for (int bytes; *text != '\0'; text += bytes, characters++) {
        const int character = tern_utf8_character(text, 4); /* ends before the NUL */
        bytes = character > 0 ? character : 1;
        if (character <= 0 || tern_utf8_control(text) > 0)
            putchar('?');
        else
            fwrite(text, 1, (size_t)bytes, stdout);
    }
    return characters;
}

void output_failed(int reason)
{
    write_error = reason;
}

bool take_result(void *context, const struct tern_message *reply)
{
    struct result *result = context;
    size_t length;
    const char *json = tern_message_text(reply, TERN_F_JSON, &length);
    if (json != NULL)
        result->json = json_loadb(json, length, JSON_DECODE_ANY, NULL);
    result->text = tern_message_copy(reply, TERN_F_TEXT);
    return true;
}

static bool append(void **array, size_t *length, const void *more, size_t bytes)
{
    if (bytes == 0)
        return true;
    void *larger = realloc(*array, *length + bytes);
    if (larger == NULL)
        return false;
    memcpy((char *)larger + *length, more, bytes);
    *array = larger;
    *length += bytes;
    return true;
}

bool collect(void *context, const struct tern_message *reply)
{
    struct collected *c = context;
    size_t bytes, length = c->count * sizeof *c->ids;
    void *ids = c->ids, *text = c->bytes;
    const char *more = tern_message_text(reply, TERN_F_TOKENS, &bytes);
    bool good = append(&ids, &length, more, bytes);
    c->ids = ids;
    c->count = length / sizeof *c->ids;
    more = tern_message_text(reply, TERN_F_BYTES, &bytes);
    good = append(&text, &c->length, more, bytes) && good;
    c->bytes = text;
    c->failed |= !good;
    return good;
}
