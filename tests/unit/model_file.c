/* Catalogs by the loader's own parser, as the service has them. */
#include "tests/unit/model_file.h"

#include "workers/loader/gguf.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void make_segment(uint64_t bytes, struct test_catalog *out)
{
    struct tern_error error = {0};
    assert_int_equal(
        tern_segment_create(TERN_SEGMENT_CATALOG, 1, tern_catalog_bound(bytes), &out->fd, &error),
        TERN_OK);
    assert_int_equal(
        tern_segment_map(out->fd, TERN_SEGMENT_CATALOG, 1, true, false, &out->segment, &error),
        TERN_OK);
}

static void open_catalog(struct test_catalog *out)
{
    struct tern_error error = {0};
    if (tern_catalog_open(&out->segment, &out->catalog, &error) != TERN_OK)
        fail_msg("%s", error.message);
}

/* What `xz -dc path.xz` gives, in memory. */
static int unpack(const char *path)
{
    char command[4200];
    snprintf(command, sizeof command, "%s.xz", path);
    if (access(command, R_OK) != 0)
        return -1;
    snprintf(command, sizeof command, "xz -dc '%s.xz'", path);
    const int memory = memfd_create("unpacked", MFD_CLOEXEC);
    FILE *pipe = popen(command, "r");
    assert_true(memory >= 0 && pipe != NULL);
    char bytes[1 << 16];
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, pipe)) > 0;)
        assert_int_equal(write(memory, bytes, count), count);
    assert_int_equal(pclose(pipe), 0);
    return memory;
}

int test_open(const char *path)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    return file >= 0 ? file : unpack(path);
}

bool test_catalog_open(const char *path, struct test_catalog *out)
{
    *out = (struct test_catalog){.fd = -1};
    const int file = test_open(path);
    if (file < 0)
        return false;
    struct tern_error error = {0};
    struct stat about;
    assert_int_equal(fstat(file, &about), 0);
    make_segment((uint64_t)about.st_size, out);
    struct tern_source source;
    assert_int_equal(tern_source_file(&source, file, (uint64_t)about.st_size, &error), TERN_OK);
    if (tern_gguf_parse(&source, &out->segment, &error) != TERN_OK)
        fail_msg("%s: %s", path, error.message);
    tern_source_close(&source);
    close(file);
    open_catalog(out);
    return true;
}

void test_catalog_make(const struct test_key *keys, uint32_t count, struct test_catalog *out)
{
    *out = (struct test_catalog){.fd = -1};
    struct tern_error error = {0};
    make_segment(1 << 20, out);
    struct tern_catalog_writer *writer;
    assert_int_equal(tern_catalog_begin(&out->segment, count, 0, &writer, &error), TERN_OK);
    for (uint32_t i = 0; i < count; i++) {
        const struct tern_string name = {keys[i].name, strlen(keys[i].name)};
        if (tern_catalog_put_key(writer, name, keys[i].type, keys[i].is_array, keys[i].elements,
                                 keys[i].count, &error) != TERN_OK)
            fail_msg("%s", error.message);
    }
    assert_int_equal(tern_catalog_end(writer, 1 << 20, &error), TERN_OK);
    open_catalog(out);
}

void test_catalog_close(struct test_catalog *catalog)
{
    tern_catalog_close(catalog->catalog);
    tern_segment_unmap(&catalog->segment);
    if (catalog->fd >= 0)
        close(catalog->fd);
    *catalog = (struct test_catalog){.fd = -1};
}

const char *test_golden(const char *format, ...)
{
    static char path[4096];
    const char *folder = getenv("TERN_GOLDEN"), *source = getenv("TERN_SOURCE");
    const int used =
        folder != NULL && *folder != '\0'
            ? snprintf(path, sizeof path / 2, "%s/", folder)
            : snprintf(path, sizeof path / 2, "%s/tests/golden/", source == NULL ? "." : source);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + used, sizeof path - (size_t)used, format, arguments);
    va_end(arguments);
    return path;
}

const char *test_model(const char *name)
{
    static char path[4096];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool given = cache != NULL && *cache == '/';
    snprintf(path, sizeof path, "%s%s/tern/models/%s.gguf",
             given          ? cache
             : home == NULL ? ""
                            : home,
             given ? "" : "/.cache", strcmp(name, "smollm2") == 0 ? "smollm2-135m" : name);
    return path;
}
