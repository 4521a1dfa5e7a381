/* tern plan: what the graph compiler made of a model, as a table or a drawing. */
#include "cmd/tern/json_output.h"
#include "cmd/tern/new_file.h"
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tern_status write_file(const struct result *result, const char *path,
                                   struct tern_error *error)
{
    struct new_file file;
    const enum tern_status status = new_file_open(&file, path, 0666, error);
    if (status != TERN_OK)
        return status;
    if (result->json != NULL) {
        json_dumpf(result->json, file.out, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        fputc('\n', file.out);
    } else if (result->text != NULL) {
        fputs(result->text, file.out);
    }
    return new_file_close(&file, status, error);
}

static void print(const struct result *result)
{
    struct screen screen = {0};
    if (result->json != NULL)
        print_json(result->json);
    else if (result->text != NULL)
        write_answer(&screen, result->text, strlen(result->text));
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
    if (status == TERN_OK && out != NULL)
        status = write_file(&result, out, &error);
    else if (status == TERN_OK)
        print(&result);
    free(result.text);
    json_decref(result.json);
    return status == TERN_OK ? 0 : complain(&error);
}
