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

/* The reference knows the marks and compositions of Unicode 9 only. To it, those that came later
 * (up to Unicode 16) are characters that neither move nor combine, whatever utf8proc's version
 * says. Nor does U+11A7, which utf8proc 2.8 loses after a Hangul syllable: it takes the place
 * before the first final consonant for one. */
static const uint32_t inert[][2] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x11a7, 0x11a7},
    {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},
    {0x105c9, 0x105c9}, {0x105d2, 0x105d2}, {0x105da, 0x105da}, {0x105e4, 0x105e4},
    {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efc, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x11382, 0x11385}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x11391},
    {0x113b8, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca},
    {0x113cc, 0x113d0}, {0x113d2, 0x113d2}, {0x113e1, 0x113e2}, {0x1145e, 0x1145e},
    {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938},
    {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34},
    {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x11f5a, 0x11f5a}, {0x1611e, 0x1612f},
    {0x16d63, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136},
    {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}};

bool text_is_inert(uint32_t point)
{
    size_t low = 0, high = sizeof inert / sizeof inert[0];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (point > inert[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof inert / sizeof inert[0] && point >= inert[low][0];
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

/* The same for a text that may hold inert characters, which stay where they are. */
static enum tern_status append_unstable(struct text_buffer *buffer, const char *text, size_t length,
                                        struct tern_error *error)
{
    size_t start = 0;
    enum tern_status status = TERN_OK;
    for (size_t at = 0; status == TERN_OK && at < length;) {
        unsigned bytes;
        if (!text_is_inert(unicode_point(text + at, &bytes))) {
            at += bytes;
            continue;
        }
        if (at > start)
            status = append_normalized(buffer, text + start, at - start, error);
        if (status == TERN_OK)
            status = text_append(buffer, text + at, bytes, error);
        start = at += bytes;
    }
    return status == TERN_OK && start < length
               ? append_normalized(buffer, text + start, length - start, error)
               : status;
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
        status = append_unstable(buffer, text, rest, error);
        text += rest;
        length -= rest;
    }
    return status;
}
