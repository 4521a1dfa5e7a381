/* tern doctor: what this machine offers, in words, without a service. */
#include "cmd/tern/models.h"
#include "cmd/tern/verbs.h"
#include "proto/runtime.h"
#include "proto/tier.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void line(const char *name, const char *text)
{
    printf("%-14s %s\n", name, text);
}

static void show_processor(void)
{
    char text[128];
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    snprintf(text, sizeof text, "%d that this process may use, %ld online", CPU_COUNT(&allowed),
             sysconf(_SC_NPROCESSORS_ONLN));
    line("processors", text);
    size_t used = 0;
    for (unsigned i = 0; i <= (unsigned)tern_best_tier(); i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ", " : "",
                                 tern_tier_name((enum tern_tier)i));
    line("tiers", text);
}

static void show_memory(void)
{
    char key[64], text[160];
    unsigned long long kib, total = 0, available = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fscanf(file, "%63[^:]: %llu%*[^\n]\n", key, &kib) == 2) {
        if (strcmp(key, "MemTotal") == 0)
            total = kib;
        if (strcmp(key, "MemAvailable") == 0)
            available = kib;
    }
    if (file != NULL)
        fclose(file);
    snprintf(text, sizeof text, "%llu MiB, %llu MiB available", total / 1024, available / 1024);
    line("memory", text);
}

static void show_huge_pages(void)
{
    char text[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    if (file == NULL || fgets(text, sizeof text, file) == NULL)
        line("huge pages", "unknown (no /sys)");
    else if (strstr(text, "[never]") != NULL)
        line("huge pages", "off for shared memory; fewer page-table misses with: echo advise > "
                           "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    else
        line("huge pages", "on for shared memory");
    if (file != NULL)
        fclose(file);
}

static void show_limits(void)
{
    char text[128];
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        snprintf(text, sizeof text, "%llu open files (at most %llu)",
                 (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
        line("limits", text);
    }
}

static void show_service(void)
{
    char text[256], cache[4096];
    struct tern_runtime runtime;
    struct tern_error error = {0};
    if (tern_runtime_open(&runtime, &error) != TERN_OK) {
        line("service", error.message);
    } else {
        const int pid = tern_runtime_holder(&runtime);
        if (pid > 0)
            snprintf(text, sizeof text, "runs as process %d in %s", pid, runtime.folder);
        else
            snprintf(text, sizeof text, "does not run; its folder is %s", runtime.folder);
        line("service", text);
    }
    if (models_folder(cache, sizeof cache, &error) == TERN_OK)
        line("models", cache);
}

int verb_doctor(const struct verb *verb, int argc, char **argv)
{
    const struct option options[] = {{0}};
    struct tern_error error = {0};
    int positionals;
    enum tern_status status = options_parse(verb, options, argc, argv, &positionals, &error);
    if (status == TERN_INTERRUPTED)
        return 0;
    if (status == TERN_OK && positionals > 0)
        status = tern_fail(&error, TERN_USAGE, "doctor takes no arguments");
    if (status != TERN_OK)
        return complain(&error);
    show_processor();
    show_memory();
    show_huge_pages();
    show_limits();
    show_service();
    return 0;
}
