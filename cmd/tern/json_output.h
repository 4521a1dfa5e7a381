/* JSON on standard output: any bytes become valid text, any number keeps its value. */
#ifndef TERN_CMD_JSON_OUTPUT_H
#define TERN_CMD_JSON_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JSON string of any bytes: what is no UTF-8 becomes U+FFFD, one for each byte, but one alone for
 * a character that the end cuts off. NULL: no memory. */
json_t *json_of_bytes(const char *bytes, size_t length);

/* The same of a NUL-terminated text; null for NULL. */
json_t *json_of_text(const char *text);

/* An integer; jansson's end at 2^63 - 1: larger ones are strings. */
json_t *json_of_count(uint64_t count);

/* Prints a value, indented or in one line, with a newline; cleaned as an answer is on a terminal.
 * False when nobody reads any more, or memory is short. */
bool print_json(const json_t *value);
bool print_json_line(const json_t *value);

#endif
