/*
 * libFuzzer over the JSON that the command line reads: lists of ids and transcripts. A text that is
 * taken must be what its reader promises, and a transcript must survive being written and read.
 */
#include "cmd/tern/chat/transcript.h"
#include "cmd/tern/json_input.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_ids(const char *text, size_t size)
{
    struct tern_error error;
    uint32_t *ids;
    size_t count;
    const enum tern_status status = ids_parse("ids", text, size, &ids, &count, &error);
    if ((status == TERN_OK) != (ids != NULL) || (status == TERN_OK && count > size))
        abort();
    free(ids);
}

static void read_transcript(const char *text, size_t size)
{
    struct tern_error error;
    json_t *messages, *again;
    const enum tern_status status = transcript_parse("transcript", text, size, &messages, &error);
    if (status != TERN_OK) {
        if (messages != NULL || error.message[0] == '\0')
            abort();
        return;
    }
    char *written = json_dumps(messages, JSON_COMPACT);
    if (written == NULL)
        abort();
    if (transcript_parse("written", written, strlen(written), &again, &error) != TERN_OK ||
        !json_equal(messages, again))
        abort();
    free(written);
    json_decref(messages);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1); /* of its exact size, so that any read behind it is seen */
    if (text == NULL)
        return 0;
    char *exact = text + 1; /* malloc'ed blocks of 0 bytes would hide a read */
    memcpy(exact, bytes, size);
    read_ids(exact, size);
    read_transcript(exact, size);
    free(text);
    return 0;
}
