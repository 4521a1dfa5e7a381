/* The loader as a process, with this test in the coordinator's place: golden models come into the
 * weights segment byte for byte, hostile and changing files are refused, the sandbox is closed. */
#include "proto/channel.h"
#include "proto/message.h"
#include "proto/numerics/value.h"
#include "proto/wait.h"
#include "tests/unit/model_bytes.h"

#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { TIMEOUT_MS = 20000, CATALOG_ID = 11, WEIGHTS_ID = 12 };

static struct tern_error error;

/* ---- one loader ---- */

struct loader {
    pid_t pid;
    int channel;
    struct tern_segment catalog_segment, weights;
    struct tern_catalog *catalog;
    uint64_t progress_done, progress_all; /* of the last PROGRESS */
    unsigned progress_count;
    enum tern_status refused; /* status of the ERROR, if one came */
    char text[600];
};

static pid_t spawn(int channel)
{
    const char *program = test_path("TERN_LOADER");
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, channel, TERN_CHANNEL_FD);
    char *arguments[] = {(char *)(uintptr_t)program, NULL};
    extern char **environ;
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void send_fd(struct loader *loader, enum tern_parcel_kind kind,
                    enum tern_segment_kind segment, uint64_t id, uint64_t size, int fd)
{
    const struct tern_parcel parcel = {
        .kind = kind, .segment = segment, .id = id, .size = size, .fd = fd};
    assert_int_equal(tern_channel_send(loader->channel, &parcel, NULL, &error), TERN_OK);
}

/* Makes a segment, sends the writable descriptor, maps it read-only here. */
static void send_segment(struct loader *loader, enum tern_segment_kind kind, uint64_t id,
                         uint64_t size, struct tern_segment *here)
{
    int fd;
    assert_int_equal(tern_segment_create(kind, id, size, &fd, &error), TERN_OK);
    send_fd(loader, TERN_PARCEL_SEGMENT_WRITE, kind, id, size, fd);
    const int reader = tern_segment_reader(fd);
    assert_int_equal(tern_segment_map(reader, kind, id, false, false, here, &error), TERN_OK);
    close(reader);
    close(fd);
}

static void start(struct loader *loader, const char *path)
{
    int ends[2];
    *loader = (struct loader){0};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    const off_t size = lseek(file, 0, SEEK_END);
    assert_int_equal(tern_channel_pair(ends, &error), TERN_OK);
    loader->channel = ends[0];
    loader->pid = spawn(ends[1]);
    close(ends[1]);
    send_segment(loader, TERN_SEGMENT_CATALOG, CATALOG_ID, tern_catalog_bound((uint64_t)size),
                 &loader->catalog_segment);
    send_fd(loader, TERN_PARCEL_MODEL_FILE, TERN_SEGMENT_NONE, 0, (uint64_t)size, file);
    close(file);
}

/* Waits for the next message that is no PROGRESS; TERN_MSG_KINDS when the channel was closed. */
static enum tern_message_kind next_message(struct loader *loader)
{
    static uint8_t buffer[TERN_CHANNEL_MAX];
    for (;;) {
        struct tern_parcel parcel;
        struct tern_message message;
        const enum tern_status status =
            tern_channel_receive(loader->channel, TIMEOUT_MS, &parcel, buffer, &error);
        if (status == TERN_NO_SERVICE)
            return TERN_MSG_KINDS;
        assert_int_equal(status, TERN_OK);
        assert_int_equal(tern_message_parse(buffer, parcel.bytes, &message, &error), TERN_OK);
        if (message.kind == TERN_MSG_PROGRESS) {
            const uint64_t done = tern_message_u64(&message, TERN_F_DONE_UNITS, 0);
            assert_true(done >= loader->progress_done);
            loader->progress_done = done;
            loader->progress_all = tern_message_u64(&message, TERN_F_ALL_UNITS, 0);
            loader->progress_count++;
            continue;
        }
        if (message.kind == TERN_MSG_ERROR) {
            size_t length;
            const char *text = tern_message_text(&message, TERN_F_TEXT, &length);
            snprintf(loader->text, sizeof loader->text, "%.*s", (int)length, text);
            loader->refused = (enum tern_status)tern_message_u64(&message, TERN_F_STATUS, 0);
        }
        return message.kind;
    }
}

