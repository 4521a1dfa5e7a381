/* What the tests of the loader share: whole files in memory, and a segment that lives in this
 * process alone. */
#ifndef TERN_TESTS_MODEL_BYTES_H
#define TERN_TESTS_MODEL_BYTES_H

#include "proto/catalog.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct model_bytes {
    uint8_t *bytes;
    size_t size;
};

/* The caller frees ->bytes; exits the test when the file cannot be read. */
static inline struct model_bytes read_model(const char *path)
{
    struct model_bytes model = {0};
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        perror(path);
        exit(1);
    }
    model.size = (size_t)info.st_size;
    model.bytes = malloc(model.size + 1);
    if (model.bytes == NULL || pread(fd, model.bytes, model.size, 0) != (ssize_t)model.size)
        exit(1);
    close(fd);
    return model;
}

/* The value of an environment variable that the build sets. */
static inline const char *test_path(const char *name)
{
    const char *path = getenv(name);
    if (path == NULL) {
        fprintf(stderr, "%s is not set; run this through meson test\n", name);
        exit(1);
    }
    return path;
}

/* A glob pattern for all golden models: those of TERN_GOLDEN, or the subset in the source tree. */
static inline void golden_pattern(char *pattern, size_t room)
{
    const char *golden = getenv("TERN_GOLDEN");
    if (golden != NULL)
        snprintf(pattern, room, "%s/models/*.gguf", golden);
    else
        snprintf(pattern, room, "%s/tests/golden/models/*.gguf", test_path("TERN_SOURCE"));
}

/* Private memory in place of a segment, for a catalog of a file of file_bytes; release with
 * munmap(segment.data, segment.size). */
static inline struct tern_segment private_segment(uint64_t file_bytes)
{
    struct tern_segment segment = {
        .size = tern_catalog_bound(file_bytes), .kind = TERN_SEGMENT_CATALOG, .writable = true};
    segment.data = mmap(NULL, segment.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (segment.data == MAP_FAILED)
        exit(1);
    return segment;
}

#endif
