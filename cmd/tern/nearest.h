/* Names that somebody may have meant. */
#ifndef TERN_CMD_NEAREST_H
#define TERN_CMD_NEAREST_H

#include <stddef.h>

/* Up to `most` of the names that are like `name`, best first: few letters changed, swapped, added
 * or left out (case does not count), or one the beginning of the other. Returns how many. */
size_t nearest_names(const char *name, const char *const *names, size_t count, const char **found,
                     size_t most);

/* "; did you mean 'a' or 'b'?" into text, "" if none is near; `dashes` goes before each name. */
void nearest_suggest(const char *name, const char *dashes, const char *const *names, size_t count,
                     char *text, size_t room);

#endif
