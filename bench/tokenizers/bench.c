/*
 * Speed of a file's tokenizer on texts, in this process and on one thread:
 *
 *     bench-tokenizers MODEL.gguf SECONDS TEXT...
 *
 * A line per text: ids, a 64-bit FNV-1a hash of the ids (as little-endian u32), and the MB/s of
 * encoding and decoding: medians of repeated runs that take SECONDS each in all.
 */
#include "coordinator/tokenizer/tokenizer.h"
#include "workers/loader/gguf.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RUNS = 4096 };

static _Noreturn void stop(const char *what, const char *why)
{
    fprintf(stderr, "bench-tokenizers: %s: %s\n", what, why);
    exit(1);
}

static struct tern_tokenizer *open_tokenizer(const char *path)
{
    struct tern_error error = {0};
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0)
        stop(path, "cannot be read");
    struct tern_segment segment = {.size = tern_catalog_bound((uint64_t)about.st_size),
                                   .writable = true};
    segment.data = mmap(NULL, segment.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (segment.data == MAP_FAILED)
        stop(path, "no memory");
    struct tern_source source;
    struct tern_catalog *catalog;
    struct tern_tokenizer *tokenizer;
    if (tern_source_file(&source, file, (uint64_t)about.st_size, &error) != TERN_OK ||
        tern_gguf_parse(&source, &segment, &error) != TERN_OK ||
        tern_catalog_open(&segment, &catalog, &error) != TERN_OK ||
        tern_tokenizer_new(catalog, &tokenizer, &error) != TERN_OK)
        stop(path, error.message);
    tern_catalog_close(catalog);
    tern_source_close(&source);
    close(file);
    return tokenizer;
}

static char *read_text(const char *path, size_t *length)
{
    struct stat about;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &about) != 0 || about.st_size == 0)
        stop(path, "cannot be read or is empty");
    *length = (size_t)about.st_size;
    char *text = malloc(*length);
    if (text == NULL || fread(text, 1, *length, file) != *length)
        stop(path, "cannot be read");
    fclose(file);
    return text;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static struct tern_ids encode(const struct tern_tokenizer *tokenizer, const char *text,
                              size_t length)
{
    const struct tern_text piece = {.bytes = text, .length = length, .parse_special = true};
    struct tern_ids ids;
    struct tern_error error;
    if (tern_tokenize(tokenizer, &piece, 1, false, &ids, &error) != TERN_OK)
        stop("encoding", error.message);
    return ids;
}

static void decode(const struct tern_tokenizer *tokenizer, const struct tern_ids *ids)
{
    struct tern_decoder decoder = {0};
    char *text = NULL;
    size_t length = 0;
    struct tern_error error;
    if (tern_decode(tokenizer, &decoder, ids->id, ids->count, false, true, &text, &length,
                    &error) != TERN_OK)
        stop("decoding", error.message);
    free(text);
}

static uint64_t hash_of(const struct tern_ids *ids)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < ids->count; i++)
        for (unsigned shift = 0; shift < 32; shift += 8)
            hash = (hash ^ (ids->id[i] >> shift & 0xff)) * 0x100000001b3u;
    return hash;
}

static void measure(const struct tern_tokenizer *tokenizer, const char *path, double seconds)
{
    static double encoding[MOST_RUNS], decoding[MOST_RUNS];
    size_t length, runs = 0;
    char *text = read_text(path, &length);
    struct tern_ids first = encode(tokenizer, text, length);
    for (const double end = now() + 2 * seconds; runs < MOST_RUNS && (runs < 3 || now() < end);
         runs++) {
        const double start = now();
        struct tern_ids ids = encode(tokenizer, text, length);
        const double between = now();
        decode(tokenizer, &ids);
        decoding[runs] = now() - between;
        encoding[runs] = between - start;
        tern_ids_free(&ids);
    }
    const double megabytes = 1e-6 * (double)length;
    printf("%zu %016" PRIx64 " %.2f %.2f\n", first.count, hash_of(&first),
           megabytes / median(encoding, runs), megabytes / median(decoding, runs));
    tern_ids_free(&first);
    free(text);
}

int main(int count, char **arguments)
{
    if (count < 4)
        stop("usage", "bench-tokenizers MODEL.gguf SECONDS TEXT...");
    struct tern_tokenizer *tokenizer = open_tokenizer(arguments[1]);
    for (int i = 3; i < count; i++)
        measure(tokenizer, arguments[i], strtod(arguments[2], NULL));
    tern_tokenizer_free(tokenizer);
    return 0;
}
