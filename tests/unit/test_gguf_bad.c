/* Every hostile file of tests/integration/bad_files.py that the parser must refuse: with the status
 * and the words that are written beside it there; the others it must let pass. */
#include "tests/unit/model_bytes.h"
#include "workers/loader/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct tern_error error;
static struct tern_segment segment;

static enum tern_status parse(const char *path)
{
    const struct model_bytes model = read_model(path);
    struct tern_source source;
    struct tern_catalog *catalog = NULL;
    tern_source_memory(&source, model.bytes, model.size);
    enum tern_status status = tern_gguf_parse(&source, &segment, &error);
    if (status == TERN_OK)
        status = tern_catalog_open(&segment, &catalog, &error);
    tern_catalog_close(catalog);
    free(model.bytes);
    return status;
}

static unsigned failures, refused, passed;

static void check(const char *folder, char *line)
{
    char path[4096];
    const char *name = strtok(line, "\t\n"), *part = strtok(NULL, "\t\n");
    const char *status = strtok(NULL, "\t\n"), *text = strtok(NULL, "\t\n");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    error.message[0] = '\0';
    const enum tern_status got = parse(path);
    const bool by_parser = strcmp(part, "file") == 0;
    const bool right = by_parser ? got == (enum tern_status)atoi(status) &&
                                       strstr(error.message, text != NULL ? text : "") != NULL
                                 : got == TERN_OK;
    refused += by_parser;
    passed += !by_parser;
    failures += !right;
    if (!right)
        print_error("%s: status %d, \"%s\"; expected %s, \"%s\"\n", name, (int)got, error.message,
                    by_parser ? status : "0", text != NULL ? text : "");
}

static void each_is_refused_as_written(void **state)
{
    (void)state;
    char line[1024], path[4096];
    const char *folder = test_path("TERN_BAD_FILES");
    snprintf(path, sizeof path, "%s/index", folder);
    FILE *index = fopen(path, "r");
    assert_non_null(index);
    while (fgets(line, sizeof line, index) != NULL)
        check(folder, line);
    fclose(index);
    assert_int_equal(failures, 0);
    assert_true(refused > 80);
    assert_true(passed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_refused_as_written)};
    segment = private_segment(8 << 20);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    munmap(segment.data, segment.size);
    return failed;
}
