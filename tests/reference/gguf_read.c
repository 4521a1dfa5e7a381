/* Reads the container: header, metadata, tensor directory. Source of facts: the GGUF specification,
 * versions 2 and 3. The machine is taken to be little-endian, as the files are. */
#include "gguf_read.h"

#include "weights.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUE_STRING = 8, VALUE_ARRAY = 9 };

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("reference: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail("no memory for %zu objects of %zu bytes", count, size);
    return memory;
}

static const uint8_t *take(struct gguf *file, uint64_t size)
{
    if (size > (uint64_t)(file->end - file->cursor))
        fail("the file ends inside its header");
    const uint8_t *here = file->cursor;
    file->cursor += size;
    return here;
}

static uint32_t take_u32(struct gguf *file)
{
    uint32_t number;
    memcpy(&number, take(file, sizeof number), sizeof number);
    return number;
}

static uint64_t take_u64(struct gguf *file)
{
    uint64_t number;
    memcpy(&number, take(file, sizeof number), sizeof number);
    return number;
}

static const char *take_string(struct gguf *file, size_t *length)
{
    *length = take_u64(file);
    return (const char *)take(file, *length);
}

/* Bytes of one value of a type of fixed size: u8 i8 u16 i16 u32 i32 f32 bool, u64 i64 f64. */
static size_t value_size(uint32_t type)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type >= sizeof sizes || sizes[type] == 0)
        fail("metadata of unknown type %u", type);
    return sizes[type];
}

static void skip_value(struct gguf *file, uint32_t type)
{
    if (type == VALUE_STRING) {
        take(file, take_u64(file));
    } else if (type == VALUE_ARRAY) {
        const uint32_t element = take_u32(file);
        const uint64_t count = take_u64(file);
        for (uint64_t i = 0; i < count; i++)
            skip_value(file, element);
    } else {
        take(file, value_size(type));
    }
}

static void read_metadata(struct gguf *file)
{
    file->metadata = allocate(file->metadata_count, sizeof *file->metadata);
    for (size_t i = 0; i < file->metadata_count; i++) {
        struct metadata *entry = &file->metadata[i];
        entry->key = take_string(file, &entry->key_length);
        entry->type = take_u32(file);
        entry->value = file->cursor;
        skip_value(file, entry->type);
    }
}

/* Leaves the offset within the data section in offsets[i]: where that begins is not known yet. */
static void read_directory(struct gguf *file, uint64_t *offsets)
{
    file->tensors = allocate(file->tensor_count, sizeof *file->tensors);
    for (size_t i = 0; i < file->tensor_count; i++) {
        struct tensor *tensor = &file->tensors[i];
        tensor->name = take_string(file, &tensor->name_length);
        const uint32_t dimensions = take_u32(file);
        tensor->columns = dimensions > 0 ? take_u64(file) : 1;
        tensor->rows = 1;
        for (uint32_t d = 1; d < dimensions; d++)
            tensor->rows *= take_u64(file);
        tensor->type = take_u32(file);
        offsets[i] = take_u64(file);
    }
}

static void place_tensors(struct gguf *file, const uint64_t *offsets)
{
    const size_t alignment = (size_t)gguf_number(file, "general.alignment", 32);
    const size_t header = (size_t)(file->cursor - file->start);
    const size_t data = (header + alignment - 1) / alignment * alignment;
    const size_t size = (size_t)(file->end - file->start);
    for (size_t i = 0; i < file->tensor_count; i++) {
        struct tensor *tensor = &file->tensors[i];
        const size_t bytes = tensor->rows * weights_row_bytes(tensor->type, tensor->columns);
        if (data + offsets[i] + bytes > size)
            fail("tensor %.*s lies outside the file", (int)tensor->name_length, tensor->name);
        tensor->data = file->start + data + offsets[i];
    }
}

static void map_file(struct gguf *file, const char *path)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        fail("cannot open %s", path);
    const size_t size = (size_t)status.st_size;
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        fail("cannot map %s", path);
    close(fd);
    file->start = file->cursor = map;
    file->end = file->start + size;
}

struct gguf *gguf_open(const char *path)
{
    struct gguf *file = allocate(1, sizeof *file);
    map_file(file, path);
    if (memcmp(take(file, 4), "GGUF", 4) != 0)
        fail("%s is no GGUF file", path);
    const uint32_t version = take_u32(file);
    if (version != 2 && version != 3)
        fail("%s has GGUF version %u; 2 and 3 are known", path, version);
    file->tensor_count = take_u64(file);
    file->metadata_count = take_u64(file);
    read_metadata(file);
    uint64_t *offsets = allocate(file->tensor_count, sizeof *offsets);
    read_directory(file, offsets);
    place_tensors(file, offsets);
    free(offsets);
    return file;
}

static bool same(const char *name, size_t length, const char *wanted)
{
    return length == strlen(wanted) && memcmp(name, wanted, length) == 0;
}

static const struct metadata *find(const struct gguf *file, const char *key)
{
    for (size_t i = 0; i < file->metadata_count; i++)
        if (same(file->metadata[i].key, file->metadata[i].key_length, key))
            return &file->metadata[i];
    return NULL;
}

#define NUMBER(type)                                                                               \
    {                                                                                              \
        type number;                                                                               \
        memcpy(&number, entry->value, sizeof number);                                              \
        return (double)number;                                                                     \
    }

double gguf_number(const struct gguf *file, const char *key, double otherwise)
{
    const struct metadata *entry = find(file, key);
    if (!entry)
        return otherwise;
    switch (entry->type) {
    case 0:
    case 7:
        NUMBER(uint8_t)
    case 1:
        NUMBER(int8_t)
    case 2:
        NUMBER(uint16_t)
    case 3:
        NUMBER(int16_t)
    case 4:
        NUMBER(uint32_t)
    case 5:
        NUMBER(int32_t)
    case 6:
        NUMBER(float)
    case 10:
        NUMBER(uint64_t)
    case 11:
        NUMBER(int64_t)
    case 12:
        NUMBER(double)
    default:
        fail("%s is no number", key);
    }
}

void gguf_string(const struct gguf *file, const char *key, char *text, size_t size)
{
    const struct metadata *entry = find(file, key);
    uint64_t length = 0;
    if (entry && entry->type == VALUE_STRING)
        memcpy(&length, entry->value, sizeof length);
    if (length > size - 1)
        length = size - 1;
    if (length > 0)
        memcpy(text, entry->value + sizeof length, length);
    text[length] = '\0';
}

const struct tensor *gguf_tensor(const struct gguf *file, const char *name)
{
    for (size_t i = 0; i < file->tensor_count; i++)
        if (same(file->tensors[i].name, file->tensors[i].name_length, name))
            return &file->tensors[i];
    return NULL;
}
