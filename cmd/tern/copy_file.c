#include "cmd/tern/copy_file.h"

#include "cmd/tern/client.h"
#include "cmd/tern/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 16 << 20, BUFFER = 1 << 20 };

static enum tern_status interrupted(struct tern_error *error)
{
    return tern_fail(error, TERN_INTERRUPTED, "interrupted");
}

/* Between file systems older kernels cannot copy by themselves. */
static ssize_t copy_by_hand(int from, int to, off_t at)
{
    ssize_t got = -1;
    char *buffer = malloc(BUFFER);
    if (buffer != NULL)
        got = pread(from, buffer, BUFFER, at);
    for (ssize_t done = 0; done < got;) {
        const ssize_t written = pwrite(to, buffer + done, (size_t)(got - done), at + done);
        if (written < 0 && errno != EINTR) {
            got = -1;
            break;
        }
        done += written > 0 ? written : 0;
    }
    const int why = errno;
    free(buffer);
    errno = why;
    return got;
}

static ssize_t copy_piece(int from, int to, off_t at)
{
    off_t in = at, out = at;
    const ssize_t done = copy_file_range(from, &in, to, &out, PIECE, 0);
    if (done > 0 || (done < 0 && (errno == ENOSPC || errno == EDQUOT)))
        return done;
    return copy_by_hand(from, to, at);
}

static enum tern_status copy_all(int from, int to, off_t size, struct tern_error *error)
{
    if (ioctl(to, FICLONE, from) == 0)
        return TERN_OK;
    if (fallocate(to, 0, 0, size) != 0 && (errno == ENOSPC || errno == EDQUOT))
        return tern_fail(error, TERN_FAILED,
                         "the disk has no room for a copy of %" PRIu64
                         " MiB: %s; free some, or use "
                         "the file by its path",
                         ((uint64_t)size >> 20) + 1, strerror(errno));
    for (off_t at = 0; at < size;) {
        if (client_interrupted())
            return interrupted(error);
        output_units("copying", (uint64_t)at, (uint64_t)size);
        const ssize_t done = copy_piece(from, to, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return tern_fail(error, TERN_FAILED, "cannot copy: %s", strerror(errno));
        if (done == 0)
            return tern_fail(error, TERN_FAILED, "the file became shorter while it was copied");
        at += done;
    }
    if (fsync(to) != 0)
        return tern_fail(error, TERN_FAILED, "cannot write the copy to disk: %s", strerror(errno));
    return TERN_OK;
}

static enum tern_status copy_file(int file, int folder, const char *name, off_t size,
                                  struct tern_error *error)
{
    const int to = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0)
        return tern_fail(error, TERN_FAILED, "cannot make %s in the cache: %s", name,
                         strerror(errno));
    enum tern_status status = copy_all(file, to, size, error);
    output_progress_end();
    if (close(to) != 0 && status == TERN_OK)
        status = tern_fail(error, TERN_FAILED, "cannot write the copy: %s", strerror(errno));
    if (status != TERN_OK)
        unlinkat(folder, name, 0);
    return status;
}

enum tern_status bring_file(int file, int folder, const char *name, bool *linked,
                            struct tern_error *error)
{
    char self[64];
    struct stat info;
    if (fstat(file, &info) != 0)
        return tern_fail(error, TERN_FAILED, "cannot look at the file: %s", strerror(errno));
    snprintf(self, sizeof self, "/proc/self/fd/%d", file);
    *linked = linkat(AT_FDCWD, self, folder, name, AT_SYMLINK_FOLLOW) == 0;
    return *linked ? TERN_OK : copy_file(file, folder, name, info.st_size, error);
}

enum tern_status same_content(int a, int b, bool *same, struct tern_error *error)
{
    char *bytes = malloc(2 * BUFFER);
    enum tern_status status =
        bytes != NULL ? TERN_OK : tern_fail(error, TERN_NO_MEMORY, "out of memory");
    ssize_t got = 1;
    *same = true;
    for (off_t at = 0; status == TERN_OK && *same && got > 0; at += got) {
        got = pread(a, bytes, BUFFER, at);
        const ssize_t other = pread(b, bytes + BUFFER, BUFFER, at);
        if (client_interrupted())
            status = interrupted(error);
        else if (got < 0 || other < 0)
            status = tern_fail(error, TERN_FAILED, "cannot compare the files: %s", strerror(errno));
        else
            *same = got == other && memcmp(bytes, bytes + BUFFER, (size_t)got) == 0;
    }
    free(bytes);
    return status;
}
