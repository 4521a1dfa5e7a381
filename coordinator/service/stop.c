/*
 * Each text has the automaton of Knuth, Morris and Pratt (SIAM J. Comput. 6, 1977): its state is
 * how many of its bytes the answer ends with, so a byte costs a constant for each text. What is
 * held back is as long as the largest state.
 */
#include "coordinator/service/stop.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct stop {
    const char *text;
    uint32_t length, state;
    uint32_t *border; /* [i]: longest proper border of the first i + 1 bytes */
};

struct tern_stops {
    char *texts;
    uint32_t *borders;
    char *held;
    size_t held_bytes, held_room;
    uint32_t count;
    struct stop stop[];
};

static void find_borders(struct stop *stop)
{
    uint32_t border = 0;
    stop->border[0] = 0;
    for (uint32_t i = 1; i < stop->length; i++) {
        while (border > 0 && stop->text[i] != stop->text[border])
            border = stop->border[border - 1];
        border += stop->text[i] == stop->text[border];
        stop->border[i] = border;
    }
}

static enum tern_status check(const char *texts, size_t length, size_t *count,
                              struct tern_error *error)
{
    *count = 0;
    if (texts[length - 1] != '\0')
        return tern_fail(error, TERN_USAGE, "the last stop text has no NUL behind it");
    for (size_t at = 0; at < length; at += strlen(texts + at) + 1, ++*count)
        if (texts[at] == '\0')
            return tern_fail(error, TERN_USAGE, "stop text %zu is empty; leave it out", *count + 1);
    if (*count > TERN_MOST_STOPS)
        return tern_fail(error, TERN_USAGE, "%zu stop texts; at most %d are taken", *count,
                         TERN_MOST_STOPS);
    return TERN_OK;
}

enum tern_status tern_stops_new(const char *texts, size_t length, struct tern_stops **out,
                                struct tern_error *error)
{
    size_t count;
    *out = NULL;
    if (length == 0)
        return TERN_OK;
    const enum tern_status status = check(texts, length, &count, error);
    if (status != TERN_OK)
        return status;
    struct tern_stops *stops = calloc(1, sizeof *stops + count * sizeof stops->stop[0]);
    if (stops == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    stops->texts = malloc(length);
    stops->borders = calloc(length, sizeof *stops->borders);
    if (stops->texts == NULL || stops->borders == NULL) {
        tern_stops_free(stops);
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    }
    memcpy(stops->texts, texts, length);
    for (size_t at = 0; at < length;) {
        struct stop *stop = &stops->stop[stops->count++];
        stop->text = stops->texts + at;
        stop->length = (uint32_t)strlen(stop->text);
        stop->border = stops->borders + at;
        find_borders(stop);
        at += stop->length + 1;
    }
    *out = stops;
    return TERN_OK;
}

void tern_stops_free(struct tern_stops *stops)
{
    if (stops == NULL)
        return;
    free(stops->texts);
    free(stops->borders);
    free(stops->held);
    free(stops);
}

/* Takes one byte; the length of the longest text that ends with it, 0: none does. */
static uint32_t step(struct tern_stops *stops, char byte, uint32_t *longest_state)
{
    uint32_t found = 0;
    *longest_state = 0;
    for (uint32_t i = 0; i < stops->count; i++) {
        struct stop *stop = &stops->stop[i];
        while (stop->state > 0 && stop->text[stop->state] != byte)
            stop->state = stop->border[stop->state - 1];
        stop->state += stop->text[stop->state] == byte;
        if (stop->state > *longest_state)
            *longest_state = stop->state;
        if (stop->state == stop->length && stop->length > found)
            found = stop->length;
    }
    return found;
}

bool tern_stops_name(const struct tern_stops *stops, const char *bytes, size_t length)
{
    for (uint32_t i = 0; i < stops->count; i++)
        if (stops->stop[i].length == length && memcmp(stops->stop[i].text, bytes, length) == 0)
            return true;
    return false;
}

static bool append(char **to, size_t *length, const char *bytes, size_t count)
{
    char *grown = realloc(*to, *length + count + 1);
    if (grown == NULL)
        return false;
    memcpy(grown + *length, bytes, count);
    *to = grown;
    *length += count;
    return true;
}

static bool hold(struct tern_stops *stops, const char *bytes, size_t count)
{
    const size_t need = stops->held_bytes + count;
    if (need > stops->held_room) {
        char *grown = realloc(stops->held, 2 * need);
        if (grown == NULL)
            return false;
        stops->held = grown;
        stops->held_room = 2 * need;
    }
    memcpy(stops->held + stops->held_bytes, bytes, count);
    stops->held_bytes = need;
    return true;
}

/* Gives out the first `count` held bytes. */
static bool release(struct tern_stops *stops, size_t count, char **out, size_t *out_length)
{
    if (!append(out, out_length, stops->held, count))
        return false;
    stops->held_bytes -= count;
    memmove(stops->held, stops->held + count, stops->held_bytes);
    return true;
}

enum tern_status tern_stops_feed(struct tern_stops *stops, const char *bytes, size_t length,
                                 char **out, size_t *out_length, bool *stopped,
                                 struct tern_error *error)
{
    uint32_t found = 0, state = 0;
    size_t taken = 0;
    while (taken < length && found == 0)
        found = step(stops, bytes[taken++], &state);
    *stopped = found > 0;
    if (taken == 0)
        return TERN_OK;
    if (!hold(stops, bytes, taken) ||
        !release(stops, stops->held_bytes - (found > 0 ? found : state), out, out_length))
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    if (found > 0)
        stops->held_bytes = 0;
    return TERN_OK;
}

enum tern_status tern_stops_end(struct tern_stops *stops, char **out, size_t *out_length,
                                struct tern_error *error)
{
    if (stops->held_bytes > 0 && !release(stops, stops->held_bytes, out, out_length))
        return tern_fail(error, TERN_NO_MEMORY, "out of memory");
    return TERN_OK;
}