/* Ends the loader; returns its wait status. */
static int finish(struct loader *loader)
{
    int status = 0;
    close(loader->channel);
    assert_int_equal(waitpid(loader->pid, &status, 0), loader->pid);
    tern_catalog_close(loader->catalog);
    tern_segment_unmap(&loader->catalog_segment);
    tern_segment_unmap(&loader->weights);
    return status;
}

static void assert_exit(int status, int code)
{
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void open_catalog(struct loader *loader)
{
    if (next_message(loader) != TERN_MSG_CATALOG)
        fail_msg("no catalog: %s", loader->text);
    assert_int_equal(tern_catalog_open(&loader->catalog_segment, &loader->catalog, &error),
                     TERN_OK);
}

/* Sends weights segment and FILL; *offsets (malloc'ed) is the layout. */
static void ask_fill(struct loader *loader, bool drop_cache, uint64_t **offsets)
{
    uint64_t total;
    struct tern_pack pack;
    *offsets = malloc((tern_catalog_tensors(loader->catalog) + 1) * sizeof **offsets);
    assert_int_equal(tern_catalog_layout(loader->catalog, *offsets, &total, &error), TERN_OK);
    send_segment(loader, TERN_SEGMENT_WEIGHTS, WEIGHTS_ID, total, &loader->weights);
    tern_pack_begin(&pack, TERN_MSG_FILL);
    tern_pack_bool(&pack, TERN_F_DROP_CACHE, drop_cache);
    struct tern_parcel parcel = {.kind = TERN_PARCEL_MESSAGE, .fd = -1};
    const void *message = tern_pack_end(&pack, &parcel.bytes);
    assert_int_equal(tern_channel_send(loader->channel, &parcel, message, &error), TERN_OK);
    tern_pack_free(&pack);
}

/* ---- golden models ---- */

/* What the loader is to make of a tensor's bytes: the value rule for F32 and BF16. */
static void apply_value_rule(uint32_t type, uint8_t *bytes, uint64_t size)
{
    for (uint64_t at = 0; type == TERN_F32 && at < size; at += 4) {
        float value;
        memcpy(&value, bytes + at, 4);
        value = tern_value(value);
        memcpy(bytes + at, &value, 4);
    }
    for (uint64_t at = 0; type == TERN_BF16 && at < size; at += 2) {
        uint16_t bits;
        memcpy(&bits, bytes + at, 2);
        if (tern_bits(tern_value(tern_bf16_to_float(bits))) == 0)
            memset(bytes + at, 0, 2);
    }
}

static void compare_tensors(const struct loader *loader, const struct model_bytes *model,
                            const uint64_t *offsets)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < tern_catalog_tensors(loader->catalog); i++) {
        struct tern_tensor tensor;
        tern_catalog_tensor(loader->catalog, i, &tensor);
        uint8_t *expected = model->bytes + tensor.file_offset;
        apply_value_rule(tensor.type, expected, tensor.bytes);
        assert_memory_equal(loader->weights.data + offsets[i], expected, tensor.bytes);
        sum += tensor.bytes;
    }
    assert_true(loader->progress_done == sum);
    assert_true(loader->progress_all == sum);
}

