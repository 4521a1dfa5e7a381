/* proto/catalog: what the writer puts in comes out; what a hostile writer puts in is refused or at
 * least stays inside (run under AddressSanitizer this is proof). */
#include "proto/catalog.h"
#include "proto/catalog_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROOM = 16 * 1024 };

static struct tern_error error;
static _Alignas(64) uint8_t room[ROOM];

static struct tern_string text(const char *bytes)
{
    return (struct tern_string){bytes, strlen(bytes)};
}

static struct tern_segment segment(bool writable)
{
    return (struct tern_segment){.data = room, .size = ROOM, .writable = writable};
}

static void put(struct tern_catalog_writer *writer, const char *name, enum tern_value_type type,
                const void *value)
{
    assert_int_equal(tern_catalog_put_key(writer, text(name), type, false, value, 1, &error),
                     TERN_OK);
}

static void put_array(struct tern_catalog_writer *writer, const char *name,
                      enum tern_value_type type, const void *values, uint64_t count)
{
    assert_int_equal(tern_catalog_put_key(writer, text(name), type, true, values, count, &error),
                     TERN_OK);
}

static void put_tensor(struct tern_catalog_writer *writer, const char *name, uint32_t type,
                       uint64_t columns, uint64_t rows, uint64_t offset)
{
    struct tern_tensor tensor = {
        .name = text(name),
        .type = type,
        .dimensions = 2,
        .size = {columns, rows, 1, 1},
        .file_offset = offset,
    };
    assert_true(tern_tensor_bytes(type, tensor.size, &tensor.bytes));
    assert_int_equal(tern_catalog_put_tensor(writer, &tensor, &error), TERN_OK);
}

enum { KEYS = 13, TENSORS = 3, FILE_BYTES = 1000000 };

/* Writes the catalog that all tests here read, into `room`. */
static void write_catalog(void)
{
    const struct tern_segment to = segment(true);
    struct tern_catalog_writer *writer;
    memset(room, 0xee, sizeof room);
    assert_int_equal(tern_catalog_begin(&to, KEYS, TENSORS, &writer, &error), TERN_OK);
    const struct tern_string words[] = {text("hello"), text(""), {"a\0b", 3}},
                             name = text("a name");
    put(writer, "u8", TERN_V_U8, &(uint8_t){200});
    put(writer, "i8", TERN_V_I8, &(int8_t){-3});
    put(writer, "u64", TERN_V_U64, &(uint64_t){UINT64_MAX});
    put(writer, "i64", TERN_V_I64, &(int64_t){-1});
    put(writer, "f32", TERN_V_F32, &(float){0.5f});
    put(writer, "f64", TERN_V_F64, &(double){-2.25});
    put(writer, "yes", TERN_V_BOOL, &(uint8_t){1});
    put(writer, "name", TERN_V_STRING, &name);
    put_array(writer, "words", TERN_V_STRING, words, 3);
    put_array(writer, "none", TERN_V_STRING, words, 0);
    put_array(writer, "numbers", TERN_V_I16, (int16_t[]){-5, 6, 7}, 3);
    put_array(writer, "floats", TERN_V_F32, (float[]){1.5f, -1e30f}, 2);
    put_array(writer, "empty", TERN_V_U32, (uint32_t[]){0}, 0);
    put_tensor(writer, "z.weight", TERN_Q8_0, 64, 3, 4096);
    put_tensor(writer, "a.weight", TERN_F32, 5, 7, 8192);
    put_tensor(writer, "big", TERN_F16, 512, 100, 16384);
    assert_int_equal(tern_catalog_end(writer, FILE_BYTES, &error), TERN_OK);
}

static struct tern_catalog *open_catalog(bool writable)
{
    const struct tern_segment from = segment(writable);
    struct tern_catalog *catalog;
    assert_int_equal(tern_catalog_open(&from, &catalog, &error), TERN_OK);
    return catalog;
}

static void scalars_come_back(void **state)
{
    (void)state;
    write_catalog();
    struct tern_catalog *catalog = open_catalog(false);
    uint64_t u = 0;
    double f = 0;
    bool b = false;
    struct tern_string s;
    assert_true(tern_catalog_u64(catalog, "u8", &u));
    assert_int_equal(u, 200);
    assert_true(tern_catalog_u64(catalog, "u64", &u));
    assert_true(u == UINT64_MAX);
    assert_false(tern_catalog_u64(catalog, "i8", &u));
    assert_false(tern_catalog_u64(catalog, "i64", &u));
    assert_false(tern_catalog_u64(catalog, "f32", &u));
    assert_false(tern_catalog_u64(catalog, "yes", &u));
    assert_false(tern_catalog_u64(catalog, "numbers", &u));
    assert_false(tern_catalog_u64(catalog, "absent", &u));
    assert_true(tern_catalog_f64(catalog, "f32", &f));
    assert_true(f == 0.5);
    assert_true(tern_catalog_f64(catalog, "f64", &f));
    assert_true(f == -2.25);
    assert_false(tern_catalog_f64(catalog, "u8", &f));
    assert_true(tern_catalog_bool(catalog, "yes", &b));
    assert_true(b);
    assert_false(tern_catalog_bool(catalog, "u8", &b));
    assert_true(tern_catalog_string(catalog, "name", &s));
    assert_int_equal(s.length, 6);
    assert_memory_equal(s.bytes, "a name", 6);
    assert_false(tern_catalog_string(catalog, "words", &s));
    assert_true(tern_catalog_has(catalog, "empty"));
    assert_false(tern_catalog_has(catalog, "nam"));
    assert_false(tern_catalog_has(catalog, "name2"));
    tern_catalog_close(catalog);
}

