/*
 * libFuzzer over the reader of catalogs, as a hostile loader could write them. The reader refuses
 * nearly all random bytes at the header, so an input is a list of changes to a good catalog: two
 * bytes of place, one of value.
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

/* ---- the good catalog ---- */

enum { ROOM = 4096 };

static void put(struct tern_catalog_writer *writer, const char *name, enum tern_value_type type,
                bool is_array, const void *elements, uint64_t count)
{
    if (tern_catalog_put_key(writer, (struct tern_string){name, strlen(name)}, type, is_array,
                             elements, count, NULL) != TERN_OK)
        abort();
}

/* Writes to data[ROOM]; returns the bytes used. */
static size_t write_good(uint8_t *data)
{
    static const struct tern_string words[] = {{"one", 3}, {"", 0}, {"three", 5}};
    static const uint16_t numbers[] = {1, 2, 65535};
    static const float real = 1.5f;
    const struct tern_segment segment = {.data = data, .size = ROOM, .writable = true};
    const struct tern_tensor tensors[] = {
        {.name = {"a", 1}, .type = TERN_F32, .dimensions = 1, .size = {8, 1, 1, 1}, .bytes = 32},
        {.name = {"b", 1},
         .type = TERN_Q4_K,
         .dimensions = 2,
         .size = {256, 2, 1, 1},
         .bytes = 288},
    };
    struct tern_catalog_writer *writer;
    if (tern_catalog_begin(&segment, 5, 2, &writer, NULL) != TERN_OK)
        abort();
    put(writer, "word", TERN_V_STRING, false, words, 1);
    put(writer, "words", TERN_V_STRING, true, words, 3);
    put(writer, "number", TERN_V_U16, false, numbers, 1);
    put(writer, "numbers", TERN_V_U16, true, numbers, 3);
    put(writer, "real", TERN_V_F32, false, &real, 1);
    for (int i = 0; i < 2; i++)
        if (tern_catalog_put_tensor(writer, &tensors[i], NULL) != TERN_OK)
            abort();
    if (tern_catalog_end(writer, 4096, NULL) != TERN_OK)
        abort();
    size_t used = ROOM;
    while (used > 0 && data[used - 1] == 0) /* the last tensor's name ends it */
        used--;
    return used;
}

/* ---- reading ---- */

static void read_catalog(const struct tern_segment *segment)
{
    struct tern_catalog *catalog;
    struct tern_error error;
    if (tern_catalog_open(segment, &catalog, &error) != TERN_OK)
        return;
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
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static uint8_t good[ROOM];
    static size_t used;
    if (used == 0)
        used = write_good(good);
    uint8_t *data = malloc(used); /* of its exact size, so that any read behind it is seen */
    if (data == NULL)
        return 0;
    memcpy(data, good, used);
    for (size_t i = 0; i + 3 <= size; i += 3)
        data[(bytes[i] | (size_t)bytes[i + 1] << 8) % used] = bytes[i + 2];
    read_catalog(&(struct tern_segment){.data = data, .size = used});
    free(data);
    return 0;
}
