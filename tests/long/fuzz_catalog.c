/* libFuzzer over the reader of catalogs: the input is a segment that a hostile loader has written.
 */
#include "proto/catalog.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static volatile uint64_t sink;

static void read_strings(const struct tern_catalog *catalog, const char *name)
{
    struct tern_array array;
    struct tern_string text;
    if (tern_catalog_string(catalog, name, &text) && text.length > 0)
        sink += (uint8_t)text.bytes[text.length - 1];
    if (!tern_catalog_array(catalog, name, TERN_V_STRING, &array))
        return;
    for (uint64_t i = 0; i < array.count; i++) {
        text = tern_array_string(&array, i);
        if (text.length > 0)
            sink += (uint8_t)text.bytes[text.length - 1];
    }
}

static void read_numbers(const struct tern_catalog *catalog, const char *name)
{
    struct tern_array array;
    uint64_t number;
    double real;
    bool flag;
    if (tern_catalog_u64(catalog, name, &number) || tern_catalog_f64(catalog, name, &real) ||
        tern_catalog_bool(catalog, name, &flag))
        sink++;
    if (tern_catalog_numbers(catalog, name, &array) && array.count > 0)
        sink += (uint64_t)tern_array_i64(&array, array.count - 1) +
                (uint64_t)(tern_array_f64(&array, array.count - 1) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct tern_catalog *catalog;
    struct tern_error error;
    const struct tern_segment segment = {.data = (uint8_t *)(uintptr_t)bytes, .size = size};
    if (tern_catalog_open(&segment, &catalog, &error) != TERN_OK)
        return 0;
    for (uint32_t i = 0; i < tern_catalog_keys(catalog); i++) {
        enum tern_value_type type;
        uint64_t count;
        char name[TERN_MAX_NAME + 1] = {0};
        const struct tern_string key = tern_catalog_key(catalog, i, &type, &count);
        memcpy(name, key.bytes, key.length);
        read_strings(catalog, name);
        read_numbers(catalog, name);
    }
    uint64_t total, *offsets = malloc((tern_catalog_tensors(catalog) + 1) * sizeof *offsets);
    if (offsets != NULL && tern_catalog_layout(catalog, offsets, &total, &error) == TERN_OK)
        sink += total;
    free(offsets);
    tern_catalog_close(catalog);
    return 0;
}
