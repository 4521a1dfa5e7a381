/* Folders: may they be used, and is there room in them? */
#include "cmd/tern/doctor/checks.h"
#include "cmd/tern/models.h"
#include "proto/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const uint64_t MIB = 1 << 20;
static const uint64_t LITTLE_CACHE = (uint64_t)1 << 30;  /* bytes: less than most models */
static const uint64_t LITTLE_STATE = (uint64_t)16 << 20; /* bytes: two logs and some */

/* Path and free bytes of the folder; false with errno if it cannot be written to. */
static bool look(struct finding *finding, const char *folder, uint64_t *free_bytes)
{
    struct statvfs disk;
    *free_bytes = UINT64_MAX;
    finding_text(finding, "path", folder);
    const bool writable = access(folder, R_OK | W_OK | X_OK) == 0;
    const int reason = errno;
    finding_flag(finding, "writable", writable);
    if (statvfs(folder, &disk) == 0) {
        *free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
        finding_number(finding, "free_bytes", *free_bytes);
        finding_say(finding, "%s, %" PRIu64 " MiB free", folder, *free_bytes / MIB);
    } else {
        finding_unknown(finding, "free_bytes");
        finding_say(finding, "%s", folder);
    }
    errno = reason;
    return writable;
}

/* Cuts a path back to the deepest folder of it that exists. */
static void cut_to_existing(char *path)
{
    char *slash;
    while (access(path, F_OK) != 0 && (slash = strrchr(path, '/')) != NULL && slash != path)
        *slash = '\0';
    if (access(path, F_OK) != 0)
        strcpy(path, "/");
}

void check_cache(struct finding *finding)
{
    char folder[PATH_MAX];
    struct tern_error error;
    uint64_t free_bytes;
    if (models_folder(folder, sizeof folder, &error) != TERN_OK) {
        finding_say(finding, "%s", error.message);
        finding_raise(finding, FINDING_NOTE, "set HOME; until then models are known by path only");
        return;
    }
    const bool made = access(folder, F_OK) == 0;
    finding_flag(finding, "exists", made);
    if (!made) {
        finding_say(finding, "%s is made by tern import", folder);
        cut_to_existing(folder);
    }
    if (!look(finding, folder, &free_bytes)) {
        finding_say(finding, "cannot be written to: %s", strerror(errno));
        finding_raise(finding, FINDING_NOTE,
                      "tern import cannot work: change the folder's owner or mode, or set "
                      "XDG_CACHE_HOME; models can be run by path");
    } else if (free_bytes < LITTLE_CACHE) {
        finding_raise(finding, FINDING_NOTE,
                      "few models fit: free disk space, or set XDG_CACHE_HOME to a larger disk");
    }
}

void check_runtime(struct finding *finding)
{
    struct tern_runtime runtime;
    struct tern_error error;
    uint64_t free_bytes;
    if (tern_runtime_open(&runtime, &error) != TERN_OK) {
        finding_say(finding, "%s", error.message);
        finding_raise(finding, FINDING_PROBLEM,
                      "no service can run: set XDG_RUNTIME_DIR to a folder that is yours alone");
    } else if (!look(finding, runtime.folder, &free_bytes)) {
        finding_say(finding, "cannot be written to: %s", strerror(errno));
        finding_raise(finding, FINDING_PROBLEM, "no service can run: chmod 0700 %s",
                      runtime.folder);
    } else if (free_bytes == 0) {
        finding_raise(finding, FINDING_PROBLEM, "no service can run: free space there");
    }
}

void check_state(struct finding *finding)
{
    char log[PATH_MAX];
    struct tern_error error;
    uint64_t free_bytes;
    if (state_file("ternd.log", log, sizeof log, &error) != TERN_OK) {
        finding_say(finding, "%s", error.message);
        finding_raise(finding, FINDING_PROBLEM,
                      "logs and the chat's history cannot be kept: set XDG_STATE_HOME to a folder "
                      "that can be written to");
        return;
    }
    const bool log_refused = access(log, F_OK) == 0 && access(log, R_OK | W_OK) != 0;
    char folder[PATH_MAX];
    strcpy(folder, log);
    *strrchr(folder, '/') = '\0';
    if (!look(finding, folder, &free_bytes) || log_refused) {
        finding_say(finding, "%s cannot be written to: %s", log_refused ? log : "it",
                    strerror(errno));
        finding_raise(finding, FINDING_PROBLEM,
                      "logs and the chat's history cannot be kept: change owner or mode, or set "
                      "XDG_STATE_HOME");
    } else if (free_bytes < LITTLE_STATE) {
        finding_raise(finding, FINDING_NOTE, "logs may not be kept: free disk space");
    }
}
