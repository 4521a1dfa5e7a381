#include "cmd/tern/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget(struct new_file *file)
{
    free(file->path);
    free(file->temporary);
    file->path = file->temporary = NULL;
}

/* A descriptor of a file that did not exist, or -1 with errno. */
static int make(const char *temporary, mode_t mode)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(temporary, flags, mode);
    if (fd < 0 && errno == EEXIST && unlink(temporary) == 0) /* of a process that had our number */
        fd = open(temporary, flags, mode);
    return fd;
}

/* -1 with errno. */
static int open_descriptor(struct new_file *file, mode_t mode)
{
    struct stat about;
    const bool exists = stat(file->name, &about) == 0;
    if (exists && !S_ISREG(about.st_mode))
        return open(file->name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (!exists && lstat(file->name, &about) == 0) /* a link to nothing: there is nothing to lose */
        return open(file->name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, mode);
    if (exists && access(file->name, W_OK) != 0)
        return -1;
    file->path = exists ? realpath(file->name, NULL) : strdup(file->name);
    if (file->path == NULL ||
        asprintf(&file->temporary, "%s.%d.part", file->path, (int)getpid()) < 0) {
        file->temporary = NULL;
        return -1;
    }
    return make(file->temporary, mode);
}

enum tern_status new_file_open(struct new_file *file, const char *path, mode_t mode,
                               struct tern_error *error)
{
    *file = (struct new_file){.name = path};
    const int fd = open_descriptor(file, mode);
    file->out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file->out != NULL)
        return TERN_OK;
    const int reason = errno;
    if (fd >= 0) {
        close(fd);
        if (file->temporary != NULL)
            unlink(file->temporary);
    }
    forget(file);
    return tern_fail(error, TERN_USAGE, "cannot write %s: %s", path, strerror(reason));
}

bool new_file_write(struct new_file *file, const void *bytes, size_t length)
{
    if (fwrite(bytes, 1, length, file->out) == length)
        return true;
    if (file->failure == 0)
        file->failure = errno;
    return false;
}

/* 0 or an errno. What is not on disk before it is renamed may be empty after a crash. */
static int finish(struct new_file *file, bool sync)
{
    int failure = file->failure;
    const bool earlier = ferror(file->out) != 0;
    if ((fflush(file->out) != 0 || (sync && fsync(fileno(file->out)) != 0)) && failure == 0)
        failure = errno;
    if (fclose(file->out) != 0 && failure == 0)
        failure = errno;
    return failure == 0 && earlier ? EIO : failure;
}

enum tern_status new_file_close(struct new_file *file, enum tern_status status,
                                struct tern_error *error)
{
    int failure = finish(file, file->temporary != NULL && status == TERN_OK);
    if (status == TERN_OK && failure == 0 && file->temporary != NULL &&
        rename(file->temporary, file->path) != 0)
        failure = errno;
    if (status == TERN_OK && failure != 0)
        status =
            tern_fail(error, TERN_FAILED, "cannot write %s: %s", file->name, strerror(failure));
    if (status != TERN_OK && file->temporary != NULL)
        unlink(file->temporary);
    forget(file);
    return status;
}
