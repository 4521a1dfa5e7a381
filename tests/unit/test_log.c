/* The log: format, levels, escaping, prefixes; the file's rotation, sharing and full disk. */
#include "coordinator/log_file.h"

#include <fcntl.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char line[4096];

static void keep(const char *bytes, size_t length)
{
    assert_true(length < sizeof line);
    memcpy(line, bytes, length);
    line[length] = '\0';
}

static bool matches(const char *pattern, const char *text)
{
    regex_t compiled;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    const bool found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

static void test_format(void **state)
{
    (void)state;
    tern_log_to(keep, true);
    tern_log("warning", "%d bytes", 7);
    assert_true(matches("^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                        "warning test: 7 bytes\n$",
                        line));
}

static void test_escaping(void **state)
{
    (void)state;
    char longest[5000];
    tern_log_to(keep, true);
    tern_log("error", "%s", "a\nb\x1b[31m\x7f\xc2\x9b \xc3\xa9 \xff\xc3");
    assert_non_null(strstr(line, "a\\x0ab\\x1b[31m\\x7f\\xc2\\x9b \xc3\xa9 \\xff\n"));
    memset(longest, '\n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    tern_log_as("test", TERN_LOG_ERROR, longest);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void test_levels(void **state)
{
    (void)state;
    static const char *const names[] = {"error", "warning", "info", "debug"};
    tern_log_to(keep, true);
    for (int wanted = 0; wanted < 4; wanted++) {
        setenv(TERN_LOG_LEVEL, names[wanted], 1);
        tern_log_name("test");
        for (int level = 0; level < 4; level++) {
            line[0] = '\0';
            tern_log(names[level], "x");
            assert_int_equal(line[0] != '\0', level <= wanted);
        }
    }
    setenv(TERN_LOG_LEVEL, "loud", 1);
    tern_log_name("test");
    line[0] = '\0';
    tern_log("debug", "x");
    assert_int_equal(line[0], '\0');
    unsetenv(TERN_LOG_LEVEL);
    tern_log_name("test");
}

static void test_prefixes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *rest;
        enum tern_log_level level;
    } cases[] = {
        {"<0>a", "a", TERN_LOG_ERROR},   {"<3>a", "a", TERN_LOG_ERROR},
        {"<4>a", "a", TERN_LOG_WARNING}, {"<6>", "", TERN_LOG_INFO},
        {"<7>a", "a", TERN_LOG_DEBUG},   {"<8>a", "<8>a", TERN_LOG_WARNING},
        {"<", "<", TERN_LOG_WARNING},    {"", "", TERN_LOG_WARNING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].text;
        assert_int_equal(tern_log_prefix(&text, TERN_LOG_WARNING), cases[i].level);
        assert_string_equal(text, cases[i].rest);
    }
}

/* Standard error is replaced by the log file in these; the real one comes back afterwards. */
static int real_stderr;
static char folder[64], path[80], old[84];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tern-log-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(old, sizeof old, "%s.1", path);
    real_stderr = dup(STDERR_FILENO);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    unlink(path);
    unlink(old);
    rmdir(folder);
    return 0;
}

/* Marks the numbers of lines "line N" in a file; returns its bytes. */
static long mark_lines(const char *name, bool *seen, int count)
{
    char text[256];
    FILE *file = fopen(name, "r");
    long bytes = 0;
    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        const char *number = strstr(text, ": line ");
        assert_non_null(number);
        assert_int_equal(text[strlen(text) - 1], '\n');
        const int n = atoi(number + 7);
        assert_in_range(n, 0, count - 1);
        assert_false(seen[n]);
        seen[n] = true;
        bytes += (long)strlen(text);
    }
    if (file != NULL)
        fclose(file);
    return bytes;
}

static void test_rotation(void **state)
{
    (void)state;
    enum { MOST = 4096, LINES = 150 };
    struct tern_error error;
    bool seen[LINES] = {false};
    assert_int_equal(tern_log_file(path, MOST, &error), TERN_OK);
    for (int i = 0; i < LINES; i++)
        tern_log("info", "line %d", i);
    const long now = mark_lines(path, seen, LINES), before = mark_lines(old, seen, LINES);
    assert_in_range(now, 1, MOST);
    assert_in_range(before, MOST - 100, MOST);
    for (int i = 1; i < LINES; i++) /* an unbroken run up to the newest */
        assert_true(seen[i] || !seen[i - 1]);
    assert_true(seen[LINES - 1]);
    assert_true(seen[LINES - MOST / 50]);
}

/* Another service shares the file and rotates it; a person deletes it. */
static void test_shared_file(void **state)
{
    (void)state;
    struct tern_error error;
    bool seen[3] = {false};
    assert_int_equal(tern_log_file(path, 1 << 20, &error), TERN_OK);
    tern_log("info", "line 0");
    assert_int_equal(rename(path, old), 0);
    tern_log("info", "line 1");
    assert_true(mark_lines(old, seen, 3) > 0);
    assert_true(seen[0] && !seen[1]);
    assert_true(mark_lines(path, seen, 3) > 0);
    assert_true(seen[1]);
    assert_int_equal(unlink(path), 0);
    tern_log("info", "line 2");
    assert_true(mark_lines(path, seen, 3) > 0);
    assert_true(seen[2]);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

/* FILE.1 cannot be: the file is bounded all the same, and says what was done. */
static void test_no_room_for_the_old(void **state)
{
    (void)state;
    char text[8192] = "";
    struct tern_error error;
    assert_int_equal(mkdir(old, 0700), 0);
    assert_int_equal(tern_log_file(path, 4096, &error), TERN_OK);
    for (int i = 0; i < 150; i++)
        tern_log("info", "line %d", i);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_in_range(fread(text, 1, sizeof text - 1, file), 1, 4096);
    fclose(file);
    assert_int_equal(rmdir(old), 0);
    assert_non_null(strstr(text, "the log was emptied"));
    assert_null(strstr(text, "disk full"));
    assert_non_null(strstr(text, "line 149\n"));
}

/* /dev/full refuses every write as a full disk does. */
static void test_full_disk(void **state)
{
    (void)state;
    char text[4096] = "";
    struct tern_error error;
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(tern_log_file(path, 1 << 20, &error), TERN_OK);
    for (int i = 0; i < 5; i++)
        tern_log("error", "gone %d", i);
    assert_int_equal(unlink(path), 0);
    tern_log("error", "there is room again");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_null(strstr(text, "gone"));
    assert_non_null(strstr(text, "there is room again\n"));
    assert_non_null(strstr(text, "5 lines before this one"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_escaping),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test_setup_teardown(test_rotation, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_shared_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_room_for_the_old, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_full_disk, make_folder, remove_folder),
    };
    tern_log_name("test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