static void arrays_come_back(void **state)
{
    (void)state;
    write_catalog();
    struct tern_catalog *catalog = open_catalog(false);
    struct tern_array array;
    assert_true(tern_catalog_array(catalog, "words", TERN_V_STRING, &array));
    assert_int_equal(array.count, 3);
    struct tern_string word = tern_array_string(&array, 0);
    assert_int_equal(word.length, 5);
    assert_memory_equal(word.bytes, "hello", 5);
    assert_int_equal(tern_array_string(&array, 1).length, 0);
    word = tern_array_string(&array, 2);
    assert_int_equal(word.length, 3);
    assert_memory_equal(word.bytes, "a\0b", 3);
    assert_int_equal(tern_array_string(&array, 3).length, 0);
    assert_true(tern_catalog_array(catalog, "none", TERN_V_STRING, &array));
    assert_int_equal(array.count, 0);
    assert_false(tern_catalog_array(catalog, "words", TERN_V_U32, &array));
    assert_false(tern_catalog_numbers(catalog, "words", &array));
    assert_false(tern_catalog_numbers(catalog, "u8", &array));
    assert_true(tern_catalog_numbers(catalog, "numbers", &array));
    assert_int_equal(tern_array_i64(&array, 0), -5);
    assert_true(tern_array_f64(&array, 2) == 7.0);
    assert_int_equal(tern_array_i64(&array, 3), 0);
    assert_true(tern_catalog_numbers(catalog, "floats", &array));
    assert_true(tern_array_f64(&array, 0) == 1.5);
    assert_int_equal(tern_array_i64(&array, 0), 1);
    assert_int_equal(tern_array_i64(&array, 1), 0); /* does not fit */
    tern_catalog_close(catalog);
}

static void tensors_come_back(void **state)
{
    (void)state;
    write_catalog();
    struct tern_catalog *catalog = open_catalog(false);
    struct tern_tensor tensor;
    assert_int_equal(tern_catalog_tensors(catalog), TENSORS);
    assert_int_equal(tern_catalog_find(catalog, "a.weight"), 1);
    assert_int_equal(tern_catalog_find(catalog, "big"), 2);
    assert_int_equal(tern_catalog_find(catalog, "bigger"), -1);
    tern_catalog_tensor(catalog, 0, &tensor);
    assert_int_equal(tensor.type, TERN_Q8_0);
    assert_int_equal(tensor.bytes, 3 * 2 * 34);
    assert_int_equal(tensor.file_offset, 4096);
    assert_memory_equal(tensor.name.bytes, "z.weight", tensor.name.length);

    uint64_t offsets[TENSORS], total;
    assert_int_equal(tern_catalog_layout(catalog, offsets, &total, &error), TERN_OK);
    assert_int_equal(offsets[0], 0);
    assert_int_equal(offsets[1], 256);
    assert_int_equal(offsets[2], 4096); /* 100 KiB: on a page */
    assert_int_equal(total, 4096 + 512 * 100 * 2);
    tern_catalog_close(catalog);
}

/* Reads everything through the interface. */
static uint64_t read_all(const struct tern_catalog *catalog)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < tern_catalog_keys(catalog); i++) {
        enum tern_value_type type;
        uint64_t count;
        char name[TERN_MAX_NAME + 1] = {0};
        const struct tern_string key = tern_catalog_key(catalog, i, &type, &count);
        memcpy(name, key.bytes, key.length);
        struct tern_array array;
        struct tern_string s;
        if (tern_catalog_string(catalog, name, &s))
            for (size_t j = 0; j < s.length; j++)
                sum += (uint8_t)s.bytes[j];
        if (tern_catalog_array(catalog, name, TERN_V_STRING, &array))
            for (uint64_t e = 0; e < array.count; e++) {
                s = tern_array_string(&array, e);
                for (size_t j = 0; j < s.length; j++)
                    sum += (uint8_t)s.bytes[j];
            }
        if (tern_catalog_numbers(catalog, name, &array))
            for (uint64_t e = 0; e < array.count; e++)
                sum += (uint64_t)tern_array_i64(&array, e);
    }
    return sum;
}

