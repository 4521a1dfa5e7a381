#include "coordinator/supervise/activity.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Field 3 is the state, 14 and 15 are user and system time (proc(5)). The name in field 2 may hold
 * anything, blanks and brackets too; the last ")" ends it. */
bool activity_parse(const char *line, char *state, uint64_t *ticks)
{
    const char *after = strrchr(line, ')');
    unsigned long long user, system;
    if (after == NULL || sscanf(after + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu",
                                state, &user, &system) != 3)
        return false;
    *ticks = user + system;
    return true;
}

static bool read_line(int folder, const char *path, char *line, size_t size)
{
    const int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t length = read(fd, line, size - 1);
    close(fd);
    if (length <= 0)
        return false;
    line[length] = '\0';
    return true;
}

static void add_thread(struct activity *activity, int id, char state, uint64_t ticks)
{
    activity->stopped |= state == 'T' || state == 't';
    activity->runnable |= state == 'R';
    activity->disk |= state == 'D';
    if (activity->threads < ACTIVITY_THREADS)
        activity->time[activity->threads++] = (struct thread_time){
            .id = id, .cpu_ns = ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK))};
}

bool activity_read(pid_t pid, struct activity *activity)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    activity->stopped = activity->runnable = activity->disk = false;
    activity->threads = 0;
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return false;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char stat[300], line[600], state;
        uint64_t ticks;
        if (task->d_name[0] == '.')
            continue;
        snprintf(stat, sizeof stat, "%s/stat", task->d_name);
        if (read_line(dirfd(tasks), stat, line, sizeof line) &&
            activity_parse(line, &state, &ticks))
            add_thread(activity, atoi(task->d_name), state, ticks);
    }
    closedir(tasks);
    return activity->threads > 0;
}

static uint64_t time_of(const struct activity *activity, int id)
{
    for (size_t i = 0; i < activity->threads; i++)
        if (activity->time[i].id == id)
            return activity->time[i].cpu_ns;
    return 0;
}

uint64_t activity_busiest(const struct activity *before, const struct activity *after)
{
    uint64_t most = 0;
    for (size_t i = 0; i < after->threads; i++) {
        const uint64_t then = time_of(before, after->time[i].id);
        const uint64_t now = after->time[i].cpu_ns;
        if (now > then && now - then > most)
            most = now - then;
    }
    return most;
}
