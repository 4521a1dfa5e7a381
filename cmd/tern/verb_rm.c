/* tern rm: removes models from the cache, by name, and nothing outside it. */
#include "cmd/tern/cache.h"
#include "cmd/tern/fields.h"
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the running service has loaded; NULL: none runs. */
static enum tern_status ask_loaded(json_t **ps, struct tern_error *error)
{
    struct client client;
    struct tern_pack pack;
    struct result result = {0};
    *ps = NULL;
    enum tern_status status = client_open(&client, false, error);
    if (status == TERN_NO_SERVICE)
        return tern_runtime_holder(&client.runtime) == 0 ? TERN_OK : status;
    if (status != TERN_OK)
        return status;
    client_begin(&client, &pack, TERN_MSG_PS);
    status = client_call(&client, &pack, take_result, &result, error);
    client_close(&client);
    free(result.text);
    *ps = result.json;
    return status;
}

static bool is_loaded(const json_t *ps, const struct stat *file)
{
    size_t i;
    json_t *model;
    json_array_foreach(json_object_get(ps, "models"), i, model)
    {
        struct stat there;
        if (stat(text_of(model, "model"), &there) == 0 && there.st_ino == file->st_ino &&
            there.st_dev == file->st_dev)
            return true;
    }
    return false;
}

/* A link is removed itself, never what it points to. */
static enum tern_status remove_model(int folder, const json_t *ps, const char *name,
                                     struct tern_error *error)
{
    char file[CACHE_NAME + 8], near[600];
    struct stat info, target;
    const size_t length = strlen(name);
    if (strchr(name, '/') != NULL)
        return tern_fail(error, TERN_USAGE,
                         "'%s' is a path; tern rm takes names of the cache (tern ls), rm takes "
                         "paths",
                         name);
    const enum tern_status status = cache_check_name(name, error);
    if (status != TERN_OK)
        return status;
    const bool ended = length > 5 && strcmp(name + length - 5, ".gguf") == 0;
    snprintf(file, sizeof file, "%s%s", name, ended ? "" : ".gguf");
    if (fstatat(folder, file, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        cache_suggest(name, near, sizeof near);
        return tern_fail(error, TERN_BAD_MODEL, "no model in the cache is named '%s'%s", name,
                         near);
    }
    if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
        return tern_fail(error, TERN_BAD_MODEL, "%s in the cache is no file", file);
    if (fstatat(folder, file, &target, 0) == 0 && is_loaded(ps, &target))
        return tern_fail(error, TERN_FAILED, "'%s' is loaded; tern unload %s first", name, name);
    if (unlinkat(folder, file, 0) != 0)
        return tern_fail(error, TERN_FAILED, "cannot remove %s: %s", file, strerror(errno));
    printf("removed %s\n", name);
    return TERN_OK;
}

int verb_rm(const struct verb *verb, int argc, char **argv)
{
    const struct option options[] = {{0}};
    struct tern_error error = {0};
    json_t *ps = NULL;
    int folder = -1, code;
    if (!options_begin(verb, options, &argc, argv, 1, INT_MAX, &code))
        return code;
    enum tern_status status = cache_open(true, &folder, &error);
    if (status == TERN_OK)
        status = ask_loaded(&ps, &error);
    if (status != TERN_OK)
        code = complain(&error);
    for (int i = 0; status == TERN_OK && i < argc; i++)
        if (remove_model(folder, ps, argv[i], &error) != TERN_OK) {
            const int failed = complain(&error);
            code = code == 0 ? failed : code;
        }
    json_decref(ps);
    if (folder >= 0)
        close(folder);
    return code;
}
