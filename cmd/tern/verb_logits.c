/* tern logits: the logits of every position to a file. */
#include "cmd/tern/new_file.h"
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>

static bool take_rows(void *context, const struct tern_message *reply)
{
    size_t length;
    const char *rows = tern_message_text(reply, TERN_F_DATA, &length);
    return rows == NULL || new_file_write(context, rows, length);
}

static enum tern_status write_logits(struct client *client, struct tern_pack *pack,
                                     const char *path, struct tern_error *error)
{
    struct new_file file;
    enum tern_status status = new_file_open(&file, path, 0666, error);
    if (status != TERN_OK) {
        tern_pack_free(pack);
        return status;
    }
    status = client_call(client, pack, take_rows, &file, error);
    return new_file_close(&file, status, error);
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
