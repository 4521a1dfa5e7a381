#include "cmd/tern/chat/history.h"

#include "cmd/tern/models.h"
#include "cmd/tern/new_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ENTRIES = 1000,
    ENTRY_MAX = 4096,
    FILE_MAX = ENTRIES * (4 * ENTRY_MAX + 1) + 64, /* a byte takes four at most: \ooo */
};

struct chat_history {
    History *entries;
    char path[4096]; /* "": nothing is kept */
};

/* Reads the file, if there is one. False when it is none of ours. */
static bool read_entries(struct chat_history *kept)
{
    struct stat about;
    HistEvent event;
    if (stat(kept->path, &about) != 0)
        return errno == ENOENT;
    return S_ISREG(about.st_mode) && about.st_size <= FILE_MAX &&
           (about.st_size == 0 || history(kept->entries, &event, H_LOAD, kept->path) >= 0);
}

struct chat_history *chat_history_open(EditLine *editor)
{
    struct chat_history *kept = calloc(1, sizeof *kept);
    struct tern_error error;
    HistEvent event;
    if (kept == NULL || (kept->entries = history_init()) == NULL) {
        free(kept);
        return NULL;
    }
    history(kept->entries, &event, H_SETSIZE, ENTRIES);
    history(kept->entries, &event, H_SETUNIQUE, 1);
    if (state_file("history", kept->path, sizeof kept->path, &error) != TERN_OK) {
        fprintf(stderr, "tern: what is typed is not kept: %s\n", error.message);
        kept->path[0] = '\0';
    } else if (!read_entries(kept)) {
        fprintf(stderr, "tern: what is typed is not kept: %s is no history; remove it\n",
                kept->path);
        kept->path[0] = '\0';
    }
    el_set(editor, EL_HIST, history, kept->entries);
    return kept;
}

/* Two chats that end together leave the file of one. */
static void write_entries(struct chat_history *kept)
{
    struct new_file file;
    struct tern_error error;
    HistEvent event;
    enum tern_status status = new_file_open(&file, kept->path, 0600, &error);
    if (status == TERN_OK) {
        if (history(kept->entries, &event, H_SAVE_FP, file.out) < 0 && !ferror(file.out))
            status =
                tern_fail(&error, TERN_NO_MEMORY, "cannot write %s: out of memory", kept->path);
        status = new_file_close(&file, status, &error);
    }
    if (status != TERN_OK)
        fprintf(stderr, "tern: what was typed is not kept: %s\n", error.message);
}

void chat_history_close(struct chat_history *kept)
{
    if (kept == NULL)
        return;
    if (kept->path[0] != '\0')
        write_entries(kept);
    history_end(kept->entries);
    free(kept);
}

void chat_history_add(struct chat_history *kept, const char *text)
{
    HistEvent event;
    if (kept != NULL && strlen(text) <= ENTRY_MAX)
        history(kept->entries, &event, H_ENTER, text);
}
