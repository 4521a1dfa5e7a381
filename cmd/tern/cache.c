#include "cmd/tern/cache.h"

#include "cmd/tern/models.h"
#include "cmd/tern/nearest.h"
#include "proto/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A visible name ending in .gguf, without the ending; false for anything else. */
static bool model_name(const char *file, char *name, size_t room)
{
    const size_t length = strlen(file);
    if (file[0] == '.' || length <= 5 || length - 5 >= room ||
        strcmp(file + length - 5, ".gguf") != 0 || !tern_utf8_valid(file, length))
        return false;
    memcpy(name, file, length - 5);
    name[length - 5] = '\0';
    return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool read_entry(int folder, const char *file, struct cache_entry *entry)
{
    struct stat info;
    if (!model_name(file, entry->name, sizeof entry->name) ||
        fstatat(folder, file, &info, 0) != 0 || !S_ISREG(info.st_mode))
        return false;
    entry->bytes = (uint64_t)info.st_size;
    entry->modified = info.st_mtime;
    return true;
}

enum tern_status cache_open(bool make, int *fd, struct tern_error *error)
{
    char folder[4096], inside[4096 + 2];
    const enum tern_status status = models_folder(folder, sizeof folder, error);
    if (status != TERN_OK)
        return status;
    snprintf(inside, sizeof inside, "%s/", folder);
    if (make && !make_folders(inside))
        return tern_fail(error, TERN_FAILED, "cannot make the folder %s: %s", folder,
                         strerror(errno));
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return tern_fail(error, TERN_FAILED, "cannot open the cache %s: %s", folder,
                         strerror(errno));
    return TERN_OK;
}

enum tern_status cache_list(struct cache_entry **entries, size_t *count, struct tern_error *error)
{
    struct dirent **files = NULL;
    char path[4096];
    int folder = -1;
    *entries = NULL;
    *count = 0;
    enum tern_status status = models_folder(path, sizeof path, error);
    if (status != TERN_OK)
        return status;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return TERN_OK;
    status = cache_open(false, &folder, error);
    if (status != TERN_OK)
        return status;
    const int found = scandir(path, &files, NULL, by_name);
    if (found < 0)
        status = tern_fail(error, TERN_FAILED, "cannot read %s: %s", path, strerror(errno));
    *entries = found < 0 ? NULL : calloc((size_t)found + 1, sizeof **entries);
    if (status == TERN_OK && *entries == NULL)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory");
    for (int i = 0; i < found; i++) {
        if (*entries != NULL)
            *count += read_entry(folder, files[i]->d_name, &(*entries)[*count]);
        free(files[i]);
    }
    free(files);
    close(folder);
    return status;
}

enum tern_status cache_check_name(const char *name, struct tern_error *error)
{
    const size_t length = strlen(name);
    bool control = false;
    if (!tern_utf8_valid(name, length))
        return tern_fail(error, TERN_USAGE, "the name is not valid UTF-8");
    for (const char *c = name; *c != '\0'; c++)
        control = control || tern_utf8_control(c) > 0;
    if (length == 0 || length > CACHE_NAME)
        return tern_fail(error, TERN_USAGE, "a model's name has 1 to %d bytes, not %zu", CACHE_NAME,
                         length);
    if (control || strchr(name, '/') != NULL || name[0] == '.' || name[0] == '-')
        return tern_fail(error, TERN_USAGE,
                         "'%s' cannot be a model's name: no slashes or control characters, and no "
                         "dot or dash at the front",
                         name);
    return TERN_OK;
}

void cache_suggest(const char *name, char *text, size_t room)
{
    struct cache_entry *entries;
    struct tern_error ignored;
    size_t count;
    text[0] = '\0';
    if (cache_list(&entries, &count, &ignored) != TERN_OK) {
        free(entries);
        return;
    }
    const char **names = calloc(count + 1, sizeof *names);
    for (size_t i = 0; names != NULL && i < count; i++)
        names[i] = entries[i].name;
    if (names != NULL)
        nearest_suggest(name, "", names, count, text, room);
    free(names);
    free(entries);
}
