#include "proto/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The process's path in a hierarchy, from a line "id:controllers:path" of /proc/self/cgroup;
 * version 2 has no controllers. The path is cut out of the line; NULL if the line is about another.
 */
static const char *path_in(char *line, const char *controller)
{
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return NULL;
    *path++ = '\0';
    controllers++;
    const bool found =
        controller == NULL ? *controllers == '\0' : has_word(controllers, controller);
    return found ? path : NULL;
}

/* The process's path; "/" where nothing says it: the top is then the best that can be known. */
static bool find_path(const char *root, const char *controller, char path[PATH_MAX])
{
    char name[PATH_MAX], *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool found = false;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    strcpy(path, "/");
    if (file == NULL)
        return true;
    while (!found && (length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        const char *group = path_in(line, controller);
        found = group != NULL && snprintf(path, PATH_MAX, "%s", group) < PATH_MAX;
    }
    free(line);
    fclose(file);
    return found;
}

/* The kernel writes space, tab, newline and backslash of a mount's paths as three octal digits. */
static void decode_octal(char *text)
{
    char *out = text;
    for (const char *in = text; *in != '\0'; out++) {
        const bool escape = in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' &&
                            in[2] <= '7' && in[3] >= '0' && in[3] <= '7';
        *out = escape ? (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0')) : *in;
        in += escape ? 4 : 1;
    }
    *out = '\0';
}

struct mount {
    char root[PATH_MAX];  /* which folder of the hierarchy */
    char point[PATH_MAX]; /* is seen here */
};

/* A line of /proc/self/mountinfo is "id parent device root mountpoint options... - type source
 * superoptions". False if it is no mount of the hierarchy. */
static bool parse_mount(const char *line, const char *controller, struct mount *mount)
{
    char type[32], options[1024];
    const char *rest = strstr(line, " - ");
    if (rest == NULL || sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
        return false;
    const bool wanted = controller == NULL
                            ? strcmp(type, "cgroup2") == 0
                            : strcmp(type, "cgroup") == 0 && has_word(options, controller);
    if (!wanted || sscanf(line, "%*s %*s %*s %4095s %4095s", mount->root, mount->point) != 2)
        return false;
    decode_octal(mount->root);
    decode_octal(mount->point);
    return true;
}

/* Fills *group from a mount; false if the group's folder is not to be seen in it. In a container
 * without a cgroup namespace the path still names the host's folders, of which only those in the
 * mount's root can be seen. */
static bool place(const char *root, const struct mount *mount, const char *path,
                  struct tern_cgroup *group)
{
    const size_t skip = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root);
    const bool below = strncmp(path, mount->root, skip) == 0 &&
                       (path[skip] == '/' || path[skip] == '\0') && strstr(path, "/..") == NULL;
    const char *inside = below && strcmp(path + skip, "/") != 0 ? path + skip : "";
    const int top = snprintf(group->path, PATH_MAX, "%s%s", root, mount->point);
    group->top = strlen(group->path);
    if (top < 0 || (size_t)top + strlen(inside) >= PATH_MAX)
        return false;
    strcpy(group->path + top, inside);
    return below && access(group->path, F_OK) == 0;
}

/* The group in the mount that shows it; else the last mount there is, at its top, which is above
 * it. Without a list of mounts: where they usually are. */
static bool find_group(const char *root, const char *controller, const char *path,
                       struct tern_cgroup *group)
{
    struct mount mount = {.root = "/"};
    char name[PATH_MAX], *line = NULL;
    size_t room = 0;
    bool any = false, shown = false;
    snprintf(name, sizeof name, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        snprintf(mount.point, sizeof mount.point, "/sys/fs/cgroup%s%s", controller ? "/" : "",
                 controller ? controller : "");
        return place(root, &mount, path, group);
    }
    while (!shown && getline(&line, &room, file) > 0)
        if (parse_mount(line, controller, &mount)) {
            shown = place(root, &mount, path, group);
            any = true;
        }
    free(line);
    fclose(file);
    return shown || any;
}

bool tern_cgroup_find(const char *root, const char *controller, struct tern_cgroup *group)
{
    char path[PATH_MAX];
    return find_path(root, controller, path) && find_group(root, controller, path, group);
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
