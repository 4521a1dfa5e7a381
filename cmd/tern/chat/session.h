/* A conversation with a model: its messages, and turns asked of the service. */
#ifndef TERN_CMD_CHAT_SESSION_H
#define TERN_CMD_CHAT_SESSION_H

#include "cmd/tern/answer.h"
#include "cmd/tern/client.h"
#include "cmd/tern/request.h"
#include "cmd/tern/sampling.h"
#include "cmd/tern/screen.h"

struct chat {
    struct client client;
    const char *path; /* of the model */
    struct model_options model;
    struct sampling_options sampling;
    bool stats, json;
    const char *system; /* --system */

    json_t *messages; /* a transcript (chat/transcript.h), and the pending turn's message */

    struct screen screen; /* of the answer that comes */
    struct collected answer;
    size_t shown;   /* bytes of the answer that were printed */
    bool unwritten; /* standard output takes no more */
    bool done;      /* DONE came, and told: */
    struct answer_figures figures;
    uint64_t turn_seed;
};

/* Starts an empty conversation with --system. TERN_NO_MEMORY. */
enum tern_status chat_start(struct chat *chat, struct tern_error *error);
void chat_free(struct chat *chat);

/* Sets or, with "", removes the system message. The rest of the conversation stays. */
enum tern_status chat_set_system(struct chat *chat, const char *text, struct tern_error *error);
/* Forgets all messages but the system's. */
void chat_reset(struct chat *chat);

/*
 * One turn: asks with the whole conversation and `text` (valid UTF-8 without NUL), prints the
 * answer as it comes and keeps it. The service is started again if it died, and the turn repeated;
 * what was printed already is not printed twice. Ctrl-C ends the answer: what came is kept, and
 * TERN_INTERRUPTED is returned. After any other failure the conversation is as it was before.
 */
enum tern_status chat_turn(struct chat *chat, const char *text, struct tern_error *error);

#endif