/* Opens a copy of exactly `size` bytes, so that a sanitizer sees any step beyond. */
static enum tern_status open_copy(const uint8_t *bytes, size_t size, uint64_t *sum)
{
    uint8_t *copy = test_malloc(size + 1);
    memcpy(copy, bytes, size);
    const struct tern_segment from = {.data = copy, .size = size};
    struct tern_catalog *catalog;
    const enum tern_status status = tern_catalog_open(&from, &catalog, &error);
    *sum = status == TERN_OK ? read_all(catalog) : 0;
    tern_catalog_close(catalog);
    test_free(copy);
    return status;
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    write_catalog();
    struct catalog_header header;
    memcpy(&header, room, sizeof header);
    uint64_t sum;
    assert_int_equal(open_copy(room, header.used, &sum), TERN_OK);
    for (size_t size = 0; size < header.used; size++)
        assert_int_equal(open_copy(room, size, &sum), TERN_BAD_MODEL);
}

static void every_changed_byte_stays_inside(void **state)
{
    (void)state;
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    write_catalog();
    struct catalog_header header;
    memcpy(&header, room, sizeof header);
    unsigned refused = 0;
    uint64_t sum, total = 0;
    for (size_t at = 0; at < header.used; at++)
        for (size_t v = 0; v < sizeof values; v++) {
            const uint8_t before = room[at];
            room[at] = values[v];
            refused += open_copy(room, header.used, &sum) != TERN_OK;
            total += sum;
            room[at] = before;
        }
    /* Every byte of counts, offsets, lengths and sizes matters. */
    assert_true(refused > sizeof(struct catalog_key) * KEYS);
    assert_true(total > 0);
}

static void a_later_change_is_not_seen(void **state)
{
    (void)state;
    write_catalog();
    struct tern_catalog *catalog = open_catalog(false);
    memset(room, 0xff, sizeof room);
    struct tern_string s;
    assert_true(tern_catalog_string(catalog, "name", &s));
    assert_memory_equal(s.bytes, "a name", 6);
    tern_catalog_close(catalog);
}

static void names_that_come_twice_are_refused(void **state)
{
    (void)state;
    const struct tern_segment to = segment(true);
    struct tern_catalog_writer *writer;
    struct tern_catalog *catalog;
    assert_int_equal(tern_catalog_begin(&to, 2, 0, &writer, &error), TERN_OK);
    put(writer, "same", TERN_V_U8, &(uint8_t){1});
    put(writer, "same", TERN_V_U8, &(uint8_t){2});
    assert_int_equal(tern_catalog_end(writer, 0, &error), TERN_OK);
    assert_int_equal(tern_catalog_open(&to, &catalog, &error), TERN_BAD_MODEL);
    assert_non_null(strstr(error.message, "'same'"));
}

static void the_writer_refuses_what_does_not_fit(void **state)
{
    (void)state;
    const struct tern_segment to = segment(true);
    struct tern_catalog_writer *writer;
    assert_int_equal(tern_catalog_begin(&to, TERN_MAX_KEYS + 1, 0, &writer, &error),
                     TERN_BAD_MODEL);
    assert_int_equal(tern_catalog_begin(&to, 1000, 1000, &writer, &error), TERN_FAILED);
    assert_int_equal(tern_catalog_begin(&to, 1, 0, &writer, &error), TERN_OK);
    assert_int_equal(tern_catalog_put_key(writer, text("k"), TERN_V_U8, true, room, ROOM, &error),
                     TERN_BAD_MODEL);
    assert_int_equal(
        tern_catalog_put_key(writer, text("k"), TERN_V_U64, true, room, UINT64_MAX / 4, &error),
        TERN_BAD_MODEL);
    assert_int_equal(tern_catalog_put_key(writer, text(""), TERN_V_U8, false, room, 1, &error),
                     TERN_BAD_MODEL);
    assert_int_equal(tern_catalog_end(writer, 0, &error), TERN_FAILED); /* one key is missing */
}

static void sizes_of_tensors_are_exact(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_true(tern_tensor_bytes(TERN_I2_S, (uint64_t[]){256, 3, 1, 1}, &bytes));
    assert_int_equal(bytes, 3 * 64 + 32);
    assert_false(tern_tensor_bytes(TERN_F32, (uint64_t[]){UINT64_MAX / 4, 5, 1, 1}, &bytes));
    assert_false(tern_tensor_bytes(TERN_F32, (uint64_t[]){4, 0, 1, 1}, &bytes));
    assert_false(tern_tensor_bytes(TERN_Q4_K, (uint64_t[]){128, 1, 1, 1}, &bytes));
    assert_false(tern_tensor_bytes(5, (uint64_t[]){128, 1, 1, 1}, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_come_back),
        cmocka_unit_test(arrays_come_back),
        cmocka_unit_test(tensors_come_back),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_changed_byte_stays_inside),
        cmocka_unit_test(a_later_change_is_not_seen),
        cmocka_unit_test(names_that_come_twice_are_refused),
        cmocka_unit_test(the_writer_refuses_what_does_not_fit),
        cmocka_unit_test(sizes_of_tensors_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
