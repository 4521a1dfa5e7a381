/* tern tokenize, tern detokenize. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"
#include "proto/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tokenize {
    const char *path;
    bool no_special, no_parse_special, chat, jsonl;
};

/* One text to one printed list. */
static enum tern_status tokenize_text(struct client *client, const struct tokenize *t,
                                      const char *text, size_t length, bool add_special,
                                      bool parse_special, struct tern_error *error)
{
    struct tern_pack pack;
    struct collected got = {0};
    if (!tern_utf8_valid(text, length) || memchr(text, '\0', length) != NULL)
        return tern_fail(error, TERN_USAGE, "the text is not UTF-8 without NUL; convert it first");
    client_begin(client, &pack, TERN_MSG_TOKENIZE);
    tern_pack_text(&pack, TERN_F_MODEL, t->path);
    tern_pack_bytes(&pack, TERN_F_TEXT, text, length);
    if (!add_special)
        tern_pack_bool(&pack, TERN_F_NO_SPECIAL, true);
    if (!parse_special)
        tern_pack_bool(&pack, TERN_F_NO_PARSE_SPECIAL, true);
    if (t->chat)
        tern_pack_bool(&pack, TERN_F_CHAT, true);
    enum tern_status status = client_call(client, &pack, collect, &got, error);
    if (status == TERN_OK && got.failed)
        status = tern_fail(error, TERN_NO_MEMORY, "out of memory for the ids");
    if (status == TERN_OK)
        print_ids(got.ids, got.count);
    free(got.ids);
    free(got.bytes);
    return status;
}

/* A member that may be left out; anything but a boolean is an error. */
static bool json_flag(const json_t *object, const char *name, bool otherwise, bool *good)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL)
        return otherwise;
    if (!json_is_boolean(value))
        *good = false;
    return json_is_true(value);
}

static enum tern_status tokenize_line(struct client *client, const struct tokenize *t,
                                      const char *line, size_t length, size_t number,
                                      struct tern_error *error)
{
    json_error_t where;
    json_t *object = json_loadb(line, length, JSON_ALLOW_NUL, &where);
    const json_t *text = json_object_get(object, "text");
    bool good = json_is_string(text);
    const bool add = json_flag(object, "add_special", !t->no_special, &good);
    const bool parse = json_flag(object, "parse_special", !t->no_parse_special, &good);
    const enum tern_status status =
        good ? tokenize_text(client, t, json_string_value(text), json_string_length(text), add,
                             parse, error)
             : tern_fail(error, TERN_USAGE,
                         "line %zu is no object with \"text\" (a string), and \"add_special\" and "
                         "\"parse_special\" (booleans) if at all",
                         number);
    json_decref(object);
    return status;
}

static enum tern_status tokenize_lines(struct client *client, const struct tokenize *t,
                                       const char *text, size_t length, struct tern_error *error)
{
    size_t number = 0;
    for (const char *line = text, *end = text + length; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t bytes = (size_t)((newline != NULL ? newline : end) - line);
        number++;
        if (bytes > (bytes == 1 && line[0] == '\r')) { /* not blank */
            const enum tern_status status = tokenize_line(client, t, line, bytes, number, error);
            if (status != TERN_OK)
                return status;
        }
        line += bytes + 1;
    }
    return TERN_OK;
}

int verb_tokenize(const struct verb *verb, int argc, char **argv)
{
    struct tokenize t = {0};
    const struct option options[] = {
        {"no-special", OPTION_FLAG, &t.no_special, NULL, "add no BOS or EOS", 0, 0, NULL},
        {"no-parse-special", OPTION_FLAG, &t.no_parse_special, NULL,
         "special tokens in the text are plain text", 0, 0, NULL},
        {"chat", OPTION_FLAG, &t.chat, NULL,
         "the text is the user's message of a chat; print the whole prompt's ids", 0, 0, NULL},
        {"jsonl", OPTION_FLAG, &t.jsonl, NULL,
         "a JSON object a line: text, add_special, parse_special", 0, 0, NULL},
        {0},
    };
    char path[4096], *text;
    size_t length;
    struct client client;
    struct tern_error error = {0};
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &client, &code))
        return code;
    t.path = path;
    enum tern_status status = read_all("-", &text, &length, &error);
    if (status == TERN_OK) {
        status = t.jsonl ? tokenize_lines(&client, &t, text, length, &error)
                         : tokenize_text(&client, &t, text, length, !t.no_special,
                                         !t.no_parse_special, &error);
        free(text);
    }
    client_close(&client);
    return status == TERN_OK ? 0 : complain(&error);
}

int verb_detokenize(const struct verb *verb, int argc, char **argv)
{
    const struct option options[] = {{0}};
    char path[4096];
    uint32_t *ids;
    size_t count;
    struct client client;
    struct tern_pack pack;
    struct collected got = {0};
    struct screen screen = {0};
    struct tern_error error = {0};
    int code;
    if (!begin_model_verb(verb, options, &argc, argv, 1, path, &client, &code))
        return code;
    enum tern_status status = read_ids("-", &ids, &count, &error);
    if (status == TERN_OK) {
        client_begin(&client, &pack, TERN_MSG_DETOKENIZE);
        tern_pack_text(&pack, TERN_F_MODEL, path);
        tern_pack_bytes(&pack, TERN_F_TOKENS, ids, count * sizeof *ids);
        free(ids);
        status = client_call(&client, &pack, collect, &got, &error);
    }
    client_close(&client);
    if (status == TERN_OK && got.failed)
        status = tern_fail(&error, TERN_NO_MEMORY, "out of memory for the text");
    if (status == TERN_OK)
        write_answer(&screen, got.bytes, got.length);
    free(got.ids);
    free(got.bytes);
    return status == TERN_OK ? 0 : complain(&error);
}
