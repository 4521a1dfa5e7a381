/* Catalogs for tests: from a model file, or put together key by key. */
#ifndef TERN_TEST_MODEL_FILE_H
#define TERN_TEST_MODEL_FILE_H

#include "proto/catalog.h"

struct test_catalog {
    int fd;
    struct tern_segment segment;
    struct tern_catalog *catalog; /* NULL: nothing there */
};

/* A descriptor of the file, or of what is packed in path.xz; -1 if there is neither. */
int test_open(const char *path);

/* Parses a GGUF file as the loader does. False if there is no such file, packed or not; fails the
 * test if it is there and bad. */
bool test_catalog_open(const char *path, struct test_catalog *out);
void test_catalog_close(struct test_catalog *catalog);

/* A key of a catalog put together by hand. */
struct test_key {
    const char *name;
    enum tern_value_type type;
    bool is_array;
    const void *elements; /* of strings: struct tern_string */
    uint64_t count;
};
void test_catalog_make(const struct test_key *keys, uint32_t count, struct test_catalog *out);

/* TERN_GOLDEN/name, or tests/golden/name in the source tree (TERN_SOURCE, else where we are). */
const char *test_golden(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Path of a real model in Tern's cache, where scripts/fetch-models puts it ("smollm2" or
 * "gemma3-270m"), overwritten by the next call. It need not be there. */
const char *test_model(const char *name);

#endif
