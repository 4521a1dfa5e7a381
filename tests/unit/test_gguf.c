/* workers/loader, the parser: the base model, every way of cutting it, thousands of damaged ones,
 * big vocabularies, and all golden models. */
#include "proto/catalog_format.h"
#include "tests/unit/model_bytes.h"
#include "workers/loader/gguf.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct tern_error error;
static struct tern_segment segment;
static struct model_bytes base;

/* Seconds of processor time, so that a busy machine fails no test. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static enum tern_status parse(const uint8_t *bytes, size_t size)
{
    struct tern_source source;
    tern_source_memory(&source, bytes, size);
    return tern_gguf_parse(&source, &segment, &error);
}

static struct tern_catalog *open_catalog(void)
{
    struct tern_catalog *catalog;
    assert_int_equal(tern_catalog_open(&segment, &catalog, &error), TERN_OK);
    return catalog;
}

static void the_base_model_is_read(void **state)
{
    (void)state;
    assert_int_equal(parse(base.bytes, base.size), TERN_OK);
    struct tern_catalog *catalog = open_catalog();
    struct tern_string text;
    struct tern_array tokens;
    struct tern_tensor tensor;
    uint64_t number;
    double epsilon;
    assert_true(tern_catalog_string(catalog, "general.architecture", &text));
    assert_memory_equal(text.bytes, "llama", 5);
    assert_true(tern_catalog_u64(catalog, "llama.embedding_length", &number));
    assert_int_equal(number, 32);
    assert_true(tern_catalog_f64(catalog, "llama.attention.layer_norm_rms_epsilon", &epsilon));
    assert_true(epsilon == (double)1e-5f);
    assert_true(tern_catalog_array(catalog, "tokenizer.ggml.tokens", TERN_V_STRING, &tokens));
    assert_int_equal(tokens.count, 270);
    text = tern_array_string(&tokens, 269);
    assert_int_equal(text.length, 5);
    assert_memory_equal(text.bytes, "hello", 5);

    assert_int_equal(tern_catalog_tensors(catalog), 12);
    tern_catalog_tensor(catalog, (uint32_t)tern_catalog_find(catalog, "output.weight"), &tensor);
    assert_int_equal(tensor.size[0], 32);
    assert_int_equal(tensor.size[1], 270);
    assert_int_equal(tensor.bytes, 32 * 270 * 4);
    assert_int_equal(tensor.file_offset + tensor.bytes, base.size);
    tern_catalog_close(catalog);
}

static void every_prefix_is_refused(void **state)
{
    (void)state;
    enum { PREFIXES = 8 * 1024 }; /* the directory ends before */
    for (size_t size = 0; size < PREFIXES; size++) {
        uint8_t *prefix = test_malloc(size + 1); /* its own block, so that sanitizers see its end */
        memcpy(prefix, base.bytes, size);
        assert_int_equal(parse(prefix, size), TERN_BAD_MODEL);
        test_free(prefix);
    }
    for (size_t size = PREFIXES; size < base.size; size += 997)
        assert_int_equal(parse(base.bytes, size), TERN_BAD_MODEL);
    assert_int_equal(parse(base.bytes, base.size - 1), TERN_BAD_MODEL);
    assert_non_null(strstr(error.message, "output.weight"));
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    enum { ROUNDS = 20000, DIRECTORY = 7536 };
    uint64_t random = 1;
    unsigned refused = 0;
    uint8_t *copy = test_malloc(base.size);
    memcpy(copy, base.bytes, base.size);
    for (int round = 0; round < ROUNDS; round++) {
        size_t at[3];
        for (int i = 0; i < 3; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            at[i] = (random >> 33) % DIRECTORY;
            copy[at[i]] = (uint8_t)(random >> 20);
        }
        struct tern_catalog *catalog = NULL;
        if (parse(copy, base.size) != TERN_OK ||
            tern_catalog_open(&segment, &catalog, &error) != TERN_OK)
            refused++;
        tern_catalog_close(catalog);
        for (int i = 0; i < 3; i++)
            copy[at[i]] = base.bytes[at[i]];
    }
    test_free(copy);
    assert_true(refused > ROUNDS / 10);
}

static void version_2_and_small_alignments_are_read(void **state)
{
    (void)state;
    uint8_t *copy = test_malloc(base.size);
    memcpy(copy, base.bytes, base.size);
    copy[4] = 2;
    assert_int_equal(parse(copy, base.size), TERN_OK);
    const char key[] = "general.alignment";
    uint8_t *at = memmem(copy, base.size, key, sizeof key - 1);
    assert_non_null(at);
    at += sizeof key - 1 + 4;
    assert_int_equal(*at, 32);
    for (*at = 1; *at < 32; *at = (uint8_t)(*at * 2))
        assert_int_equal(parse(copy, base.size), TERN_OK);
    test_free(copy);
}

/* ---- big vocabularies ---- */

