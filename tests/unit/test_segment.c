/* proto/segment and proto/channel: seals, read-only readers, and parcels with descriptors. */
#include "proto/channel.h"
#include "proto/segment.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static struct tern_error error;

static void writer_and_reader_share_bytes(void **state)
{
    (void)state;
    int fd;
    struct tern_segment writer, reader;
    assert_int_equal(tern_segment_create(TERN_SEGMENT_KV, 7, 5000, &fd, &error), TERN_OK);
    assert_int_equal(tern_segment_map(fd, TERN_SEGMENT_KV, 7, true, false, &writer, &error),
                     TERN_OK);
    const int read_only = tern_segment_reader(fd);
    assert_true(read_only >= 0);
    assert_int_equal(tern_segment_map(read_only, TERN_SEGMENT_KV, 7, false, false, &reader, &error),
                     TERN_OK);
    assert_int_equal(reader.size, 5000);
    writer.data[4999] = 42;
    assert_int_equal(reader.data[4999], 42);
    /* The tail: kernels may read past the data. */
    assert_int_equal(reader.data[8192 + 4095], 0);
    /* A reader's descriptor cannot be mapped writable, and nobody can resize. */
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, read_only, 0),
                     MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), -1);

    assert_int_not_equal(tern_segment_seal(fd, &error), TERN_OK); /* still mapped writable */
    tern_segment_unmap(&writer);
    assert_int_equal(tern_segment_seal(fd, &error), TERN_OK);
    assert_int_not_equal(tern_segment_map(fd, TERN_SEGMENT_KV, 7, true, false, &writer, &error),
                         TERN_OK);
    tern_segment_unmap(&reader);
    close(read_only);
    close(fd);
}

static void a_wrong_segment_is_refused(void **state)
{
    (void)state;
    int fd;
    struct tern_segment s;
    assert_int_equal(tern_segment_create(TERN_SEGMENT_KV, 7, 100, &fd, &error), TERN_OK);
    assert_int_not_equal(tern_segment_map(fd, TERN_SEGMENT_KV, 8, false, false, &s, &error),
                         TERN_OK);
    assert_int_not_equal(tern_segment_map(fd, TERN_SEGMENT_BOARD, 7, false, false, &s, &error),
                         TERN_OK);
    close(fd);
    assert_int_equal(tern_segment_create(TERN_SEGMENT_KV, 7, UINT64_MAX - 5000, &fd, &error),
                     TERN_NO_MEMORY);
}

static void parcels_carry_descriptors_and_messages(void **state)
{
    (void)state;
    static char buffer[TERN_CHANNEL_MAX];
    int ends[2], fd;
    struct tern_parcel got;
    assert_int_equal(tern_channel_pair(ends, &error), TERN_OK);
    assert_int_equal(tern_segment_create(TERN_SEGMENT_KV, 9, 64, &fd, &error), TERN_OK);
    const struct tern_parcel segment = {
        .kind = TERN_PARCEL_SEGMENT, .segment = TERN_SEGMENT_KV, .id = 9, .size = 64, .fd = fd};
    const struct tern_parcel message = {.kind = TERN_PARCEL_MESSAGE, .fd = -1, .bytes = 5};
    assert_int_equal(tern_channel_send(ends[0], &segment, NULL, &error), TERN_OK);
    assert_int_equal(tern_channel_send(ends[0], &message, "hello", &error), TERN_OK);

    struct tern_segment s;
    assert_int_equal(tern_channel_receive(ends[1], 1000, &got, buffer, &error), TERN_OK);
    assert_int_equal(got.id, 9);
    assert_int_equal(tern_segment_map(got.fd, TERN_SEGMENT_KV, got.id, false, false, &s, &error),
                     TERN_OK);
    tern_segment_unmap(&s);
    close(got.fd);
    assert_int_equal(tern_channel_receive(ends[1], 1000, &got, buffer, &error), TERN_OK);
    assert_int_equal(got.bytes, 5);
    assert_memory_equal(buffer, "hello", 5);
    assert_int_equal(tern_channel_receive(ends[1], 1, &got, buffer, &error), TERN_INTERRUPTED);
    close(ends[0]);
    assert_int_equal(tern_channel_receive(ends[1], 1000, &got, buffer, &error), TERN_NO_SERVICE);
    close(ends[1]);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer_and_reader_share_bytes),
        cmocka_unit_test(a_wrong_segment_is_refused),
        cmocka_unit_test(parcels_carry_descriptors_and_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
