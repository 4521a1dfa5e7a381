/* Standard error is the log's descriptor, so that the last words of libraries come here too. */
#include "coordinator/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    const char *path;
    uint64_t most;
    uint64_t lost; /* lines, since the last that was written */
    bool torn;     /* the last write ended inside a line */
} log_file;

/* Around a line; what is said about lost ones is a line within it. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static bool open_file(void)
{
    const int fd =
        open(log_file.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return false;
    const bool taken = fd == STDERR_FILENO || dup2(fd, STDERR_FILENO) >= 0;
    const int why = errno;
    if (fd != STDERR_FILENO)
        close(fd);
    errno = why;
    return taken;
}

/* Is the open file the one at the path? Another service may have moved it, a person deleted it. */
static bool is_current(struct stat *mine)
{
    struct stat there;
    return fstat(STDERR_FILENO, mine) == 0 && stat(log_file.path, &there) == 0 &&
           there.st_ino == mine->st_ino && there.st_dev == mine->st_dev;
}

/* Under a lock, since two services that rotate at once would lose one of their files. One that is
 * stopped with the lock must not stop this one: then the file grows for a while. Where FILE.1
 * cannot be, the file is emptied: it stays bounded, and the disk is not filled. */
static void rotate(void)
{
    char old[4096 + 8];
    struct stat mine;
    if (flock(STDERR_FILENO, LOCK_EX | LOCK_NB) != 0)
        return;
    snprintf(old, sizeof old, "%s.1", log_file.path);
    const bool mine_to_move = is_current(&mine);
    const bool stuck = mine_to_move && rename(log_file.path, old) != 0;
    const int why = errno;
    const bool emptied = stuck && ftruncate(STDERR_FILENO, 0) == 0;
    flock(STDERR_FILENO, LOCK_UN);
    if (emptied)
        tern_log("warning", "the log was emptied: it cannot become %s: %s", old, strerror(why));
}

static void find_file(size_t length)
{
    struct stat mine;
    if (is_current(&mine) && (uint64_t)mine.st_size + length > log_file.most && mine.st_size > 0)
        rotate();
    if (!is_current(&mine))
        (void)open_file(); /* if that fails the old one goes on */
}

static bool write_all(const char *bytes, size_t length)
{
    while (length > 0) {
        const ssize_t written = write(STDERR_FILENO, bytes, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        log_file.torn = (size_t)written < length;
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

static void write_now(const char *line, size_t length)
{
    find_file(length);
    if (log_file.torn && !write_all("\n", 1)) {
        log_file.lost++;
        return;
    }
    if (!write_all(line, length)) {
        log_file.lost++;
        return;
    }
    const uint64_t lost = log_file.lost;
    log_file.lost = 0;
    if (lost > 0)
        tern_log("warning", "%" PRIu64 " lines before this one could not be written (disk full?)",
                 lost);
}

static void write_line(const char *line, size_t length)
{
    pthread_mutex_lock(&lock);
    write_now(line, length);
    pthread_mutex_unlock(&lock);
}

enum tern_status tern_log_file(const char *path, uint64_t most, struct tern_error *error)
{
    log_file.path = path;
    log_file.most = most;
    log_file.lost = 0;
    log_file.torn = false;
    if (!open_file())
        return tern_fail(error, TERN_FAILED, "cannot write the log %s: %s", path, strerror(errno));
    tern_log_to(write_line, true);
    return TERN_OK;
}
