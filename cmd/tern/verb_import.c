/* tern import: brings a model file into the cache, once it is known to be one that runs. */
#include "cmd/tern/cache.h"
#include "cmd/tern/copy_file.h"
#include "cmd/tern/models.h"
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct import {
    const char *file; /* as the person wrote it */
    char path[4096];  /* absolute */
    char name[CACHE_NAME + 1], target[CACHE_NAME + 8];
    bool force;
    int source, folder;
    struct stat info; /* of the source */
};

/* What is no regular file is refused before anybody waits for it. */
static enum tern_status open_source(struct import *import, struct tern_error *error)
{
    import->source = open(import->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (import->source < 0 || fstat(import->source, &import->info) != 0)
        return tern_fail(error, TERN_BAD_MODEL, "cannot open %s: %s", import->file,
                         strerror(errno));
    if (!S_ISREG(import->info.st_mode))
        return tern_fail(error, TERN_BAD_MODEL, "%s is no regular file", import->file);
    return TERN_OK;
}

/* The name that was asked for, or the file's, without .gguf. */
static enum tern_status choose_name(struct import *import, const char *asked,
                                    struct tern_error *error)
{
    const char *slash = strrchr(import->file, '/');
    const char *from = asked != NULL ? asked : slash != NULL ? slash + 1 : import->file;
    const size_t length = strlen(from);
    const bool ended = length > 5 && strcmp(from + length - 5, ".gguf") == 0;
    char name[4096];
    snprintf(name, sizeof name, "%.*s", (int)(length - (ended ? 5 : 0)), from);
    const enum tern_status status = cache_check_name(name, error);
    if (status != TERN_OK)
        return status;
    strcpy(import->name, name);
    snprintf(import->target, sizeof import->target, "%.*s.gguf", CACHE_NAME, name);
    return TERN_OK;
}

/* The loader reads it, and nothing in it stands against running it. */
static enum tern_status check_model(const struct import *import, struct tern_error *error)
{
    struct client client;
    struct result result = {0};
    enum tern_status status = client_open(&client, true, error);
    if (status != TERN_OK)
        return status;
    status = ask_info(&client, import->path, false, &result, error);
    client_close(&client);
    const char *reason =
        json_string_value(json_array_get(json_object_get(result.json, "unsupported"), 0));
    if (status == TERN_OK && reason != NULL)
        status = tern_fail(error, TERN_UNSUPPORTED, "%s is not imported: %s", import->file, reason);
    free(result.text);
    json_decref(result.json);
    return status;
}

static enum tern_status check_unchanged(const struct import *import, struct tern_error *error)
{
    struct stat now;
    if (stat(import->path, &now) == 0 && now.st_ino == import->info.st_ino &&
        now.st_dev == import->info.st_dev && now.st_size == import->info.st_size &&
        now.st_mtim.tv_sec == import->info.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == import->info.st_mtim.tv_nsec)
        return TERN_OK;
    return tern_fail(error, TERN_BAD_MODEL, "%s changed while it was imported; try again",
                     import->file);
}

/* *there: the cache holds this very model under the name. Another file there is an error without
 * --force. */
static enum tern_status look_at_target(const struct import *import, bool *there,
                                       struct tern_error *error)
{
    struct stat info;
    *there = false;
    if (fstatat(import->folder, import->target, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? TERN_OK
                               : tern_fail(error, TERN_FAILED, "cannot look for %s: %s",
                                           import->target, strerror(errno));
    if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
        return tern_fail(error, TERN_FAILED, "%s in the cache is no file; choose another --name",
                         import->target);
    const int old = openat(import->folder, import->target, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    enum tern_status status = TERN_OK;
    if (old >= 0 && fstat(old, &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_size == import->info.st_size)
        status = info.st_ino == import->info.st_ino && info.st_dev == import->info.st_dev
                     ? (*there = true, TERN_OK)
                     : same_content(import->source, old, there, error);
    if (old >= 0)
        close(old);
    if (status == TERN_OK && !*there && !import->force)
        return tern_fail(error, TERN_FAILED,
                         "another model is named '%s' in the cache; --force replaces it, --name "
                         "gives this one another name",
                         import->name);
    return status;
}

/* What imports that were killed have left behind. */
static void sweep(int folder)
{
    const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        int pid, end = 0;
        if (sscanf(entry->d_name, ".import-%d.part%n", &pid, &end) == 1 && pid > 0 && end > 0 &&
            entry->d_name[end] == '\0' && kill(pid, 0) != 0 && errno == ESRCH)
            unlinkat(folder, entry->d_name, 0);
    }
    if (entries != NULL)
        closedir(entries);
    else if (copy >= 0)
        close(copy);
}

/* Under a hidden name first, so that nobody ever sees half a file. */
static enum tern_status put(const struct import *import, bool *linked, struct tern_error *error)
{
    char part[64];
    snprintf(part, sizeof part, ".import-%d.part", (int)getpid());
    sweep(import->folder);
    unlinkat(import->folder, part, 0); /* of a process that had our number */
    enum tern_status status = bring_file(import->source, import->folder, part, linked, error);
    if (status != TERN_OK)
        return status;
    status = check_unchanged(import, error);
    const unsigned flags = import->force ? 0 : RENAME_NOREPLACE;
    if (status == TERN_OK &&
        renameat2(import->folder, part, import->folder, import->target, flags) != 0)
        status = tern_fail(error, TERN_FAILED, "cannot name the file %s: %s", import->target,
                           strerror(errno));
    if (status != TERN_OK)
        unlinkat(import->folder, part, 0);
    return status;
}

static enum tern_status run(struct import *import, const char *asked, struct tern_error *error)
{
    bool there = false, linked = false;
    enum tern_status status = open_source(import, error);
    if (status == TERN_OK)
        status = choose_name(import, asked, error);
    if (status == TERN_OK)
        status = cache_open(true, &import->folder, error);
    if (status == TERN_OK)
        status = look_at_target(import, &there, error);
    if (status != TERN_OK || there) {
        if (there)
            printf("the cache holds this model already; its name is %s\n", import->name);
        return status;
    }
    status = check_model(import, error);
    if (status == TERN_OK)
        status = put(import, &linked, error);
    if (status == TERN_OK)
        printf("imported as %s (%s)\n", import->name,
               linked ? "a second name for the same file" : "a copy");
    return status;
}

/* MODEL arguments may be names of the cache; this one is always a path. */
static enum tern_status make_absolute(struct import *import, struct tern_error *error)
{
    char with_slash[4096];
    const int length = snprintf(with_slash, sizeof with_slash, "%s%s",
                                strchr(import->file, '/') == NULL ? "./" : "", import->file);
    if (import->file[0] == '\0' || (size_t)length >= sizeof with_slash)
        return tern_fail(error, import->file[0] == '\0' ? TERN_USAGE : TERN_BAD_MODEL, "FILE is %s",
                         import->file[0] == '\0' ? "empty" : "too long a path");
    return model_path(with_slash, import->path, sizeof import->path, error);
}

int verb_import(const struct verb *verb, int argc, char **argv)
{
    struct import import = {.source = -1, .folder = -1};
    const char *name = NULL;
    const struct option options[] = {
        {"name", OPTION_TEXT, &name, "NAME", "what to call it (the file's name)", 0, 0, NULL},
        {"force", OPTION_FLAG, &import.force, NULL, "replace another model of that name", 0, 0,
         NULL},
        {0},
    };
    struct tern_error error = {0};
    int code;
    if (!options_begin(verb, options, &argc, argv, 1, 1, &code))
        return code;
    import.file = argv[0];
    enum tern_status status = make_absolute(&import, &error);
    if (status == TERN_OK) {
        client_catch_signals();
        status = run(&import, name, &error);
    }
    if (import.source >= 0)
        close(import.source);
    if (import.folder >= 0)
        close(import.folder);
    return status == TERN_OK ? 0 : complain(&error);
}
