/* tern logs: the log of the service that clients start, also while it does not run. */
#include "cmd/tern/client.h"
#include "cmd/tern/json_output.h"
#include "cmd/tern/models.h"
#include "cmd/tern/output.h"
#include "cmd/tern/verbs.h"
#include "proto/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLL_NS = 200 * 1000 * 1000, LONGEST_TIME = 24 };

/* A line of the log in its parts. What others wrote to the descriptor has only text: it counts as
 * an error. */
struct entry {
    const char *time, *name, *text; /* time NULL: not a line of ours */
    int time_length, name_length;
    enum tern_log_level level;
};

static struct entry parse(const char *line)
{
    struct entry entry = {.text = line, .level = TERN_LOG_ERROR};
    const char *level = strchr(line, ' ');
    const char *name = level != NULL ? strchr(level + 1, ' ') : NULL;
    const char *text = name != NULL ? strstr(name + 1, ": ") : NULL;
    if (text == NULL || level - line != LONGEST_TIME || line[LONGEST_TIME - 1] != 'Z' ||
        !tern_log_level_find(level + 1, (size_t)(name - level - 1), &entry.level))
        return entry;
    entry.time = line;
    entry.time_length = LONGEST_TIME;
    entry.name = name + 1;
    entry.name_length = (int)(text - name - 1);
    entry.text = text + 2;
    return entry;
}

struct wish {
    uint64_t lines;
    bool json, follow;
    enum tern_log_level level;
};

/* Files may hold anything, and must not command the terminal. */
static void print_plain(const char *line)
{
    const bool utf8 = tern_utf8_valid(line, strlen(line));
    while (*line != '\0') {
        size_t odd = tern_utf8_control(line);
        odd = odd == 0 && !utf8 && (unsigned char)*line >= 0x80 ? 1 : odd;
        if (odd == 0)
            putchar(*line++);
        for (; odd > 0; odd--)
            printf("\\x%02x", (unsigned char)*line++);
    }
    putchar('\n');
}

static bool print_object(const struct entry *entry)
{
    json_t *object = json_pack(
        "{s:o, s:s, s:o, s:o}", "time",
        entry->time != NULL ? json_of_bytes(entry->time, (size_t)entry->time_length) : json_null(),
        "level", tern_log_level_name(entry->level), "process",
        entry->name != NULL ? json_of_bytes(entry->name, (size_t)entry->name_length) : json_null(),
        "message", json_of_text(entry->text));
    const bool read = print_json_line(object);
    json_decref(object);
    return read;
}

/* False when nobody reads any more. */
static bool print_line(const struct wish *wish, const char *line)
{
    const struct entry entry = parse(line);
    if (entry.level > wish->level)
        return true;
    if (wish->json)
        return print_object(&entry);
    print_plain(line);
    return !ferror(stdout) && (!wish->follow || fflush(stdout) == 0);
}

/* ---- the last lines ---- */

/* Whole lines, the newest `most`; freed by the caller with forget. */
struct tail {
    char **line;
    uint64_t most, count; /* count: of all that were added */
};

static void add(struct tail *tail, const char *line)
{
    char **place = &tail->line[tail->count % tail->most];
    free(*place);
    *place = strdup(line);
    tail->count++;
}

static void add_file(struct tail *tail, const struct wish *wish, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] != '\n') {
            fseek(file, -length, SEEK_CUR); /* being written: taken when it is whole */
            break;
        }
        line[length - 1] = '\0';
        if (parse(line).level <= wish->level)
            add(tail, line);
    }
    free(line);
}

static bool print_tail(struct tail *tail, const struct wish *wish)
{
    bool read = true;
    const uint64_t kept = tail->count < tail->most ? tail->count : tail->most;
    for (uint64_t i = 0; i < kept; i++) {
        char *line = tail->line[(tail->count - kept + i) % tail->most];
        read = read && (line == NULL || print_line(wish, line));
        free(line);
    }
    free(tail->line);
    return read;
}

/* ---- what is new ---- */

static bool print_new(const struct wish *wish, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool read = true;
    clearerr(file);
    while (read && (length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] != '\n') {
            fseek(file, -length, SEEK_CUR);
            break;
        }
        line[length - 1] = '\0';
        read = print_line(wish, line);
    }
    free(line);
    return read;
}

