/*
 * What may be opened as a model file. The coordinator opens it and never reads it: a pipe must not
 * block it, and a device must not be touched.
 */
#include "coordinator/supervise/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

const char *model_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static enum tern_status check_kind(const char *path, mode_t mode, off_t size,
                                   struct tern_error *error)
{
    if (S_ISDIR(mode))
        return tern_fail(error, TERN_BAD_MODEL, "%s is a folder, not a model file", path);
    if (!S_ISREG(mode))
        return tern_fail(error, TERN_BAD_MODEL, "%s is a %s, not a model file", path,
                         S_ISFIFO(mode) ? "pipe" : "device");
    if (size == 0)
        return tern_fail(error, TERN_BAD_MODEL, "%s is empty; " TERN_REMEDY_AGAIN, path);
    return TERN_OK;
}

/* The first part of a split model has a name like "x-00001-of-00003.gguf". */
static bool is_split(const char *path)
{
    const char *dash = strstr(model_file_name(path), "-of-");
    if (dash == NULL || dash - model_file_name(path) < 6 || dash[-6] != '-')
        return false;
    return strspn(dash - 5, "0123456789") == 5 && strspn(dash + 4, "0123456789") == 5;
}

enum tern_status model_file_open(const char *path, int *fd, struct stat *identity,
                                 struct tern_error *error)
{
    if (is_split(path))
        return tern_fail(error, TERN_UNSUPPORTED,
                         "%s is one part of a split model, which Tern does not read yet: join the "
                         "parts into one file (llama-gguf-split --merge)",
                         path);
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (*fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) /* not its fault */
        return tern_fail(error, TERN_FAILED, "cannot open %s: %s", path, strerror(errno));
    if (*fd < 0)
        return tern_fail(error, TERN_BAD_MODEL, "cannot open %s: %s", path,
                         errno == ENXIO ? "it is no regular file" : strerror(errno));
    enum tern_status status =
        fstat(*fd, identity) == 0
            ? check_kind(path, identity->st_mode, identity->st_size, error)
            : tern_fail(error, TERN_FAILED, "cannot look at %s: %s", path, strerror(errno));
    if (status != TERN_OK)
        close(*fd);
    return status;
}

bool model_file_is_same(int fd, const struct stat *identity)
{
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_size == identity->st_size &&
           now.st_mtim.tv_sec == identity->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == identity->st_mtim.tv_nsec;
}