static void load_whole(const char *path, bool drop_cache)
{
    struct loader loader;
    uint64_t *offsets;
    const struct model_bytes model = read_model(path);
    start(&loader, path);
    open_catalog(&loader);
    ask_fill(&loader, drop_cache, &offsets);
    if (next_message(&loader) != TERN_MSG_FILLED)
        fail_msg("%s: %s", path, loader.text);
    assert_int_equal(next_message(&loader), TERN_MSG_KINDS); /* it ends by itself */
    compare_tensors(&loader, &model, offsets);
    assert_exit(finish(&loader), 0);
    free(offsets);
    free(model.bytes);
}

static void golden_models_arrive(void **state)
{
    (void)state;
    char pattern[4096];
    glob_t found;
    golden_pattern(pattern, sizeof pattern);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        load_whole(found.gl_pathv[i], i % 2 == 1);
    globfree(&found);
}

/* ---- hostile files ---- */

static unsigned refused_count;

static void refuse(const char *path, bool by_parser, int status, const char *text)
{
    struct loader loader;
    uint64_t *offsets = NULL;
    const uint64_t began = tern_now_ns();
    start(&loader, path);
    enum tern_message_kind kind = next_message(&loader);
    if (!by_parser) {
        assert_int_equal(kind, TERN_MSG_CATALOG);
        assert_int_equal(tern_catalog_open(&loader.catalog_segment, &loader.catalog, &error),
                         TERN_OK);
        ask_fill(&loader, false, &offsets);
        kind = next_message(&loader);
    }
    if (kind != TERN_MSG_ERROR || strstr(loader.text, text) == NULL)
        fail_msg("%s: message %d, \"%s\"; expected \"%s\"", path, (int)kind, loader.text, text);
    assert_int_equal(loader.refused, status);
    assert_exit(finish(&loader), status);
    assert_true(tern_now_ns() - began < UINT64_C(2000000000));
    free(offsets);
    refused_count++;
}

static void hostile_files_are_refused(void **state)
{
    (void)state;
    char line[1024], path[4096];
    const char *folder = test_path("TERN_BAD_FILES");
    snprintf(path, sizeof path, "%s/index", folder);
    FILE *index = fopen(path, "r");
    assert_non_null(index);
    while (fgets(line, sizeof line, index) != NULL) {
        const char *name = strtok(line, "\t\n"), *part = strtok(NULL, "\t\n");
        const int status = atoi(strtok(NULL, "\t\n"));
        const char *text = strtok(NULL, "\t\n");
        if (strcmp(part, "model") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        refuse(path, strcmp(part, "file") == 0, status, text != NULL ? text : "");
    }
    fclose(index);
    assert_true(refused_count > 80);
}

/* ---- files that change ---- */

static char folder[] = "/tmp/tern-test-loader-XXXXXX";

static void copy_base(char path[64])
{
    const struct model_bytes base = read_model(test_path("TERN_BASE_GGUF"));
    snprintf(path, 64, "%s/model.gguf", folder);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, base.bytes, base.size), base.size);
    assert_int_equal(fsync(fd), 0); /* so that its pages can leave the cache */
    close(fd);
    free(base.bytes);
}

static void cut(const char *path)
{
    assert_int_equal(truncate(path, 50000), 0);
}

static void overwrite(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "\1\2\3\4", 4, 60000), 4);
    close(fd);
}

static void replace(const char *path)
{
    char again[64];
    assert_int_equal(unlink(path), 0);
    copy_base(again);
    assert_string_equal(again, path);
}

static void change_and_fill(void (*change)(const char *path))
{
    struct loader loader;
    uint64_t *offsets;
    char path[64];
    copy_base(path);
    start(&loader, path);
    open_catalog(&loader);
    change(path);
    ask_fill(&loader, false, &offsets);
    assert_int_equal(next_message(&loader), TERN_MSG_ERROR);
    assert_int_equal(loader.refused, TERN_BAD_MODEL);
    assert_non_null(strstr(loader.text, "while it was read"));
    assert_exit(finish(&loader), TERN_BAD_MODEL);
    free(offsets);
    assert_int_equal(unlink(path), 0);
}

