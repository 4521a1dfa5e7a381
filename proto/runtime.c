#include "proto/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "/control.sock" behind the folder must fit sun_path (108 bytes with its NUL). */
enum { LONGEST_FOLDER = 90 };

/* FNV-1a: names a folder after a path that is too long to hold a socket. */
static unsigned hash(const char *text)
{
    unsigned h = 2166136261u;
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

/* Another user's: the environment came along through su or sudo. What root makes there, that user
 * could neither use nor remove. */
static bool is_strangers(const char *folder)
{
    struct stat info;
    return stat(folder, &info) == 0 && info.st_uid != getuid() && info.st_uid != 0;
}

static void choose_folder(struct tern_runtime *runtime)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (base != NULL && base[0] == '/' && strlen(base) + strlen("/tern") <= LONGEST_FOLDER &&
        !is_strangers(base))
        snprintf(runtime->folder, sizeof runtime->folder, "%s/tern", base);
    else if (base != NULL && base[0] != '\0')
        /* Or too long for a socket: a name of its own, so that it stays an independent daemon. */
        snprintf(runtime->folder, sizeof runtime->folder, "/tmp/tern-%u-%08x", (unsigned)getuid(),
                 hash(base));
    else
        snprintf(runtime->folder, sizeof runtime->folder, "/tmp/tern-%u", (unsigned)getuid());
}

static enum tern_status check_folder(const char *folder, struct tern_error *error)
{
    struct stat info;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return tern_fail(error, TERN_NO_SERVICE,
                         "cannot make the runtime folder %s: %s; set XDG_RUNTIME_DIR", folder,
                         strerror(errno));
    if (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
        (info.st_mode & 077) != 0)
        return tern_fail(error, TERN_NO_SERVICE,
                         "the runtime folder %s is not a folder of yours alone (mode 0700); remove "
                         "it or set XDG_RUNTIME_DIR",
                         folder);
    return TERN_OK;
}

enum tern_status tern_runtime_open(struct tern_runtime *runtime, struct tern_error *error)
{
    choose_folder(runtime);
    snprintf(runtime->lock, sizeof runtime->lock, "%s/lock", runtime->folder);
    snprintf(runtime->clients, sizeof runtime->clients, "ipc://%s/tern.sock", runtime->folder);
    snprintf(runtime->workers, sizeof runtime->workers, "ipc://%s/control.sock", runtime->folder);
    return check_folder(runtime->folder, error);
}

static bool write_pid(int fd)
{
    char text[32];
    const int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)length, 0) == length;
}

/* The whole file, exclusively. Open-file-description locks, because a client can ask who holds one
 * without taking it even for a moment (flock cannot be asked). */
static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

int tern_runtime_lock(const struct tern_runtime *runtime, struct tern_error *error)
{
    const int fd = open(runtime->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        tern_fail(error, TERN_NO_SERVICE, "cannot open %s: %s", runtime->lock, strerror(errno));
        return -1;
    }
    struct flock lock = whole_file();
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        if (errno == EAGAIN || errno == EACCES)
            tern_fail(error, TERN_NO_SERVICE, "another service runs in %s (process %d)",
                      runtime->folder, tern_runtime_holder(runtime));
        else
            tern_fail(error, TERN_NO_SERVICE, "cannot lock %s: %s; set XDG_RUNTIME_DIR",
                      runtime->lock, strerror(errno));
    } else if (!write_pid(fd)) {
        tern_fail(error, TERN_NO_SERVICE, "cannot write to %s: %s; set XDG_RUNTIME_DIR",
                  runtime->lock, strerror(errno));
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

int tern_runtime_holder(const struct tern_runtime *runtime)
{
    char text[32] = "";
    struct flock lock = whole_file();
    const int fd = open(runtime->lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    const bool held = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    if (held && pread(fd, text, sizeof text - 1, 0) < 0)
        text[0] = '\0';
    close(fd);
    if (!held)
        return 0;
    const int pid = atoi(text);
    return pid > 0 ? pid : 1;
}
