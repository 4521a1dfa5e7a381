/*
 * Every tokenizer vector of the golden folder whose vocabulary is there: ids, decoded text, the
 * bulk document, and the text cases of the tiny models. SmolLM2's vocabulary is in its model file,
 * which is looked for in the cache.
 */
#include "coordinator/tokenizer/tokenizer.h"
#include "proto/utf8.h"
#include "tests/unit/model_file.h"
#include "tests/unit/sha256.h"

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct tern_error error;
static size_t vectors_run;

static struct tern_tokenizer *open_tokenizer(const char *path)
{
    struct test_catalog catalog;
    if (!test_catalog_open(path, &catalog))
        return NULL;
    struct tern_tokenizer *tokenizer;
    if (tern_tokenizer_new(catalog.catalog, &tokenizer, &error) != TERN_OK)
        fail_msg("%s: %s", path, error.message);
    test_catalog_close(&catalog);
    return tokenizer;
}

/* Length of the part of a broken character at s, as a decoder that replaces it counts. */
static size_t broken_length(const unsigned char *s, size_t length)
{
    const unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    const size_t wanted = s[0] < 0xc2 || s[0] > 0xf4 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    size_t i = 1;
    while (i < wanted && i < length && s[i] >= (i == 1 ? low : 0x80) &&
           s[i] <= (i == 1 ? high : 0xbf))
        i++;
    return i;
}

/* The text with U+FFFD for what is no UTF-8, as the reference's strings have it. */
static char *replace_broken(const char *text, size_t length)
{
    char *out = malloc(3 * length + 1);
    size_t written = 0;
    for (size_t i = 0; i < length;) {
        const unsigned char *s = (const unsigned char *)text + i;
        const size_t bytes = s[0] < 0x80 ? 1 : broken_length(s, length - i);
        const bool whole = tern_utf8_character(text + i, length - i) > 0;
        memcpy(out + written, whole ? text + i : "\xef\xbf\xbd", whole ? bytes : 3);
        written += whole ? bytes : 3;
        i += bytes;
    }
    out[written] = '\0';
    return out;
}

static char *decode(const struct tern_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                    size_t step)
{
    struct tern_decoder decoder = {0};
    char *text = NULL;
    size_t length = 0;
    for (size_t i = 0; i < count || i == 0; i += step) {
        const size_t now = count - i < step ? count - i : step;
        assert_int_equal(tern_decode(tokenizer, &decoder, ids + i, now, false, i + step >= count,
                                     &text, &length, &error),
                         TERN_OK);
    }
    char *replaced = replace_broken(text, length);
    free(text);
    return replaced;
}

static void show_ids(const char *what, const uint32_t *ids, size_t count)
{
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < count && i < 60; i++)
        fprintf(stderr, " %u", ids[i]);
    fprintf(stderr, "\n");
}

/* Compares with the JSON list; says what differs. */
static bool ids_equal(const char *name, const char *text, const struct tern_ids *ids,
                      const json_t *wanted)
{
    bool equal = ids->count == json_array_size(wanted);
    for (size_t i = 0; equal && i < ids->count; i++)
        equal = ids->id[i] == json_integer_value(json_array_get(wanted, i));
    if (equal)
        return true;
    fprintf(stderr, "%s: \"%.300s\"\n", name, text);
    show_ids("got", ids->id, ids->count);
    uint32_t expected[60];
    size_t count = 0;
    for (; count < 60 && count < json_array_size(wanted); count++)
        expected[count] = (uint32_t)json_integer_value(json_array_get(wanted, count));
    show_ids("wanted", expected, count);
    return false;
}

static bool decodes_as(const struct tern_tokenizer *tokenizer, const struct tern_ids *ids,
                       const char *wanted)
{
    bool equal = true;
    for (size_t step = 1; step <= ids->count + 1; step += ids->count > 3 ? ids->count / 2 : 1) {
        char *text = decode(tokenizer, ids->id, ids->count, step);
        equal = equal && strcmp(text, wanted) == 0;
        if (!equal)
            fprintf(stderr, "  decodes as \"%s\"\n  wanted     \"%s\"\n", text, wanted);
        free(text);
        if (!equal)
            break;
    }
    return equal;
}

