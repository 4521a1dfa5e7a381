/* tern load, tern unload. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>

/* Sends a request that names a model and ends in one RESULT, whose text is printed. */
static int simple_request(struct client *client, struct tern_pack *pack)
{
    struct result result = {0};
    struct tern_error error = {0};
    const enum tern_status status = client_call(client, pack, take_result, &result, &error);
    client_close(client);
    /* An interrupt that the service did not hear of in time undid nothing: say what was done. */
    if (result.text != NULL) {
        print_shown(result.text);
        putchar('\n');
    }
    const bool done = status == TERN_OK || result.text != NULL;
    free(result.text);
    json_decref(result.json);
    return done ? 0 : complain(&error);
}

int verb_load(const struct verb *verb, int argc, char **argv)
{
    struct model_options model = {0};
    const struct option options[] = {MODEL_OPTIONS(model), {0}};
    char path[4096];
    struct client client;
    struct tern_pack pack;
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &client, &code))
        return code;
    client_begin(&client, &pack, TERN_MSG_LOAD);
    tern_pack_text(&pack, TERN_F_MODEL, path);
    tern_pack_bool(&pack, TERN_F_PIN, true);
    pack_options(&pack, &model);
    return simple_request(&client, &pack);
}

int verb_unload(const struct verb *verb, int argc, char **argv)
{
    const struct option options[] = {{0}};
    char path[4096];
    struct client client;
    struct tern_pack pack;
    int code;
    if (!begin_idle_verb(verb, options, &argc, argv, 1, path, &client, &code))
        return code;
    client_begin(&client, &pack, TERN_MSG_UNLOAD);
    tern_pack_text(&pack, TERN_F_MODEL, path);
    return simple_request(&client, &pack);
}
