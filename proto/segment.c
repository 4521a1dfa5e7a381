#include "proto/segment.h"

#include "proto/tensor.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

/* What the first page of a segment says about it. */
struct header {
    char magic[8];
    uint32_t version;
    uint32_t kind;
    uint64_t id;
    uint64_t size; /* of the data */
};

static const char magic[8] = "TERNSEG";
enum { VERSION = 1 };

static int make_memfd(void)
{
    const int fd = memfd_create("tern", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd >= 0 || errno != EINVAL)
        return fd;
    return memfd_create("tern", MFD_CLOEXEC | MFD_ALLOW_SEALING); /* kernels before 6.3 */
}

static bool write_header(int fd, const struct header *header)
{
    return pwrite(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header;
}

enum tern_status tern_segment_create(enum tern_segment_kind kind, uint64_t id, uint64_t size,
                                     int *fd, struct tern_error *error)
{
    uint64_t rounded, total;
    if (!tern_align(size, 4096, &rounded) ||
        !tern_add(rounded, TERN_SEGMENT_DATA + TERN_SEGMENT_TAIL, &total) || total > INT64_MAX)
        return tern_fail(error, TERN_NO_MEMORY, "a shared segment of %llu bytes is too large",
                         (unsigned long long)size);
    struct header header = {.version = VERSION, .kind = kind, .id = id, .size = size};
    memcpy(header.magic, magic, sizeof magic);

    *fd = make_memfd();
    if (*fd < 0)
        return tern_fail(error, TERN_FAILED, "cannot create shared memory: %s", strerror(errno));
    if (ftruncate(*fd, (off_t)total) != 0 || !write_header(*fd, &header) ||
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        const int reason = errno;
        close(*fd);
        *fd = -1;
        return tern_fail(error, reason == ENOMEM || reason == ENOSPC ? TERN_NO_MEMORY : TERN_FAILED,
                         "cannot create a shared segment of %llu bytes: %s",
                         (unsigned long long)size, strerror(reason));
    }
    return TERN_OK;
}

int tern_segment_reader(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static enum tern_status check_header(const struct header *header, uint64_t file_size,
                                     enum tern_segment_kind kind, uint64_t id,
                                     struct tern_error *error)
{
    uint64_t rounded, total;
    if (memcmp(header->magic, magic, sizeof magic) != 0 || header->version != VERSION)
        return tern_fail(error, TERN_FAILED, "segment %llu: not a segment of this version",
                         (unsigned long long)id);
    if (header->kind != (uint32_t)kind || header->id != id)
        return tern_fail(error, TERN_FAILED, "segment %llu: is another one (kind %u, id %llu)",
                         (unsigned long long)id, header->kind, (unsigned long long)header->id);
    if (!tern_align(header->size, 4096, &rounded) ||
        !tern_add(rounded, TERN_SEGMENT_DATA + TERN_SEGMENT_TAIL, &total) || total != file_size)
        return tern_fail(error, TERN_FAILED, "segment %llu: header and size disagree",
                         (unsigned long long)id);
    return TERN_OK;
}

enum tern_status tern_segment_map(int fd, enum tern_segment_kind kind, uint64_t id, bool writable,
                                  bool populate, struct tern_segment *segment,
                                  struct tern_error *error)
{
    struct stat info;
    struct header header;
    *segment = (struct tern_segment){0};
    if (fstat(fd, &info) != 0 || info.st_size < TERN_SEGMENT_DATA + TERN_SEGMENT_TAIL ||
        pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return tern_fail(error, TERN_FAILED, "segment %llu: cannot be read",
                         (unsigned long long)id);
    const uint64_t size = (uint64_t)info.st_size;
    const enum tern_status status = check_header(&header, size, kind, id, error);
    if (status != TERN_OK)
        return status;

    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *map = mmap(NULL, size, protection, MAP_SHARED | (populate ? MAP_POPULATE : 0), fd, 0);
    if (map == MAP_FAILED)
        return tern_fail(error, errno == ENOMEM ? TERN_NO_MEMORY : TERN_FAILED,
                         "segment %llu: cannot be mapped: %s", (unsigned long long)id,
                         strerror(errno));
    *segment = (struct tern_segment){
        .data = (uint8_t *)map + TERN_SEGMENT_DATA,
        .size = header.size,
        .id = id,
        .kind = kind,
        .writable = writable,
        .map = map,
    };
    return TERN_OK;
}

void tern_segment_unmap(struct tern_segment *segment)
{
    if (segment->map != NULL)
        munmap(segment->map,
               TERN_SEGMENT_DATA + ((segment->size + 4095) & ~4095ull) + TERN_SEGMENT_TAIL);
    *segment = (struct tern_segment){0};
}

enum tern_status tern_segment_seal(int fd, struct tern_error *error)
{
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0)
        return TERN_OK;
    return tern_fail(error, TERN_FAILED, "cannot seal a shared segment: %s",
                     errno == EBUSY ? "somebody still has it mapped writable" : strerror(errno));
}
