#include "cmd/tern/chat/commands.h"

#include "cmd/tern/chat/transcript.h"
#include "cmd/tern/models.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name, *argument, *help;
    bool needs_argument;
    enum tern_status (*run)(struct chat *chat, const char *argument, struct tern_error *error);
};

static enum tern_status help(struct chat *chat, const char *argument, struct tern_error *error);

static enum tern_status reset(struct chat *chat, const char *argument, struct tern_error *error)
{
    (void)argument, (void)error;
    chat_reset(chat);
    fprintf(stderr, "tern: a new conversation\n");
    return TERN_OK;
}

static enum tern_status set_system(struct chat *chat, const char *argument,
                                   struct tern_error *error)
{
    const enum tern_status status = chat_set_system(chat, argument, error);
    if (status == TERN_OK)
        fprintf(stderr, "tern: the system message is %s\n",
                argument[0] != '\0' ? "set" : "removed");
    return status;
}

/* No shell was there to expand a ~ at the front. */
static enum tern_status expand_home(const char *argument, char *path, size_t room,
                                    struct tern_error *error)
{
    const bool home = argument[0] == '~' && argument[1] == '/';
    const char *folder = home ? home_folder() : "";
    if (folder == NULL)
        return tern_fail(error, TERN_USAGE, "there is no home folder for %s", argument);
    const int length = snprintf(path, room, "%s%s", folder, argument + home);
    if (length < 0 || (size_t)length >= room)
        return tern_fail(error, TERN_USAGE, "the path is too long");
    return TERN_OK;
}

static enum tern_status save(struct chat *chat, const char *argument, struct tern_error *error)
{
    char path[4096];
    enum tern_status status = expand_home(argument, path, sizeof path, error);
    if (status == TERN_OK)
        status = transcript_save(path, chat->messages, error);
    if (status == TERN_OK)
        fprintf(stderr, "tern: saved %zu messages\n", json_array_size(chat->messages));
    return status;
}

static enum tern_status load(struct chat *chat, const char *argument, struct tern_error *error)
{
    char path[4096];
    json_t *messages;
    enum tern_status status = expand_home(argument, path, sizeof path, error);
    if (status == TERN_OK)
        status = transcript_load(path, &messages, error);
    if (status != TERN_OK)
        return status;
    json_decref(chat->messages);
    chat->messages = messages;
    fprintf(stderr, "tern: loaded %zu messages\n", json_array_size(messages));
    return TERN_OK;
}

static const struct command commands[] = {
    {"/help", "", "show this", false, help},
    {"/reset", "", "forget the conversation, but not the system message", false, reset},
    {"/system", "TEXT", "set the system message; without TEXT remove it", false, set_system},
    {"/save", "FILE", "write the conversation as JSON; replaces only an earlier transcript", true,
     save},
    {"/load", "FILE", "go on with a conversation that was saved", true, load},
    {"/quit", "", "end (so does Ctrl-D)", false, NULL},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static enum tern_status help(struct chat *chat, const char *argument, struct tern_error *error)
{
    (void)chat, (void)argument, (void)error;
    for (int i = 0; i < COMMANDS; i++)
        fprintf(stderr, "  %-8s%-5s %s\n", commands[i].name, commands[i].argument,
                commands[i].help);
    fprintf(stderr,
            "\n"
            "  A line that ends in \\ goes on in the next one. Lines between two that hold\n"
            "  only \"\"\" are one text. A text that begins with / is typed with //.\n"
            "  Ctrl-C stops an answer, or clears the line, and ends when typed twice.\n");
    return TERN_OK;
}

enum tern_status chat_command(struct chat *chat, char *line, bool *quit, struct tern_error *error)
{
    const size_t length = strcspn(line, " \t\n");
    const char *argument = line + length + strspn(line + length, " \t\n");
    for (size_t end = strlen(line); end > length && strchr(" \t\n", line[end - 1]) != NULL;)
        line[--end] = '\0';
    for (int i = 0; i < COMMANDS; i++) {
        const struct command *command = &commands[i];
        if (strlen(command->name) != length || memcmp(command->name, line, length) != 0)
            continue;
        if (command->needs_argument && argument[0] == '\0')
            return tern_fail(error, TERN_USAGE, "%s needs a %s", command->name, command->argument);
        if (command->argument[0] == '\0' && argument[0] != '\0')
            return tern_fail(error, TERN_USAGE,
                             "%s takes nothing behind it; a text that begins "
                             "with / is typed with //",
                             command->name);
        *quit = command->run == NULL;
        return *quit ? TERN_OK : command->run(chat, argument, error);
    }
    return tern_fail(error, TERN_USAGE,
                     "unknown command '%.*s', nothing was sent; /help lists the commands, and a "
                     "text that begins with / is typed with //",
                     (int)(length < 40 ? length : 40), line);
}
