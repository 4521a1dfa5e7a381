/* Where files are: models by path or by name in the cache, the state folder (XDG). */
#ifndef TERN_CMD_MODELS_H
#define TERN_CMD_MODELS_H

#include "proto/status.h"
#include <stdbool.h>
#include <stddef.h>

/* The absolute path for a MODEL argument: a path if it holds a slash, ends in .gguf or names a
 * file, else the cached model of that name. */
enum tern_status model_path(const char *model, char *path, size_t room, struct tern_error *error);

/* $HOME, or what the user database says where services and containers leave it out; may be NULL. */
const char *home_folder(void);

/* $XDG_CACHE_HOME/tern/models (not made). */
enum tern_status models_folder(char *path, size_t room, struct tern_error *error);

/* $XDG_STATE_HOME/tern/NAME; makes the folders. */
enum tern_status state_file(const char *name, char *path, size_t room, struct tern_error *error);

/* Makes every folder on the way to the last slash, mode 0700; false with errno. Changes the path
 * only meanwhile. */
bool make_folders(char *path);

#endif
