/* What a line that begins with a slash does. */
#ifndef TERN_CMD_CHAT_COMMANDS_H
#define TERN_CMD_CHAT_COMMANDS_H

#include "cmd/tern/chat/session.h"

/* Runs a command line ("/save FILE"). *quit: the chat is to end. TERN_USAGE for an unknown one; a
 * command that fails has changed nothing. */
enum tern_status chat_command(struct chat *chat, char *line, bool *quit, struct tern_error *error);

#endif
