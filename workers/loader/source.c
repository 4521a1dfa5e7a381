/* Reads through a window, so that the many small fields of a model file cost no system call each.
 */
#include "workers/loader/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 20 };

void tern_source_memory(struct tern_source *source, const void *bytes, size_t size)
{
    *source = (struct tern_source){
        .fd = -1,
        .size = size,
        .window = (uint8_t *)(uintptr_t)bytes,
        .window_bytes = size,
    };
}

enum tern_status tern_source_file(struct tern_source *source, int fd, uint64_t size,
                                  struct tern_error *error)
{
    *source = (struct tern_source){.fd = fd, .size = size, .window = malloc(WINDOW)};
    if (source->window == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for a read buffer of %d bytes", WINDOW);
    return TERN_OK;
}

void tern_source_close(struct tern_source *source)
{
    if (source->fd >= 0)
        free(source->window);
    *source = (struct tern_source){.fd = -1};
}

/* One pread at `position`: 0 < *got <= room. */
static enum tern_status read_some(const struct tern_source *source, void *to, size_t room,
                                  size_t *got, struct tern_error *error)
{
    for (;;) {
        const ssize_t done = pread(source->fd, to, room, (off_t)source->position);
        *got = (size_t)done;
        if (done > 0)
            return TERN_OK;
        if (done == 0)
            return tern_fail(error, TERN_BAD_MODEL,
                             "the file became shorter while it was read: it ends at byte %" PRIu64
                             " of %" PRIu64 "; load it again when nobody writes to it",
                             source->position, source->size);
        if (errno != EINTR)
            return tern_fail(error, TERN_FAILED, "cannot read the file at byte %" PRIu64 ": %s",
                             source->position, strerror(errno));
    }
}

static enum tern_status refill(struct tern_source *source, struct tern_error *error)
{
    const uint64_t left = tern_source_left(source);
    source->window_start = source->position;
    source->window_bytes = 0;
    return read_some(source, source->window, left < WINDOW ? left : WINDOW, &source->window_bytes,
                     error);
}

enum tern_status tern_source_read(struct tern_source *source, void *to, size_t bytes,
                                  struct tern_error *error)
{
    uint8_t *out = to;
    while (bytes > 0) {
        const uint64_t inside = source->position - source->window_start;
        size_t take = inside < source->window_bytes ? source->window_bytes - inside : 0;
        enum tern_status status = TERN_OK;
        if (take > 0) {
            take = take < bytes ? take : bytes;
            memcpy(out, source->window + inside, take);
        } else if (bytes >= WINDOW) {
            status = read_some(source, out, bytes, &take, error);
        } else {
            status = refill(source, error);
        }
        if (status != TERN_OK)
            return status;
        out += take;
        bytes -= take;
        source->position += take;
    }
    return TERN_OK;
}
