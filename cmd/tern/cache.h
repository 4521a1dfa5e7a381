/* The cache of models: a folder of NAME.gguf files that are called by NAME. */
#ifndef TERN_CMD_CACHE_H
#define TERN_CMD_CACHE_H

#include "proto/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_NAME = 200 }; /* bytes of a name at most */

struct cache_entry {
    char name[256]; /* without .gguf */
    uint64_t bytes;
    int64_t modified; /* seconds since 1970 */
};

/* The regular files, by name; *entries is malloc'ed. A missing folder is empty. */
enum tern_status cache_list(struct cache_entry **entries, size_t *count, struct tern_error *error);

/* The folder as a descriptor; `make`: makes it if need be. */
enum tern_status cache_open(bool make, int *fd, struct tern_error *error);

/* May a model be called so? 1 to CACHE_NAME bytes of UTF-8, no slash, no control character, no dot
 * or dash at the front. TERN_USAGE. */
enum tern_status cache_check_name(const char *name, struct tern_error *error);

/* ", did you mean 'a' or 'b'?" for a name that is not in the cache; "" if none is near. */
void cache_suggest(const char *name, char *text, size_t room);

#endif
