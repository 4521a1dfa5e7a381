/* libFuzzer over the parser of model files, and over the reader of what it wrote.
 * tests/long/README.md says how to build and run it. */
#include "proto/catalog.h"
#include "workers/loader/gguf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct tern_error error;
    struct tern_source source;
    struct tern_segment segment = {.size = tern_catalog_bound(size), .writable = true};
    segment.data = mmap(NULL, segment.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (segment.data == MAP_FAILED)
        return 0;
    tern_source_memory(&source, bytes, size);
    if (tern_gguf_parse(&source, &segment, &error) == TERN_OK) {
        struct tern_catalog *catalog;
        segment.writable = false; /* the reader's copy has exact bounds, which sanitizers see */
        const enum tern_status status = tern_catalog_open(&segment, &catalog, &error);
        /* The reader may find names that come twice, and nothing else, in what the parser let pass.
         */
        if (status != TERN_OK && strstr(error.message, "are named") == NULL)
            abort();
        tern_catalog_close(catalog);
    }
    munmap(segment.data, segment.size);
    return 0;
}