static void changed_files_are_refused(void **state)
{
    (void)state;
    change_and_fill(cut);
    change_and_fill(overwrite);
    change_and_fill(replace);
}

static bool is_cached(const char *path, size_t *pages_in)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const size_t size = (size_t)lseek(fd, 0, SEEK_END), pages = (size + 4095) / 4096;
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *in = malloc(pages);
    assert_int_equal(mincore(map, size, in), 0);
    *pages_in = 0;
    for (size_t i = 0; i < pages; i++)
        *pages_in += in[i] & 1;
    free(in);
    munmap(map, size);
    close(fd);
    return *pages_in > 0;
}

static void the_cache_is_left_empty(void **state)
{
    (void)state;
    enum { TMPFS = 0x01021994 };
    struct statfs system;
    size_t pages;
    char path[64];
    copy_base(path);
    assert_int_equal(statfs(path, &system), 0);
    assert_true(is_cached(path, &pages));
    load_whole(path, true);
    if (system.f_type != TMPFS) /* there the cache is the file */
        assert_false(is_cached(path, &pages));
    load_whole(path, false);
    assert_true(is_cached(path, &pages));
    assert_int_equal(unlink(path), 0);
}

/* ---- the process ---- */

static void a_loader_nobody_needs_ends(void **state)
{
    (void)state;
    struct loader loader;
    start(&loader, test_path("TERN_BASE_GGUF"));
    open_catalog(&loader);
    assert_exit(finish(&loader), 0);
}

/* Counts the threads of a process and those of them that run under a seccomp filter. */
static void count_filtered(pid_t pid, unsigned *threads, unsigned *filtered)
{
    char path[64], line[256];
    glob_t tasks;
    snprintf(path, sizeof path, "/proc/%d/task/*/status", (int)pid);
    assert_int_equal(glob(path, 0, NULL, &tasks), 0);
    *threads = (unsigned)tasks.gl_pathc;
    *filtered = 0;
    for (size_t i = 0; i < tasks.gl_pathc; i++) {
        FILE *status = fopen(tasks.gl_pathv[i], "r");
        assert_non_null(status);
        while (fgets(line, sizeof line, status) != NULL)
            *filtered += strcmp(line, "Seccomp:\t2\n") == 0;
        fclose(status);
    }
    globfree(&tasks);
}

static void it_is_in_its_sandbox(void **state)
{
    (void)state;
    struct loader loader;
    unsigned threads, filtered;
    start(&loader, test_path("TERN_BASE_GGUF"));
    open_catalog(&loader);
    count_filtered(loader.pid, &threads, &filtered);
    assert_true(threads >= 2);
    assert_int_equal(filtered, threads);
    assert_exit(finish(&loader), 0);
}

static void a_parcel_out_of_turn_ends_it(void **state)
{
    (void)state;
    struct loader loader;
    start(&loader, test_path("TERN_BASE_GGUF"));
    open_catalog(&loader);
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    send_fd(&loader, TERN_PARCEL_EVENT, TERN_SEGMENT_NONE, 0, 0, fd);
    close(fd);
    assert_int_equal(next_message(&loader), TERN_MSG_ERROR);
    assert_exit(finish(&loader), TERN_FAILED);
}

static void no_tensors_are_no_trouble(void **state)
{
    (void)state;
    char path[64];
    const uint8_t file[24] = "GGUF\3";
    copy_base(path);
    const int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, file, sizeof file), sizeof file);
    close(fd);
    load_whole(path, false);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_models_arrive),         cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(changed_files_are_refused),    cmocka_unit_test(the_cache_is_left_empty),
        cmocka_unit_test(a_loader_nobody_needs_ends),   cmocka_unit_test(it_is_in_its_sandbox),
        cmocka_unit_test(a_parcel_out_of_turn_ends_it), cmocka_unit_test(no_tensors_are_no_trouble),
    };
    if (mkdtemp(folder) == NULL)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
