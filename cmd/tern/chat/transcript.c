#include "cmd/tern/chat/transcript.h"

#include "cmd/tern/json_input.h"
#include "cmd/tern/new_file.h"
#include "proto/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- checking ---- */

static enum tern_status check_message(const char *name, size_t i, const json_t *message,
                                      const char *expected, struct tern_error *error)
{
    const json_t *role = json_object_get(message, "role");
    const json_t *content = json_object_get(message, "content");
    if (!json_is_object(message) || json_object_size(message) != 2 || !json_is_string(role) ||
        !json_is_string(content))
        return tern_fail(error, TERN_USAGE,
                         "%s: message %zu is not of the form {\"role\": \"...\", \"content\": "
                         "\"...\"}",
                         name, i + 1);
    if (strcmp(json_string_value(role), expected) != 0)
        return tern_fail(error, TERN_USAGE, "%s: message %zu has the role '%.40s'; it must be '%s'",
                         name, i + 1, json_string_value(role), expected);
    return TERN_OK;
}

static enum tern_status check_messages(const char *name, const json_t *list,
                                       struct tern_error *error)
{
    const char *first = json_string_value(json_object_get(json_array_get(list, 0), "role"));
    const size_t system = first != NULL && strcmp(first, "system") == 0;
    const size_t count = json_array_size(list);
    enum tern_status status = TERN_OK;
    if (!json_is_array(list))
        return tern_fail(error, TERN_USAGE, "%s is no JSON list of messages", name);
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        const char *speaker = (i - system) % 2 == 0 ? "user" : "assistant";
        status =
            check_message(name, i, json_array_get(list, i), i < system ? "system" : speaker, error);
    }
    if (status == TERN_OK && (count - system) % 2 != 0)
        status = tern_fail(error, TERN_USAGE,
                           "%s ends with the user's message; an answer must follow it", name);
    return status;
}

enum tern_status transcript_parse(const char *name, const char *text, size_t length,
                                  json_t **messages, struct tern_error *error)
{
    json_error_t where = {0};
    *messages = NULL;
    /* A list, its messages, and at most one comma for each member. */
    if (!json_within(text, length, 2, 1 + 3 * (size_t)TRANSCRIPT_MESSAGES))
        return tern_fail(error, TERN_USAGE, "%s is no JSON list of at most %d messages", name,
                         TRANSCRIPT_MESSAGES);
    json_t *list = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (list == NULL)
        return tern_fail(error, TERN_USAGE, "%s is no transcript: line %d: %s", name, where.line,
                         where.text);
    const enum tern_status status = check_messages(name, list, error);
    if (status == TERN_OK)
        *messages = list;
    else
        json_decref(list);
    return status;
}

/* ---- files ---- */

/* Reads a whole regular file of `size` bytes. */
static enum tern_status read_file(int fd, const char *path, size_t size, json_t **messages,
                                  struct tern_error *error)
{
    char *text = malloc(size + 1);
    size_t filled = 0;
    ssize_t got = 1;
    if (text == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory for %s", path);
    while (filled < size && got > 0) {
        got = read(fd, text + filled, size - filled);
        filled += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno == EINTR)
            got = 1;
    }
    const enum tern_status status =
        got < 0 ? tern_fail(error, TERN_USAGE, "cannot read %s: %s", path, strerror(errno))
                : transcript_parse(path, text, filled, messages, error);
    free(text);
    return status;
}

enum tern_status transcript_load(const char *path, json_t **messages, struct tern_error *error)
{
    struct stat about;
    enum tern_status status;
    *messages = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO does not block it */
    if (fd < 0)
        return tern_fail(error, TERN_USAGE, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        status = tern_fail(error, TERN_USAGE, "%s is no regular file", path);
    else if (about.st_size > TERN_MESSAGE_MAX)
        status =
            tern_fail(error, TERN_USAGE, "%s is longer than %d MiB", path, TERN_MESSAGE_MAX >> 20);
    else
        status = read_file(fd, path, (size_t)about.st_size, messages, error);
    close(fd);
    return status;
}

enum tern_status transcript_save(const char *path, const json_t *messages, struct tern_error *error)
{
    struct stat about;
    struct new_file file;
    json_t *old = NULL;
    if (lstat(path, &about) == 0 && transcript_load(path, &old, error) != TERN_OK)
        return tern_fail(error, TERN_USAGE,
                         "%s exists and is no transcript; it stays as it is, choose another name",
                         path);
    json_decref(old);
    enum tern_status status = new_file_open(&file, path, 0600, error);
    if (status != TERN_OK)
        return status;
    if (json_dumpf(messages, file.out, JSON_INDENT(1) | JSON_PRESERVE_ORDER) != 0 &&
        !ferror(file.out))
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory for %s", path);
    fputc('\n', file.out);
    return new_file_close(&file, status, error);
}
