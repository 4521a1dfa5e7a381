/* What was typed in this chat and earlier ones, for the arrow keys: kept in the state folder. */
#ifndef TERN_CMD_CHAT_HISTORY_H
#define TERN_CMD_CHAT_HISTORY_H

#include <histedit.h>

/* Reads what is kept and gives it to the editor. Without a state folder, or with a file that is no
 * history, nothing is kept (said on stderr). NULL: out of memory. */
struct chat_history *chat_history_open(EditLine *editor);
/* Keeps what was typed, mode 0600. */
void chat_history_close(struct chat_history *history);

/* Texts of more than 4 KiB are not kept. */
void chat_history_add(struct chat_history *history, const char *text);

#endif
