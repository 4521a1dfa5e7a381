/* tern plan: what the graph compiler made of a model, as a table or a drawing. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* To `path`, or to standard output. */
static enum tern_status write_plan(const struct result *result, const char *path,
                                   struct tern_error *error)
{
    FILE *out = path != NULL ? fopen(path, "we") : stdout;
    if (out == NULL)
        return tern_fail(error, TERN_USAGE, "cannot write %s: %s", path, strerror(errno));
    if (result->json != NULL)
        json_dumpf(result->json, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    else if (result->text != NULL)
        fputs(result->text, out);
    if (result->json != NULL)
        fputc('\n', out);
    const bool failed = ferror(out) != 0;
    if (path != NULL && (fclose(out) != 0 || failed))
        return tern_fail(error, TERN_FAILED, "cannot write %s: %s", path, strerror(errno));
    return TERN_OK;
}

int verb_plan(const struct verb *verb, int argc, char **argv)
{
    struct model_options model = {0};
    bool dot = false, svg = false, json = false;
    const char *out = NULL;
    const struct option options[] = {
        {"dot", OPTION_FLAG, &dot, NULL, "draw it for Graphviz", 0, 0, NULL},
        {"svg", OPTION_FLAG, &svg, NULL, "draw it as SVG", 0, 0, NULL},
        {"json", OPTION_FLAG, &json, NULL, "print JSON", 0, 0, NULL},
        {"o", OPTION_TEXT, &out, "FILE", "write to a file", 0, 0, NULL},
        MODEL_OPTIONS(model),
        {0},
    };
    char path[4096];
    struct client client;
    struct tern_pack pack;
    struct result result = {0};
    struct tern_error error = {0};
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &client, &code))
        return code;
    if (dot + svg + json > 1) {
        client_close(&client);
        tern_fail(&error, TERN_USAGE, "--dot, --svg and --json exclude each other");
        return complain(&error);
    }
    client_begin(&client, &pack, TERN_MSG_PLAN);
    tern_pack_text(&pack, TERN_F_MODEL, path);
    tern_pack_text(&pack, TERN_F_FORMAT, dot ? "dot" : svg ? "svg" : json ? "json" : "table");
    pack_options(&pack, &model);
    enum tern_status status = client_call(&client, &pack, take_result, &result, &error);
    client_close(&client);
    if (status == TERN_OK)
        status = write_plan(&result, out, &error);
    free(result.text);
    json_decref(result.json);
    return status == TERN_OK ? 0 : complain(&error);
}
