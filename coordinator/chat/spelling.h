/* Chat templates in one spelling, so that their phrases can be compared. */
#ifndef TERN_CHAT_SPELLING_H
#define TERN_CHAT_SPELLING_H

#include "proto/catalog.h"

/* A copy with, inside {{ }} and {% %}: no white space but where words would touch; strings in
 * single quotes where they hold none, line ends in them as \n; x['name'] as x.name. Comments and
 * the dashes that strip white space are left out. NUL-terminated, malloc'ed; NULL: no memory.
 * Linear in time. */
char *spell(struct tern_string template_text);

#endif
