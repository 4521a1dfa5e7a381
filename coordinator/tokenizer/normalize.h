/* NFC, in time linear but for the sorting of marks, whatever the text. */
#ifndef TERN_TOKENIZER_NORMALIZE_H
#define TERN_TOKENIZER_NORMALIZE_H

#include "proto/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text that grows at its end. */
struct text_buffer {
    char *bytes;
    size_t length, room;
};

enum tern_status text_append(struct text_buffer *buffer, const char *bytes, size_t length,
                             struct tern_error *error);

/* Appends `text` (valid UTF-8) in NFC of Unicode 9: the library behind the published tokenizers
 * normalizes with tables of that version. */
enum tern_status text_append_nfc(struct text_buffer *buffer, const char *text, size_t length,
                                 struct tern_error *error);

/* Does it neither move nor combine in Unicode 9, whatever utf8proc says? */
bool text_is_inert(uint32_t point);

#endif
