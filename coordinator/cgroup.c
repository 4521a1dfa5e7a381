#include "coordinator/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 64 * 1024 };

bool tern_read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t used = 0;
    ssize_t got;
    while (used < size - 1 && (got = read(fd, text + used, size - 1 - used)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    text[used] = '\0';
    return used > 0;
}

static bool parse_number(const char *text, uint64_t *value)
{
    char *end;
    text += strspn(text, " \t:");
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0;
}

bool tern_find_number(const char *text, const char *key, uint64_t *value)
{
    const size_t length = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, length) == 0 && strchr(" \t:", line[length]) != NULL)
            return parse_number(line + length, value);
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return false;
}

/* True if `word` is one of the comma-separated words of `list`. */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at != NULL; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

/* The process's path in a hierarchy, from /proc/self/cgroup: lines "id:controllers:path"; version 2
 * has no controllers. */
static bool find_path(char *text, const char *controller, char path[PATH_MAX])
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        controllers++;
        *group++ = '\0';
        const bool found =
            controller == NULL ? *controllers == '\0' : has_word(controllers, controller);
        if (found && snprintf(path, PATH_MAX, "%s", group) < PATH_MAX)
            return true;
    }
    return false;
}

/* Where a hierarchy is mounted and which of its folders is: /proc/self/mountinfo has lines "id
 * parent device root mountpoint options... - type source superoptions". */
static bool find_mount(char *text, const char *controller, char mount_root[PATH_MAX],
                       char mount_point[PATH_MAX])
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char type[32], options[1024];
        const char *rest = strstr(line, " - ");
        if (rest == NULL || sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
            continue;
        const bool found = controller == NULL
                               ? strcmp(type, "cgroup2") == 0
                               : strcmp(type, "cgroup") == 0 && has_word(options, controller);
        if (found && sscanf(line, "%*s %*s %*s %4095s %4095s", mount_root, mount_point) == 2)
            return true;
    }
    return false;
}

bool tern_cgroup_find(const char *root, const char *controller, struct tern_cgroup *group)
{
    char name[PATH_MAX], path[PATH_MAX], mount_root[PATH_MAX], mount_point[PATH_MAX];
    char *text = malloc(TEXT_SIZE);
    if (text == NULL)
        return false;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    bool found = tern_read_text(name, text, TEXT_SIZE) && find_path(text, controller, path);
    snprintf(name, sizeof name, "%s/proc/self/mountinfo", root);
    found = found && tern_read_text(name, text, TEXT_SIZE) &&
            find_mount(text, controller, mount_root, mount_point);
    free(text);
    if (!found)
        return false;
    /* In a container without a cgroup namespace the path still names the host's folders, of which
     * only the one in mount_root can be seen. */
    const size_t skip = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    const bool below = strncmp(path, mount_root, skip) == 0 &&
                       (path[skip] == '/' || path[skip] == '\0') && strstr(path, "/..") == NULL;
    const char *inside = below ? path + skip : "";
    const int top = snprintf(group->path, PATH_MAX, "%s%s", root, mount_point);
    if (top < 0 || (size_t)top + strlen(inside) >= PATH_MAX)
        return false;
    group->top = (size_t)top;
    strcpy(group->path + top, inside);
    if (strcmp(inside, "/") == 0)
        group->path[top] = '\0';
    return true;
}

bool tern_cgroup_up(struct tern_cgroup *group)
{
    char *slash = strrchr(group->path, '/');
    if (slash == NULL || strlen(group->path) <= group->top)
        return false;
    *slash = '\0';
    return true;
}

bool tern_cgroup_read(const struct tern_cgroup *group, const char *file, char *text, size_t size)
{
    char name[PATH_MAX];
    const int length = snprintf(name, sizeof name, "%s/%s", group->path, file);
    return length > 0 && length < PATH_MAX && tern_read_text(name, text, size);
}

bool tern_cgroup_number(const struct tern_cgroup *group, const char *file, uint64_t *value)
{
    char text[64];
    return tern_cgroup_read(group, file, text, sizeof text) && parse_number(text, value);
}

bool tern_cgroup_stat(const struct tern_cgroup *group, const char *file, const char *key,
                      uint64_t *value)
{
    char text[8192];
    return tern_cgroup_read(group, file, text, sizeof text) && tern_find_number(text, key, value);
}
