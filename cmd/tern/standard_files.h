/*
 * Standard input, output and error as this program expects them: open, and waiting. Whoever started
 * it may have closed some (libraries would then open theirs under these numbers, and texts would go
 * there), or made them non-blocking (a slow reader would lose the rest of an answer).
 */
#ifndef TERN_CMD_STANDARD_FILES_H
#define TERN_CMD_STANDARD_FILES_H

/* First of all in main. Reading or writing what was closed fails with EBADF from then on. */
void standard_files_prepare(void);

#endif
