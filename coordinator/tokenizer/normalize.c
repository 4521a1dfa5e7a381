/*
 * utf8proc decomposes and composes, but orders marks by exchanging neighbours, which takes minutes
 * on a long run of them; so that step is done here.
 */
#include "coordinator/tokenizer/normalize.h"

#include "coordinator/tokenizer/unicode.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { LARGEST_DECOMPOSITION = 32 }; /* code points that one may become */

enum tern_status text_append(struct text_buffer *buffer, const char *bytes, size_t length,
                             struct tern_error *error)
{
    if (length > buffer->room - buffer->length) {
        const size_t room = buffer->length + length + buffer->room / 2 + 64;
        char *grown = realloc(buffer->bytes, room);
        if (grown == NULL)
            return tern_fail(error, TERN_NO_MEMORY, "no memory for a text of %zu bytes", room);
        buffer->bytes = grown;
        buffer->room = room;
    }
    if (length > 0)
        memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    return TERN_OK;
}

/* Characters that never change and never combine with what comes before them, in blocks that texts
 * are made of: those below U+0300; Greek and Cyrillic letters; kana, CJK, Hangul syllables. */
static bool is_stable(uint32_t point)
{
    return point < 0x300 || (point >= 0x388 && point <= 0x482) ||
           (point >= 0x48a && point <= 0x590) || (point >= 0x2010 && point <= 0x205f) ||
           (point >= 0x3001 && point <= 0x3029) || (point >= 0x3041 && point <= 0x3096) ||
           (point >= 0x30a1 && point <= 0x30ff) || (point >= 0x3400 && point <= 0x9fff) ||
           (point >= 0xac00 && point <= 0xd7a3) || (point >= 0xff01 && point <= 0xffef) ||
           (point >= 0x1f300 && point <= 0x1faff);
}

/* Length of the longest prefix of stable characters whose last one nothing can combine with: the
 * character before an unstable one belongs to the rest. */
static size_t stable_prefix(const char *text, size_t length)
{
    size_t previous = 0;
    for (size_t at = 0; at < length;) {
        unsigned bytes;
        if (!is_stable(unicode_point(text + at, &bytes)))
            return previous;
        previous = at;
        at += bytes;
    }
    return length;
}

/* Bytes up to and without the first stable character that follows another stable one. */
static size_t unstable_prefix(const char *text, size_t length)
{
    bool after_stable = false;
    for (size_t at = 0; at < length;) {
        unsigned bytes;
        const bool stable = is_stable(unicode_point(text + at, &bytes));
        if (stable && after_stable)
            return at;
        after_stable = stable && at > 0;
        at += bytes;
    }
    return length;
}

static int class_of(int32_t point)
{
    return utf8proc_get_property(point)->combining_class;
}

/* Stable counting sort of one run of marks by combining class. */
static void sort_run(int32_t *point, size_t count, int32_t *scratch)
{
    size_t start[257] = {0};
    for (size_t i = 0; i < count; i++)
        start[class_of(point[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        start[i] += start[i - 1];
    for (size_t i = 0; i < count; i++)
        scratch[start[class_of(point[i])]++] = point[i];
    memcpy(point, scratch, count * sizeof *point);
}

static void order_marks(int32_t *point, size_t count, int32_t *scratch)
{
    for (size_t i = 0; i < count;) {
        size_t end = i;
        bool sorted = true;
        for (; end < count && class_of(point[end]) != 0; end++)
            sorted = sorted && (end == i || class_of(point[end - 1]) <= class_of(point[end]));
        if (!sorted)
            sort_run(point + i, end - i, scratch);
        i = end + 1;
    }
}

/* Decomposes into point[room]; returns how many. */
static size_t decompose(const char *text, size_t length, int32_t *point, size_t room)
{
    size_t count = 0;
    for (size_t at = 0; at < length;) {
        unsigned bytes;
        const int32_t character = (int32_t)unicode_point(text + at, &bytes);
        int boundary = 0;
        const ptrdiff_t made =
            utf8proc_decompose_char(character, point + count, (utf8proc_ssize_t)(room - count),
                                    UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);
        if (made > 0 && (size_t)made <= room - count)
            count += (size_t)made;
        at += bytes;
    }
    return count;
}

static enum tern_status append_points(struct text_buffer *buffer, const int32_t *point,
                                      size_t count, struct tern_error *error)
{
    for (size_t i = 0; i < count; i++) {
        utf8proc_uint8_t bytes[4];
        const ptrdiff_t length = utf8proc_encode_char(point[i], bytes);
        const enum tern_status status =
            text_append(buffer, (const char *)bytes, (size_t)length, error);
        if (status != TERN_OK)
            return status;
    }
    return TERN_OK;
}

static enum tern_status append_normalized(struct text_buffer *buffer, const char *text,
                                          size_t length, struct tern_error *error)
{
    /* No canonical decomposition has more than 3 code points per byte of UTF-8. */
    const size_t room = 3 * length + LARGEST_DECOMPOSITION;
    int32_t *point = malloc(2 * room * sizeof *point);
    if (point == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory to normalize %zu bytes", length);
    const size_t count = decompose(text, length, point, room);
    order_marks(point, count, point + room);
    const ptrdiff_t composed = utf8proc_normalize_utf32(point, (utf8proc_ssize_t)count,
                                                        UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    const enum tern_status status =
        composed < 0 ? tern_fail(error, TERN_FAILED, "NFC failed: %s", utf8proc_errmsg(composed))
                     : append_points(buffer, point, (size_t)composed, error);
    free(point);
    return status;
}

enum tern_status text_append_nfc(struct text_buffer *buffer, const char *text, size_t length,
                                 struct tern_error *error)
{
    enum tern_status status = TERN_OK;
    while (status == TERN_OK && length > 0) {
        const size_t stable = stable_prefix(text, length);
        status = text_append(buffer, text, stable, error);
        if (status != TERN_OK || stable == length)
            break;
        text += stable;
        length -= stable;
        const size_t rest = unstable_prefix(text, length);
        status = append_normalized(buffer, text, rest, error);
        text += rest;
        length -= rest;
    }
    return status;
}
