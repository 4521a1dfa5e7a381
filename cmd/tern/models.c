#include "cmd/tern/models.h"

#include "cmd/tern/cache.h"
#include "proto/utf8.h"
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *home_folder(void)
{
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/')
        return home;
    const struct passwd *user = getpwuid(getuid());
    return user != NULL ? user->pw_dir : NULL;
}

/* The XDG base folder of that variable; relative ones are ignored, as the specification says. */
static enum tern_status base_folder(const char *variable, const char *in_home, char *path,
                                    size_t room, struct tern_error *error)
{
    const char *base = getenv(variable);
    const char *home = home_folder();
    int length;
    if (base != NULL && base[0] == '/')
        length = snprintf(path, room, "%s", base);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, room, "%s/%s", home, in_home);
    else
        return tern_fail(error, TERN_FAILED, "neither %s nor HOME is set", variable);
    if (length < 0 || (size_t)length >= room)
        return tern_fail(error, TERN_FAILED, "%s is too long", variable);
    return TERN_OK;
}

static enum tern_status append(char *path, size_t room, const char *tail, struct tern_error *error)
{
    const size_t length = strlen(path);
    if (length + strlen(tail) >= room)
        return tern_fail(error, TERN_USAGE, "the path %s%s is too long", path, tail);
    strcpy(path + length, tail);
    return TERN_OK;
}

enum tern_status models_folder(char *path, size_t room, struct tern_error *error)
{
    const enum tern_status status = base_folder("XDG_CACHE_HOME", ".cache", path, room, error);
    return status != TERN_OK ? status : append(path, room, "/tern/models", error);
}

bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

enum tern_status state_file(const char *name, char *path, size_t room, struct tern_error *error)
{
    enum tern_status status = base_folder("XDG_STATE_HOME", ".local/state", path, room, error);
    if (status == TERN_OK)
        status = append(path, room, "/tern/", error);
    if (status == TERN_OK)
        status = append(path, room, name, error);
    if (status == TERN_OK && !make_folders(path))
        return tern_fail(error, TERN_FAILED, "cannot make the folder of %s: %s", path,
                         strerror(errno));
    return status;
}

static bool is_path(const char *model)
{
    const size_t length = strlen(model);
    struct stat info;
    return strchr(model, '/') != NULL || (stat(model, &info) == 0 && !S_ISDIR(info.st_mode)) ||
           (length > 5 && strcmp(model + length - 5, ".gguf") == 0);
}

static enum tern_status not_cached(const char *model, struct tern_error *error)
{
    char near[600];
    cache_suggest(model, near, sizeof near);
    return tern_fail(error, TERN_BAD_MODEL, "no file and no cached model is named '%s'%s", model,
                     near[0] != '\0' ? near : "; tern ls lists the cache");
}

static enum tern_status cached_path(const char *model, char *path, size_t room,
                                    struct tern_error *error)
{
    enum tern_status status = models_folder(path, room, error);
    if (status == TERN_OK)
        status = append(path, room, "/", error);
    if (status == TERN_OK)
        status = append(path, room, model, error);
    if (status == TERN_OK)
        status = append(path, room, ".gguf", error);
    if (status == TERN_OK && access(path, F_OK) != 0 && errno != ENOENT)
        return tern_fail(error, TERN_BAD_MODEL, "cannot reach %s: %s", path, strerror(errno));
    if (status == TERN_OK && access(path, F_OK) != 0)
        return not_cached(model, error);
    return status;
}

static enum tern_status find_path(const char *model, char *path, size_t room,
                                  struct tern_error *error)
{
    if (model[0] == '\0')
        return tern_fail(error, TERN_USAGE, "MODEL is empty; give a path or a cached model's name");
    if (!is_path(model))
        return cached_path(model, path, room, error);
    path[0] = '\0';
    if (model[0] != '/') {
        if (getcwd(path, room) == NULL)
            return tern_fail(error, TERN_USAGE, "the current folder cannot be named: %s",
                             strerror(errno));
        const enum tern_status status = append(path, room, "/", error);
        if (status != TERN_OK)
            return status;
    }
    return append(path, room, model, error);
}

enum tern_status model_path(const char *model, char *path, size_t room, struct tern_error *error)
{
    const enum tern_status status = find_path(model, path, room, error);
    if (status == TERN_OK && !tern_utf8_valid(path, strlen(path)))
        return tern_fail(error, TERN_USAGE,
                         "the model's path is not UTF-8: %s; rename the file or its folder", path);
    return status;
}
