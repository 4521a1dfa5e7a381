/* The message parser: what strangers send to the service's and the workers' sockets. What it
 * accepts is read in every field, and written again it parses to the same. */
#include "proto/message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void read_fields(const struct tern_message *message, const uint8_t *data, size_t size)
{
    for (int f = 0; f < TERN_FIELDS; f++) {
        const enum tern_field field = (enum tern_field)f;
        size_t length;
        const char *text = tern_message_text(message, field, &length);
        char *copy = tern_message_copy(message, field);
        if (text != NULL && length > 0)
            check((const uint8_t *)text >= data && length <= size &&
                  (const uint8_t *)text + length <= data + size);
        if (copy != NULL && text != NULL)
            check(strlen(copy) <= length && memcmp(copy, text, strlen(copy)) == 0); /* to a NUL */
        check(tern_message_has(message, field) || (text == NULL && length == 0));
        free(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tern_message message = {0}, again = {0};
    struct tern_error error = {0};
    struct tern_pack pack;
    size_t bytes;
    if (tern_message_parse(data, size, &message, &error) != TERN_OK) {
        check(error.status == TERN_USAGE && error.message[0] != '\0');
        return 0;
    }
    check(message.kind < TERN_MSG_KINDS && tern_message_name(message.kind) != NULL);
    read_fields(&message, data, size);
    tern_pack_begin(&pack, message.kind);
    if (tern_message_has(&message, TERN_F_REQUEST))
        tern_pack_u64(&pack, TERN_F_REQUEST, tern_message_u64(&message, TERN_F_REQUEST, 0));
    const char *text = tern_message_text(&message, TERN_F_PROMPT, &bytes);
    if (text != NULL)
        tern_pack_bytes(&pack, TERN_F_PROMPT, text, bytes);
    const void *packed = tern_pack_end(&pack, &bytes);
    check(packed != NULL && tern_message_parse(packed, bytes, &again, &error) == TERN_OK &&
          again.kind == message.kind &&
          tern_message_u64(&again, TERN_F_REQUEST, 0) ==
              tern_message_u64(&message, TERN_F_REQUEST, 0));
    tern_pack_free(&pack);
    return 0;
}
