/*
 * The machine's topology for workers: discovered once, handed on as XML in a memfd that lives as
 * long as the supervisor, so that a worker started again need not spend 20 ms on discovering it.
 */
#include "coordinator/supervise/internal.h"

#include <hwloc.h>
#include <sys/mman.h>
#include <unistd.h>

static bool write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t written = write(fd, text, length);
        if (written <= 0)
            return false;
        text += written;
        length -= (size_t)written;
    }
    return true;
}

static int write_memfd(const char *text, size_t length)
{
    const int fd = memfd_create("tern-topology", MFD_CLOEXEC);
    if (fd >= 0 && write_all(fd, text, length))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int topology_export(void)
{
    hwloc_topology_t topology;
    char *xml;
    int length, fd = -1;
    if (hwloc_topology_init(&topology) != 0)
        return -1;
    if (hwloc_topology_load(topology) == 0 &&
        hwloc_topology_export_xmlbuffer(topology, &xml, &length, 0) == 0) {
        fd = write_memfd(xml, length > 0 ? (size_t)length - 1 : 0); /* the length counts the NUL */
        hwloc_free_xmlbuffer(topology, xml);
    }
    hwloc_topology_destroy(topology);
    return fd;
}
