#include "cmd/tern/request.h"

#include "cmd/tern/models.h"

void pack_options(struct tern_pack *pack, const struct model_options *options)
{
    if (options->threads != 0)
        tern_pack_u64(pack, TERN_F_THREADS, options->threads);
    if (options->batch != 0)
        tern_pack_u64(pack, TERN_F_BATCH, options->batch);
    if (options->context != 0)
        tern_pack_u64(pack, TERN_F_CTX, options->context);
    if (options->tier != NULL)
        tern_pack_text(pack, TERN_F_TIER, options->tier);
    if (options->precision != NULL)
        tern_pack_text(pack, TERN_F_PRECISION, options->precision);
    if (options->kv != NULL)
        tern_pack_text(pack, TERN_F_KV, options->kv);
    if (options->unfused)
        tern_pack_bool(pack, TERN_F_UNFUSED, true);
}

static bool begin(const struct verb *verb, const struct option *options, int *argc, char **argv,
                  int most, char *path, bool start, struct client *client, int *code)
{
    struct tern_error error = {0};
    enum tern_status status = TERN_OK;
    if (!options_begin(verb, options, argc, argv, path != NULL, most, code))
        return false;
    if (path != NULL)
        status = model_path(argv[0], path, 4096, &error);
    if (status == TERN_OK)
        status = client_open(client, start, &error);
    *code = status == TERN_OK ? 0 : complain(&error);
    return status == TERN_OK;
}

bool begin_model_verb(const struct verb *verb, const struct option *options, int *argc, char **argv,
                      int most, char *path, struct client *client, int *code)
{
    return begin(verb, options, argc, argv, most, path, true, client, code);
}

bool begin_idle_verb(const struct verb *verb, const struct option *options, int *argc, char **argv,
                     int most, char *path, struct client *client, int *code)
{
    return begin(verb, options, argc, argv, most, path, false, client, code);
}

enum tern_status ask_info(struct client *client, const char *path, bool metadata,
                          struct result *result, struct tern_error *error)
{
    struct tern_pack pack;
    client_begin(client, &pack, TERN_MSG_INFO);
    tern_pack_text(&pack, TERN_F_MODEL, path);
    if (metadata)
        tern_pack_text(&pack, TERN_F_FORMAT, "metadata");
    const enum tern_status status = client_call(client, &pack, take_result, result, error);
    if (status == TERN_OK && result->json == NULL)
        return tern_fail(error, TERN_FAILED, "the service gave no description of %s", path);
    return status;
}
