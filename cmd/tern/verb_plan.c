/* tern plan: what the graph compiler made of a model, as a table or a drawing. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>

int verb_plan(const struct verb *verb, int argc, char **argv)
{
    struct model_options model = {0};
    bool dot = false, svg = false, json = false;
    const struct option options[] = {
        {"dot", OPTION_FLAG, &dot, NULL, "draw it for Graphviz", 0, 0, NULL},
        {"svg", OPTION_FLAG, &svg, NULL, "draw it as SVG", 0, 0, NULL},
        {"json", OPTION_FLAG, &json, NULL, "print JSON", 0, 0, NULL},
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
    client_begin(&client, &pack, TERN_MSG_PLAN);
    tern_pack_text(&pack, TERN_F_MODEL, path);
    tern_pack_text(&pack, TERN_F_FORMAT, dot ? "dot" : svg ? "svg" : json ? "json" : "table");
    pack_options(&pack, &model);
    const enum tern_status status = client_call(&client, &pack, take_result, &result, &error);
    client_close(&client);
    if (status == TERN_OK && result.json != NULL) {
        json_dumpf(result.json, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else if (status == TERN_OK && result.text != NULL)
        printf("%s\n", result.text);
    free(result.text);
    json_decref(result.json);
    return status == TERN_OK ? 0 : complain(&error);
}
