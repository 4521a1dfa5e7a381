/* A two-stage table of classes: blocks of 128 code points, equal ones stored once. */
#include "coordinator/tokenizer/unicode.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 0x110000,
    BLOCK = 128,
    BLOCKS = POINTS / BLOCK,
};

struct unicode_classes {
    uint16_t block[BLOCKS]; /* which of the stored blocks */
    uint8_t (*stored)[BLOCK];
};

/* The block's number among the stored ones. Uniform blocks (most) are searched for; the others
 * differ from each other nearly always. */
static uint16_t store_block(struct unicode_classes *classes, const uint8_t *block, size_t *count)
{
    const bool uniform = memcmp(block, block + 1, BLOCK - 1) == 0;
    for (size_t i = 0; uniform && i < *count; i++)
        if (memcmp(classes->stored[i], block, BLOCK) == 0)
            return (uint16_t)i;
    memcpy(classes->stored[*count], block, BLOCK);
    return (uint16_t)(*count)++;
}

static void add_sets(const struct unicode_range *range, size_t ranges, uint32_t start,
                     uint8_t *block)
{
    for (size_t r = 0; r < ranges; r++) {
        const uint32_t from = range[r].first > start ? range[r].first : start;
        for (uint32_t point = from; point <= range[r].last && point < start + BLOCK; point++)
            block[point - start] |= (uint8_t)range[r].set;
    }
}

static void fill(const struct unicode_range *range, size_t ranges, struct unicode_classes *classes)
{
    size_t entry = 0, count = 0;
    uint8_t class = UNICODE_OTHER;
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint8_t block[BLOCK];
        const uint32_t next = entry < unicode_table_entries ? unicode_table[entry] >> 4 : POINTS;
        if (next >= (b + 1) * BLOCK)
            memset(block, UNICODE_CODE | class, BLOCK);
        for (uint32_t i = 0; next < (b + 1) * BLOCK && i < BLOCK; i++) {
            if (entry < unicode_table_entries && unicode_table[entry] >> 4 == b * BLOCK + i)
                class = unicode_table[entry++] & 15;
            block[i] = UNICODE_CODE | class;
        }
        add_sets(range, ranges, b * BLOCK, block);
        classes->block[b] = store_block(classes, block, &count);
    }
}

struct unicode_classes *unicode_classes_new(const struct unicode_range *range, size_t ranges)
{
    struct unicode_classes *classes = calloc(1, sizeof *classes);
    if (classes == NULL)
        return NULL;
    /* At most one uniform block per code, and one for every change of class or set. */
    classes->stored = calloc(UNICODE_CODE + unicode_table_entries + 2 * ranges, BLOCK);
    if (classes->stored == NULL) {
        free(classes);
        return NULL;
    }
    fill(range, ranges, classes);
    return classes;
}

void unicode_classes_free(struct unicode_classes *classes)
{
    if (classes == NULL)
        return;
    free(classes->stored);
    free(classes);
}

static uint8_t code_of(const struct unicode_classes *classes, uint32_t point)
{
    return classes->stored[classes->block[point / BLOCK]][point % BLOCK];
}

enum unicode_class unicode_class_of(const struct unicode_classes *classes, uint32_t point)
{
    return point < POINTS ? (enum unicode_class)(code_of(classes, point) & 15) : UNICODE_OTHER;
}

size_t unicode_encode(const struct unicode_classes *classes, const char *text, size_t length,
                      uint8_t *codes)
{
    size_t count = 0;
    for (size_t i = 0; i < length;) {
        uint64_t eight;
        if (i + 8 <= length && (memcpy(&eight, text + i, 8), eight & 0x8080808080808080u) == 0) {
            memcpy(codes + count, &eight, 8);
            count += 8;
            i += 8;
            continue;
        }
        unsigned bytes;
        const uint32_t point = unicode_point(text + i, &bytes);
        codes[count++] = point < 0x80 ? (uint8_t)point : code_of(classes, point);
        i += bytes;
    }
    return count;
}
