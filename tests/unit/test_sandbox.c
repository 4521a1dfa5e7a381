/* workers/loader/sandbox: a child inside may do what the loader does, and dies of anything else. */
#include "tests/unit/model_bytes.h"
#include "workers/loader/sandbox.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

/* Sanitizers need calls that the sandbox otherwise refuses; there only the filter's core is tested.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static int channel[2], file;

/* What `action` in the sandbox ends with: a wait status. The action's return value is the exit
 * code. */
static int inside(int (*action)(void))
{
    const pid_t child = fork();
    if (child == 0) {
        struct tern_error error;
        if (tern_sandbox_enter(channel[0], 1 << 20, &error) != TERN_OK)
            _exit(99);
        syscall(SYS_exit_group, action());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void assert_killed(int (*action)(void))
{
    const int status = inside(action);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}

static int do_the_loaders_work(void)
{
    char byte;
    char *block = malloc(8 << 20);
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (block == NULL || pread(file, block, 100, 0) <= 0)
        return 1;
    memset(block, 1, 8 << 20);
    block = realloc(block, 16 << 20);
    if (block == NULL || sendmsg(channel[0], &message, MSG_NOSIGNAL) != 1)
        return 2;
    free(block);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    return 0;
}

static void the_loaders_work_is_allowed(void **state)
{
    (void)state;
    const int status = inside(do_the_loaders_work);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int make_socket(void)
{
    return (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
}
static int connect_somewhere(void)
{
    return (int)syscall(SYS_connect, channel[0], NULL, 0);
}
static int run_a_program(void)
{
    return (int)syscall(SYS_execve, "/bin/true", NULL, NULL);
}
static int send_elsewhere(void)
{
    struct msghdr message = {0};
    return (int)sendmsg(channel[1], &message, MSG_NOSIGNAL);
}
static int receive_elsewhere(void)
{
    struct msghdr message = {0};
    return (int)recvmsg(channel[1], &message, MSG_DONTWAIT);
}
static int remove_a_file(void)
{
    return (int)syscall(SYS_unlinkat, -100, "/nonexistent", 0);
}
static int truncate_the_file(void)
{
    return (int)syscall(SYS_ftruncate, file, 0);
}
static int io_control(void)
{
    return (int)syscall(SYS_ioctl, file, 0x5401, NULL);
}

static void system_calls_kill(void **state)
{
    (void)state;
    assert_killed(make_socket);
    assert_killed(connect_somewhere);
    assert_killed(run_a_program);
    assert_killed(send_elsewhere);
    assert_killed(receive_elsewhere);
    assert_killed(remove_a_file);
    assert_killed(truncate_the_file);
    assert_killed(io_control);
}

#if !SANITIZED
static int open_a_file(void)
{
    return (int)syscall(SYS_openat, -100, "/etc/passwd", O_RDONLY);
}
static int make_a_process(void)
{
    return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}
static int signal_a_process(void)
{
    return (int)syscall(SYS_kill, 1, 0);
}
static int trace_a_process(void)
{
    return (int)syscall(SYS_ptrace, 16, 1, 0, 0);
}
static int read_a_descriptor(void)
{
    char byte;
    return (int)syscall(SYS_read, 0, &byte, 1);
}
static int write_to_a_descriptor(void)
{
    return (int)syscall(SYS_write, 2, "x", 1);
}
static int map_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != NULL;
}
static int map_a_file(void)
{
    return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0) != NULL;
}
static void *page;
static int make_a_page_code(void)
{
    return mprotect(page, 4096, PROT_READ | PROT_EXEC);
}
static int take_much_memory(void)
{
    /* Bounded by the file's size, here 1 MiB, and not by what a header may claim. */
    void *volatile block = malloc(UINT64_C(2) << 30); /* volatile: not to be optimized away */
    return block == NULL ? 7 : 0;
}

static void the_rest_kills_too(void **state)
{
    (void)state;
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_killed(open_a_file);
    assert_killed(make_a_process);
    assert_killed(signal_a_process);
    assert_killed(trace_a_process);
    assert_killed(read_a_descriptor);
    assert_killed(write_to_a_descriptor);
    assert_killed(map_code);
    assert_killed(map_a_file);
    assert_killed(make_a_page_code);
    munmap(page, 4096);
    const int status = inside(take_much_memory);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}
#endif

/* A thread that was there before must be in the sandbox as well. */
static pthread_barrier_t entered;
static void *socket_thread(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&entered);
    make_socket();
    syscall(SYS_exit_group, 1);
    return NULL;
}
static void wait_for_the_thread(void)
{
    pthread_barrier_wait(&entered);
    for (;;)
        sched_yield();
}

static void older_threads_are_inside(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        struct tern_error error;
        pthread_barrier_init(&entered, NULL, 2);
        if (pthread_create(&thread, NULL, socket_thread, NULL) != 0 ||
            tern_sandbox_enter(channel[0], 1 << 20, &error) != TERN_OK)
            _exit(99);
        wait_for_the_thread();
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loaders_work_is_allowed),
        cmocka_unit_test(system_calls_kill),
#if !SANITIZED
        cmocka_unit_test(the_rest_kills_too),
#endif
        cmocka_unit_test(older_threads_are_inside),
    };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel) != 0)
        return 1;
    file = open(test_path("TERN_BASE_GGUF"), O_RDONLY | O_CLOEXEC);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close(file);
    close(channel[0]);
    close(channel[1]);
    return failed;
}
