/* tern logits: the logits of every position to a file. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct logits {
    FILE *out;
    const char *path;
    int failure; /* errno of the first failed write */
};

static bool take_rows(void *context, const struct tern_message *reply)
{
    struct logits *logits = context;
    size_t length;
    const char *rows = tern_message_text(reply, TERN_F_DATA, &length);
    if (rows != NULL && fwrite(rows, 1, length, logits->out) != length)
        logits->failure = errno;
    return logits->failure == 0;
}

/* A pipe, a device, a link: written as it is, since no other file can take its place. */
static bool is_special(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

/* Rows go to OUT.part, which becomes OUT when all are there: a failed run leaves the old file. */
static enum tern_status write_logits(struct client *client, struct tern_pack *pack,
                                     const char *path, struct tern_error *error)
{
    char part[4096];
    const bool special = is_special(path);
    const int length = snprintf(part, sizeof part, special ? "%s" : "%s.part", path);
    if (length < 0 || (size_t)length >= sizeof part) {
        tern_pack_free(pack);
        return tern_fail(error, TERN_USAGE, "the path of the file to write is too long");
    }
    struct logits logits = {.out = fopen(part, "wb")};
    if (logits.out == NULL) {
        tern_pack_free(pack);
        return tern_fail(error, TERN_USAGE, "cannot write %s: %s", part, strerror(errno));
    }
    enum tern_status status = client_call(client, pack, take_rows, &logits, error);
    if (fclose(logits.out) != 0 && logits.failure == 0)
        logits.failure = errno;
    if (logits.failure != 0)
        status =
            tern_fail(error, TERN_FAILED, "cannot write %s: %s", part, strerror(logits.failure));
    if (status == TERN_OK && !special && rename(part, path) != 0)
        status = tern_fail(error, TERN_FAILED, "cannot write %s: %s", path, strerror(errno));
    if (status != TERN_OK && !special)
        unlink(part);
    return status;
}

int verb_logits(const struct verb *verb, int argc, char **argv)
{
    struct model_options model = {0};
    const char *tokens = NULL, *out = NULL;
    const struct option options[] = {
        {"tokens", OPTION_TEXT, &tokens, "FILE", "JSON list of token ids", 0, 0, NULL},
        {"o", OPTION_TEXT, &out, "OUT", "file to write", 0, 0, NULL},
        MODEL_OPTIONS(model),
        {0},
    };
    char path[4096];
    struct client client;
    struct tern_pack pack;
    struct tern_error error = {0};
    uint32_t *ids;
    size_t count;
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &client, &code))
        return code;
    enum tern_status status =
        tokens == NULL || out == NULL
            ? tern_fail(&error, TERN_USAGE, "logits needs --tokens FILE and -o OUT")
            : read_ids(tokens, &ids, &count, &error);
    if (status == TERN_OK) {
        client_begin(&client, &pack, TERN_MSG_LOGITS);
        tern_pack_text(&pack, TERN_F_MODEL, path);
        tern_pack_bytes(&pack, TERN_F_TOKENS, ids, count * sizeof *ids);
        pack_options(&pack, &model);
        free(ids);
        status = write_logits(&client, &pack, out, &error);
    }
    client_close(&client);
    return status == TERN_OK ? 0 : complain(&error);
}
