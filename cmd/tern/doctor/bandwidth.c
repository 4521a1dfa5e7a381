/*
 * How fast memory can be read: what bounds the speed of decoding, which reads all weights for each
 * token. Each thread reads its own part of a buffer that no cache holds, again and again.
 */
#include "cmd/tern/doctor/checks.h"
#include "coordinator/cores.h"
#include "coordinator/memory.h"
#include "proto/board.h"
#include "proto/cgroup.h"
#include "proto/wait.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MIB = 1 << 20,
    LEAST = 64 * MIB,
    LONG_TO_FILL = 256 * MIB,
    MOST = 1024 * MIB,
    BLOCK = 256 << 10,          /* bytes between two looks at the clock */
    MEASURE_NS = 150 * 1000000, /* for each number of threads */
};

/* Two accumulators of a cache line each, so that loads and not the sum are what takes time. */
typedef uint64_t line __attribute__((vector_size(64)));

struct reader {
    const line *data;
    size_t bytes; /* a multiple of BLOCK */
    uint64_t deadline_ns, done;
    volatile uint64_t sink; /* the compiler must not leave the reading out */
    pthread_t thread;
};

static uint64_t read_block(const line *data)
{
    line a = {0}, b = {0};
    for (size_t i = 0; i < BLOCK / sizeof *data; i += 2) {
        a ^= data[i];
        b ^= data[i + 1];
    }
    return a[0] ^ b[0] ^ a[7] ^ b[7];
}

static void *read_part(void *context)
{
    struct reader *reader = context;
    size_t at = 0;
    while (tern_now_ns() < reader->deadline_ns) {
        reader->sink ^= read_block(reader->data + at / sizeof(line));
        reader->done += BLOCK;
        at = at + BLOCK < reader->bytes ? at + BLOCK : 0;
    }
    return NULL;
}

/* Bytes a nanosecond, which are GB/s. *threads: wanted; those that could be started. */
static double measure(const void *buffer, size_t bytes, uint32_t *threads)
{
    static struct reader readers[TERN_MAX_THREADS];
    const size_t part = bytes / *threads / BLOCK * BLOCK;
    const uint64_t begin = tern_now_ns();
    uint64_t done = 0;
    uint32_t started = 0;
    for (; started < *threads; started++) {
        struct reader *reader = &readers[started];
        *reader = (struct reader){.data = (const line *)buffer + started * (part / sizeof(line)),
                                  .bytes = part,
                                  .deadline_ns = begin + MEASURE_NS};
        if (pthread_create(&reader->thread, NULL, read_part, reader) != 0)
            break;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(readers[i].thread, NULL);
        done += readers[i].done;
    }
    *threads = started;
    return (double)done / (double)(tern_now_ns() - begin);
}

/* Bytes of the largest cache, 0 if unknown. The C library's figure is a second choice: on some
 * processors it is that of the whole machine, whatever part of it a virtual machine has. */
static size_t last_cache(void)
{
    uint64_t largest = 0;
    for (int index = 2; index <= 3; index++) {
        char path[64], text[32], unit = ' ';
        unsigned long long size;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        if (!tern_read_text(path, text, sizeof text) || sscanf(text, "%llu%c", &size, &unit) < 1)
            continue;
        size <<= unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
        largest = size > largest ? size : largest;
    }
    if (largest > 0)
        return largest;
    const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE), level2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    const long known = level3 > level2 ? level3 : level2;
    return known > 0 ? (size_t)known : 0;
}

/* Four times the last cache, or twice where that is long to fill; at most a quarter of what memory
 * is free. */
static size_t choose_size(size_t cache)
{
    struct tern_memory memory;
    struct tern_error error;
    size_t bytes = cache <= LONG_TO_FILL / 4 ? 4 * cache : cache < MOST / 2 ? 2 * cache : MOST;
    if (bytes < LEAST)
        bytes = LEAST;
    if (tern_memory_read("", &memory, &error) == TERN_OK && bytes > memory.available / 4)
        bytes = memory.available / 4;
    return bytes / MIB * MIB;
}

static void tell(struct finding *finding, const char *key, uint32_t threads, double speed)
{
    finding_real(finding, key, speed);
    finding_say(finding, "%.1f GB/s with %u thread%s", speed, threads, threads == 1 ? "" : "s");
}

void check_bandwidth(struct finding *finding)
{
    const size_t cache = last_cache(), bytes = choose_size(cache);
    uint32_t one = 1, threads = tern_usable_cores("");
    if (threads > bytes / MIB)
        threads = (uint32_t)(bytes / MIB);
    const uint32_t wanted = threads;
    void *buffer =
        bytes == 0 ? MAP_FAILED
                   : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    finding_number(finding, "buffer_bytes", bytes);
    finding_number(finding, "cache_bytes", cache);
    if (buffer == MAP_FAILED) {
        finding_say(finding, "not measured: no memory for it");
        finding_raise(finding, FINDING_NOTE, "free memory and try again");
        return;
    }
    madvise(buffer, bytes, MADV_HUGEPAGE);
    memset(buffer, 1, bytes); /* untouched pages would all be the one page of zeros */
    const double alone = measure(buffer, bytes, &one);
    const double all = measure(buffer, bytes, &threads);
    munmap(buffer, bytes);
    tell(finding, "one_gb_per_s", one, alone);
    finding_number(finding, "threads", threads);
    tell(finding, "gb_per_s", threads, all);
    finding_say(finding, "a large model gives at most this, divided by the bytes of its "
                         "weights, in tokens a second");
    if (threads < wanted)
        finding_raise(finding, FINDING_PROBLEM,
                      "only %u of %u threads could be started: raise ulimit -u or the container's "
                      "limit of processes",
                      threads, wanted);
    if (bytes < 2 * cache)
        finding_raise(finding, FINDING_NOTE,
                      "part of it came from a cache of %zu MiB: free memory, so that a larger "
                      "buffer can be measured",
                      cache / MIB);
}
