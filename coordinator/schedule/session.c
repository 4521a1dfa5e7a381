/* Sessions: made from a wish, freed by their owner. */
#include "coordinator/schedule/session.h"

#include <stdlib.h>
#include <string.h>

/* Ids that the session can come to hold: all are allocated at once (at most 4 MiB), so that a step
 * never allocates. */
static uint32_t limit_of(const struct tern_session_wish *wish, uint32_t context)
{
    const uint32_t room = context > wish->count ? context - wish->count : 0;
    if (wish->every_row)
        return wish->count;
    return wish->count + (wish->most < room ? wish->most : room);
}

static bool copy_bias(struct tern_session *session, const struct tern_session_wish *wish)
{
    session->sampling = wish->sampling;
    session->sampling.bias = NULL;
    if (wish->sampling.biases == 0)
        return true;
    const size_t bytes = wish->sampling.biases * sizeof *wish->sampling.bias;
    struct tern_bias *bias = malloc(bytes);
    if (bias != NULL)
        memcpy(bias, wish->sampling.bias, bytes);
    session->sampling.bias = bias;
    return bias != NULL;
}

struct tern_session *tern_session_new(const struct tern_session_wish *wish, uint32_t context,
                                      const struct tern_session_events *events)
{
    struct tern_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return NULL;
    session->limit = limit_of(wish, context);
    session->ids = malloc((size_t)session->limit * sizeof *session->ids);
    if (session->ids == NULL || !copy_bias(session, wish)) {
        free(session->ids);
        free(session);
        return NULL;
    }
    memcpy(session->ids, wish->ids, wish->count * sizeof *session->ids);
    session->count = session->prompt = wish->count;
    session->every_row = wish->every_row;
    session->ignore_ends = wish->ignore_ends;
    session->client = wish->client;
    session->every_choice = wish->every_choice;
    session->events = *events;
    session->sequence = -1;
    session->credit = UINT32_MAX;
    return session;
}

void tern_session_free(struct tern_session *session)
{
    if (session == NULL)
        return;
    free(session->ids);
    free((struct tern_bias *)session->sampling.bias); /* the session's own copy */
    free(session);
}
