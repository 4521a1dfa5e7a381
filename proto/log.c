#include "proto/log.h"

#include "proto/utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TEXT = 1000, /* bytes of a message before escaping */
    LINE = 3000, /* of a line: below PIPE_BUF, so that lines of several threads never mix */
};

static void write_stderr(const char *line, size_t length);

static const char *log_name = "tern";
static enum tern_log_level threshold = TERN_LOG_INFO;
static void (*sink)(const char *line, size_t length) = write_stderr;
static bool always_timed;

static const char *const names[] = {"error", "warning", "info", "debug"};
/* syslog(3)'s numbers for them. */
static const char priorities[] = {'3', '4', '6', '7'};

const char *tern_log_level_name(enum tern_log_level level)
{
    return names[level];
}

bool tern_log_level_find(const char *name, size_t length, enum tern_log_level *level)
{
    for (int i = 0; i < TERN_LOG_LEVELS; i++)
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            *level = (enum tern_log_level)i;
            return true;
        }
    return false;
}

void tern_log_name(const char *name)
{
    const char *level = getenv(TERN_LOG_LEVEL);
    log_name = name;
    if (level == NULL || !tern_log_level_find(level, strlen(level), &threshold))
        threshold = TERN_LOG_INFO;
}

void tern_log_to(void (*write)(const char *line, size_t length), bool timed)
{
    sink = write;
    always_timed = timed;
}

enum tern_log_level tern_log_prefix(const char **text, enum tern_log_level otherwise)
{
    const char *t = *text;
    if (t[0] != '<' || t[1] < '0' || t[1] > '7' || t[2] != '>')
        return otherwise;
    *text += 3;
    if (t[1] <= '3')
        return TERN_LOG_ERROR;
    return t[1] == '4' ? TERN_LOG_WARNING : t[1] == '7' ? TERN_LOG_DEBUG : TERN_LOG_INFO;
}

static void write_stderr(const char *line, size_t length)
{
    while (length > 0) {
        const ssize_t written = write(STDERR_FILENO, line, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        line += written;
        length -= (size_t)written;
    }
}

/* Files and terminals have no clock of their own; whatever reads a pipe or a socket does. */
static bool timed(void)
{
    struct stat info;
    if (always_timed || fstat(STDERR_FILENO, &info) != 0)
        return true;
    return !S_ISFIFO(info.st_mode) && !S_ISSOCK(info.st_mode);
}

static size_t begin_line(char *line, const char *name, enum tern_log_level level)
{
    struct timespec now;
    struct tm day;
    if (!timed())
        return (size_t)snprintf(line, LINE, "<%c>%.32s: ", priorities[level], name);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &day);
    size_t used = strftime(line, LINE, "%Y-%m-%dT%H:%M:%S", &day);
    used += (size_t)snprintf(line + used, LINE - used, ".%03ldZ %s %.32s: ", now.tv_nsec / 1000000,
                             names[level], name);
    return used;
}

/* One character of `text`, escaped if need be; returns how many bytes of it were taken. */
static size_t put_character(char *line, size_t *used, const char *text)
{
    const size_t control = tern_utf8_control(text);
    const int bytes = control > 0 ? (int)control : tern_utf8_character(text, strlen(text));
    if (control == 0 && bytes > 0) {
        memcpy(line + *used, text, (size_t)bytes);
        *used += (size_t)bytes;
        return (size_t)bytes;
    }
    const size_t taken = bytes > 0 ? (size_t)bytes : 1;
    for (size_t i = 0; i < taken; i++)
        *used += (size_t)snprintf(line + *used, LINE - *used, "\\x%02x", (unsigned char)text[i]);
    return taken;
}

void tern_log_as(const char *name, enum tern_log_level level, const char *text)
{
    enum { LONGEST_CHARACTER = 8 }; /* two escaped bytes */
    char line[LINE + 1];
    if (level > threshold)
        return;
    size_t used = begin_line(line, name, level);
    while (*text != '\0' && used + LONGEST_CHARACTER + 1 < LINE)
        text += put_character(line, &used, text);
    line[used++] = '\n';
    sink(line, used);
}

void tern_log(const char *level, const char *format, ...)
{
    enum tern_log_level number;
    char text[TEXT];
    va_list args;
    if (!tern_log_level_find(level, strlen(level), &number))
        number = TERN_LOG_ERROR;
    if (number > threshold)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text[tern_utf8_complete(text, strlen(text))] = '\0'; /* may have been cut in a character */
    tern_log_as(log_name, number, text);
}