static bool was_replaced(FILE *file, const char *path)
{
    struct stat mine, there;
    return fstat(fileno(file), &mine) == 0 && stat(path, &there) == 0 &&
           (mine.st_ino != there.st_ino || mine.st_dev != there.st_dev);
}

/* Until Ctrl-C or nobody reads. A log that was rotated is read to its end first. */
static void follow(const struct wish *wish, FILE **file, const char *path)
{
    while (!client_interrupted()) {
        const bool replaced = was_replaced(*file, path);
        if (!print_new(wish, *file))
            return;
        FILE *next = replaced ? fopen(path, "re") : NULL;
        if (next != NULL) {
            fclose(*file);
            *file = next;
        } else if (!wait_while_read(POLL_NS)) {
            return;
        }
    }
}

/* `path` is the last place that was looked at; the state folder is the first. */
static enum tern_status no_log(const char *path, int why, struct tern_error *error)
{
    char first[1200];
    struct tern_error about = {0};
    const char *hint = "tern run and others start a service that writes one; tern serve logs to "
                       "its standard error, systemd's service to journalctl --user";
    if (state_file("ternd.log", first, sizeof first, &about) != TERN_OK)
        return tern_fail(error, TERN_FAILED, "there is no log: %s; %s: %s; %s", about.message, path,
                         strerror(why), hint);
    const int reason = access(first, R_OK) == 0 ? 0 : errno;
    if (reason == 0 || strcmp(first, path) == 0)
        return tern_fail(error, TERN_FAILED, "cannot read the log %s: %s; %s", path, strerror(why),
                         hint);
    return tern_fail(error, TERN_FAILED, "there is no log, neither %s (%s) nor %s (%s); %s", first,
                     strerror(reason), path, strerror(why), hint);
}

static enum tern_status show(const struct wish *wish, const char *path, struct tern_error *error)
{
    char old[1300];
    struct tail tail = {.most = wish->lines};
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return no_log(path, errno, error);
    tail.line = calloc(tail.most + 1, sizeof *tail.line);
    if (tail.line == NULL) {
        fclose(file);
        return tern_fail(error, TERN_NO_MEMORY, "out of memory for %llu lines",
                         (unsigned long long)tail.most);
    }
    snprintf(old, sizeof old, "%s.1", path);
    FILE *before = fopen(old, "re");
    if (before != NULL && tail.most > 0)
        add_file(&tail, wish, before);
    if (before != NULL)
        fclose(before);
    if (tail.most > 0)
        add_file(&tail, wish, file);
    else
        fseek(file, 0, SEEK_END);
    if (print_tail(&tail, wish) && wish->follow)
        follow(wish, &file, path);
    fclose(file);
    if (client_interrupted() && !wish->follow) /* following ends in no other way */
        return tern_fail(error, TERN_INTERRUPTED, "interrupted");
    return TERN_OK;
}

int verb_logs(const struct verb *verb, int argc, char **argv)
{
    struct wish wish = {.lines = 50, .level = TERN_LOG_DEBUG};
    const char *level = "debug";
    const struct option options[] = {
        {"n", OPTION_COUNT, &wish.lines, "LINES", "how many of the newest (50)", 0, 1e6, NULL},
        {"f", OPTION_FLAG, &wish.follow, NULL, "go on with what comes, until Ctrl-C", 0, 0, NULL},
        {"level", OPTION_CHOICE, &level, "error|warning|info|debug",
         "only this level and worse (all)", 0, 0, NULL},
        {"json", OPTION_FLAG, &wish.json, NULL, "print an object for each line", 0, 0, NULL},
        {0},
    };
    struct tern_runtime runtime;
    struct tern_error error = {0};
    char path[1200];
    int code;
    if (!options_begin(verb, options, &argc, argv, 0, 0, &code))
        return code;
    enum tern_status status = tern_runtime_open(&runtime, &error);
    if (status == TERN_OK) {
        tern_log_level_find(level, strlen(level), &wish.level);
        client_catch_signals();
        service_log(&runtime, path, sizeof path);
        status = show(&wish, path, &error);
    }
    return status == TERN_OK ? 0 : complain(&error);
}
