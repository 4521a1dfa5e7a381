/* Writing JSON values: text that need not be UTF-8, numbers, flags. */
#ifndef TERN_SERVICE_VALUES_H
#define TERN_SERVICE_VALUES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text of a file or a path: "?" where it is not UTF-8. */
json_t *text_value(const char *bytes, size_t length);

void put_text(json_t *object, const char *key, const char *text);
void put_number(json_t *object, const char *key, uint64_t value);
void put_flag(json_t *object, const char *key, bool value);
void put_value(json_t *object, const char *key, json_t *value); /* takes the value over */

/* The compact text, malloc'ed, or NULL; frees the value. */
char *print_value(json_t *root);

struct tern_catalog;
/* Adds "metadata", a list of {key, type, count, value}, and "metadata_left_out" (keys for which
 * there was no room). Strings are cut, of arrays the first elements are shown. */
void tern_describe_metadata(json_t *root, const struct tern_catalog *catalog);

#endif