static uint8_t *put(uint8_t *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

static uint8_t *put_u64(uint8_t *to, uint64_t value)
{
    return put(to, &value, sizeof value);
}

static uint8_t *put_strings(uint8_t *to, const char *key, uint64_t count)
{
    to = put_u64(to, strlen(key));
    to = put(to, key, strlen(key));
    to = put(to, (uint32_t[]){TERN_V_ARRAY, TERN_V_STRING}, 8);
    to = put_u64(to, count);
    for (uint64_t i = 0; i < count; i++) {
        char text[32];
        const int length =
            snprintf(text, sizeof text, "%llx", (unsigned long long)(i * 2654435761u));
        to = put_u64(to, (uint64_t)length);
        to = put(to, text, (size_t)length);
    }
    return to;
}

static void a_big_vocabulary_is_read_fast(void **state)
{
    (void)state;
    uint8_t *file = test_malloc(64 << 20), *to = put(file, "GGUF\3\0\0\0", 8);
    to = put_u64(to, 0);
    to = put_u64(to, 2);
    to = put_strings(to, "tokenizer.ggml.tokens", 262144);
    to = put_strings(to, "tokenizer.ggml.merges", 500000);
    const struct tern_segment small = segment;
    segment = private_segment((uint64_t)(to - file));
    const double began = cpu_seconds();
    assert_int_equal(parse(file, (size_t)(to - file)), TERN_OK);
    struct tern_catalog *catalog = open_catalog();
    const double took = cpu_seconds() - began;
    struct tern_array merges;
    assert_true(tern_catalog_array(catalog, "tokenizer.ggml.merges", TERN_V_STRING, &merges));
    assert_int_equal(merges.count, 500000);
    tern_catalog_close(catalog);
    munmap(segment.data, segment.size);
    segment = small;
    test_free(file);
    assert_true(took < 1.0);
}

static void many_tensors_and_keys_are_read_fast(void **state)
{
    (void)state;
    uint8_t *file = test_calloc(16 << 20, 1), *to = put(file, "GGUF\3\0\0\0", 8);
    to = put_u64(to, TERN_MAX_TENSORS);
    to = put_u64(to, TERN_MAX_KEYS);
    char name[16];
    for (int i = 0; i < TERN_MAX_KEYS; i++) {
        to = put_u64(to, (uint64_t)snprintf(name, sizeof name, "k%d", i));
        to = put(to, name, strlen(name));
        to = put(to, (uint32_t[]){TERN_V_U32, 1}, 8);
    }
    for (int i = 0; i < TERN_MAX_TENSORS; i++) {
        to = put_u64(to, (uint64_t)snprintf(name, sizeof name, "t%d", i));
        to = put(to, name, strlen(name));
        to = put(to, (uint32_t[]){1, 8, 0, 0}, 16);
        to = put_u64(to, (uint64_t)(TERN_MAX_TENSORS - 1 - i) * 32);
    }
    const size_t size = (size_t)(to - file) + 31 + (size_t)TERN_MAX_TENSORS * 32;
    const double began = cpu_seconds();
    assert_int_equal(parse(file, size), TERN_OK);
    struct tern_catalog *catalog = open_catalog();
    assert_true(cpu_seconds() - began < 1.0);
    assert_int_equal(tern_catalog_find(catalog, "t65535"), 65535);
    tern_catalog_close(catalog);
    test_free(file);
}

/* ---- files ---- */

static void golden_models_are_read(void **state)
{
    (void)state;
    char pattern[4096];
    glob_t found;
    golden_pattern(pattern, sizeof pattern);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const struct model_bytes model = read_model(found.gl_pathv[i]);
        if (parse(model.bytes, model.size) != TERN_OK)
            fail_msg("%s: %s", found.gl_pathv[i], error.message);
        struct tern_catalog *catalog = open_catalog();
        assert_true(tern_catalog_tensors(catalog) > 0);
        assert_true(tern_catalog_has(catalog, "general.architecture"));
        tern_catalog_close(catalog);
        free(model.bytes);
    }
    globfree(&found);
}

static void a_descriptor_gives_what_memory_gives(void **state)
{
    (void)state;
    assert_int_equal(parse(base.bytes, base.size), TERN_OK);
    const struct tern_segment from_memory = segment;
    segment = private_segment(base.size);
    const int fd = open(test_path("TERN_BASE_GGUF"), O_RDONLY | O_CLOEXEC);
    struct tern_source source;
    assert_int_equal(tern_source_file(&source, fd, base.size, &error), TERN_OK);
    assert_int_equal(tern_gguf_parse(&source, &segment, &error), TERN_OK);
    tern_source_close(&source);
    struct catalog_header header;
    memcpy(&header, segment.data, sizeof header);
    assert_memory_equal(segment.data, from_memory.data, header.used);
    /* A size that is no longer true: the file was cut after it was measured. */
    assert_int_equal(tern_source_file(&source, fd, base.size + 100, &error), TERN_OK);
    source.position = base.size;
    uint8_t byte;
    assert_int_equal(tern_source_read(&source, &byte, 1, &error), TERN_BAD_MODEL);
    tern_source_close(&source);
    close(fd);
    munmap(segment.data, segment.size);
    segment = from_memory;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_base_model_is_read),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(version_2_and_small_alignments_are_read),
        cmocka_unit_test(a_big_vocabulary_is_read_fast),
        cmocka_unit_test(many_tensors_and_keys_are_read_fast),
        cmocka_unit_test(golden_models_are_read),
        cmocka_unit_test(a_descriptor_gives_what_memory_gives),
    };
    base = read_model(test_path("TERN_BASE_GGUF"));
    segment = private_segment(4 << 20);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    munmap(segment.data, segment.size);
    free(base.bytes);
    return failed;
}