/* One vector; the number of things wrong with it. */
static size_t check_vector(const char *name, const struct tern_tokenizer *tokenizer,
                           const json_t *vector)
{
    const json_t *text = json_object_get(vector, "text");
    const json_t *wanted = json_object_get(vector, "ids");
    if (wanted == NULL)
        wanted = json_object_get(vector, "tokens");
    assert_true(json_is_string(text) && json_is_array(wanted));
    const struct tern_text piece = {
        .bytes = json_string_value(text),
        .length = json_string_length(text),
        .parse_special = json_is_true(json_object_get(vector, "parse_special")),
    };
    struct tern_ids ids;
    if (tern_tokenize(tokenizer, &piece, 1, json_is_true(json_object_get(vector, "add_special")),
                      &ids, &error) != TERN_OK)
        fail_msg("%s: %s", name, error.message);
    size_t wrong = !ids_equal(name, piece.bytes, &ids, wanted);
    const char *decoded = json_string_value(json_object_get(vector, "decoded"));
    if (decoded != NULL && wrong == 0)
        wrong += !decodes_as(tokenizer, &ids, decoded);
    tern_ids_free(&ids);
    vectors_run++;
    return wrong;
}

static size_t check_lines(const char *name, const char *suffix,
                          const struct tern_tokenizer *tokenizer)
{
    FILE *file = fopen(test_golden("tokenizers/%s%s", name, suffix), "r");
    if (file == NULL)
        return 0;
    char *line = NULL;
    size_t room = 0, wrong = 0;
    while (getline(&line, &room, file) > 0) {
        json_error_t at;
        json_t *vector = json_loads(line, 0, &at);
        if (vector == NULL)
            fail_msg("%s%s: %s", name, suffix, at.text);
        wrong += check_vector(name, tokenizer, vector);
        json_decref(vector);
    }
    free(line);
    fclose(file);
    return wrong;
}

static size_t check_bulk(const char *name, const struct tern_tokenizer *tokenizer)
{
    json_t *about = json_load_file(test_golden("tokenizers/%s.bulk.json", name), 0, NULL);
    const int file = test_open(test_golden("tokenizers/bulk.txt"));
    struct stat size;
    if (about == NULL || file < 0 || fstat(file, &size) != 0)
        return 0;
    char *text = mmap(NULL, (size_t)size.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    assert_true(text != MAP_FAILED);
    const struct tern_text piece = {.bytes = text, .length = (size_t)size.st_size};
    struct tern_ids ids;
    assert_int_equal(tern_tokenize(tokenizer, &piece, 1, false, &ids, &error), TERN_OK);
    char digest[65];
    test_sha256(ids.id, ids.count * sizeof *ids.id, digest);
    const char *wanted = json_string_value(json_object_get(about, "ids_u32le_sha256"));
    const bool equal = strcmp(digest, wanted) == 0;
    if (!equal)
        fprintf(stderr, "%s: bulk document: %zu ids with SHA-256 %s, wanted %s\n", name, ids.count,
                digest, wanted);
    vectors_run++;
    tern_ids_free(&ids);
    munmap(text, (size_t)size.st_size);
    close(file);
    json_decref(about);
    return !equal;
}

static struct tern_tokenizer *open_vocabulary(const char *name)
{
    struct tern_tokenizer *tokenizer = open_tokenizer(test_golden("tokenizers/%s.gguf", name));
    return tokenizer != NULL ? tokenizer : open_tokenizer(test_model(name));
}

static void vectors_are_right(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-2",       "smollm2", "llama3_1",     "qwen3",
                                        "llama-spm",   "gemma3",  "starcoder",    "falcon",
                                        "deepseek_v3", "gptoss",  "deepseek-llm", "deepseek-coder"};
    size_t wrong = 0;
    vectors_run = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct tern_tokenizer *tokenizer = open_vocabulary(names[i]);
        if (tokenizer == NULL)
            continue;
        const size_t before = vectors_run;
        const size_t wrong_here = check_lines(names[i], ".jsonl", tokenizer) +
                                  check_lines(names[i], ".llama.jsonl", tokenizer) +
                                  check_bulk(names[i], tokenizer);
        printf("%s: %zu vectors, %zu wrong\n", names[i], vectors_run - before, wrong_here);
        wrong += wrong_here;
        tern_tokenizer_free(tokenizer);
    }
    assert_int_equal(wrong, 0);
    assert_true(vectors_run > 0);
}

/* ---- published texts and ids ---- */

static json_t *read_ids(const char *line)
{
    json_t *ids = json_array();
    char *end;
    for (long id; id = strtol(line, &end, 10), end != line; line = end)
        json_array_append_new(ids, json_integer(id));
    return ids;
}

static char *read_whole(const char *path)
{
    const int file = test_open(path);
    struct stat size;
    if (file < 0 || fstat(file, &size) != 0)
        return NULL;
    char *bytes = malloc((size_t)size.st_size + 1);
    assert_int_equal(read(file, bytes, (size_t)size.st_size), size.st_size);
    bytes[size.st_size] = '\0';
    close(file);
    return bytes;
}

/* Texts are separated by a line of their own; each has a line of ids, without special tokens. */
static size_t check_published(const char *name, const struct tern_tokenizer *tokenizer)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char *texts = read_whole(test_golden("../data/vocab/ggml-vocab-%s.gguf.inp", name));
    char *lines = read_whole(test_golden("../data/vocab/ggml-vocab-%s.gguf.out", name));
    assert_non_null(texts);
    assert_non_null(lines);
    size_t wrong = 0;
    char *line = lines;
    for (char *text = texts, *end; (end = strstr(text, separator)) != NULL;
         text = end + strlen(separator)) {
        json_t *vector = json_object();
        json_object_set_new(vector, "text", json_stringn(text, (size_t)(end - text)));
        json_object_set_new(vector, "ids", read_ids(strsep(&line, "\n")));
        wrong += check_vector(name, tokenizer, vector);
        json_decref(vector);
        assert_non_null(line);
    }
    free(texts);
    free(lines);
    return wrong;
}

/* In a folder beside the golden one, which the project does not carry. */
static void published_ids_are_right(void **state)
{
    (void)state;
    static const char *const names[] = {"deepseek-coder", "deepseek-llm", "falcon",
                                        "gpt-2",          "llama-spm",    "mpt",
                                        "phi-3",          "refact",       "starcoder"};
    size_t wrong = 0;
    vectors_run = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct tern_tokenizer *tokenizer =
            open_tokenizer(test_golden("../data/vocab/%s.gguf", names[i]));
        if (tokenizer == NULL) {
            printf("%s: published ids skipped, the vocabulary is not there\n", names[i]);
            continue;
        }
        const size_t before = vectors_run;
        const size_t wrong_here = check_published(names[i], tokenizer);
        printf("%s: %zu published, %zu wrong\n", names[i], vectors_run - before, wrong_here);
        assert_true(vectors_run - before > 40);
        wrong += wrong_here;
        tern_tokenizer_free(tokenizer);
    }
    assert_int_equal(wrong, 0);
    if (vectors_run == 0)
        skip();
}

/* The text cases of one tiny model; models with a tokenizer that is not built are left out. */
static size_t check_model(const char *name)
{
    json_t *about = json_load_file(test_golden("models/%s.json", name), 0, NULL);
    const json_t *cases = json_object_get(about, "text_cases");
    struct test_catalog catalog;
    size_t wrong = 0;
    if (json_is_array(cases) && test_catalog_open(test_golden("models/%s.gguf", name), &catalog)) {
        struct tern_tokenizer *tokenizer = NULL;
        const enum tern_status status = tern_tokenizer_new(catalog.catalog, &tokenizer, &error);
        if (status != TERN_OK && status != TERN_UNSUPPORTED)
            fail_msg("%s: %s", name, error.message);
        for (size_t i = 0; tokenizer != NULL && i < json_array_size(cases); i++)
            wrong += check_vector(name, tokenizer, json_array_get(cases, i));
        tern_tokenizer_free(tokenizer);
        test_catalog_close(&catalog);
    }
    json_decref(about);
    return wrong;
}

static void text_cases_are_right(void **state)
{
    (void)state;
    DIR *folder = opendir(test_golden("models"));
    assert_non_null(folder);
    size_t wrong = 0;
    vectors_run = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *ending = strstr(entry->d_name, ".json");
        if (ending == NULL)
            continue;
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(ending - entry->d_name), entry->d_name);
        wrong += check_model(name);
    }
    closedir(folder);
    printf("tiny models: %zu text cases, %zu wrong\n", vectors_run, wrong);
    assert_int_equal(wrong, 0);
    assert_true(vectors_run > 0);
}

/* The prompts of the real models, whose files are looked for in the cache. */
static void prompts_of_real_models_are_right(void **state)
{
    (void)state;
    static const char *const names[] = {"smollm2", "gemma3-270m"};
    size_t wrong = 0;
    vectors_run = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct tern_tokenizer *tokenizer = open_vocabulary(names[i]);
        json_t *about = json_load_file(test_golden("real/%s.json", names[i]), 0, NULL);
        const json_t *cases = json_object_get(about, "cases");
        for (size_t k = 0; tokenizer != NULL && k < json_array_size(cases); k++) {
            json_t *prompt = json_array_get(cases, k);
            const char *name = json_string_value(json_object_get(prompt, "name"));
            json_object_set_new(prompt, "add_special", json_boolean(strcmp(name, "chat") != 0));
            json_object_set_new(prompt, "parse_special", json_true());
            wrong += check_vector(names[i], tokenizer, prompt);
        }
        tern_tokenizer_free(tokenizer);
        json_decref(about);
    }
    assert_int_equal(wrong, 0);
    if (vectors_run == 0)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_right),
        cmocka_unit_test(published_ids_are_right),
        cmocka_unit_test(text_cases_are_right),
        cmocka_unit_test(prompts_of_real_models_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
