/*
 * A session: one sequence of tokens that a model computes for one request, and where it stands.
 *
 * ids[0 .. count) are the tokens so far, prompt first. The cache holds positions [0, computed), so
 * what remains to be computed is ids[computed .. count): many rows of a prompt, or the one row of
 * the newest token. The two are the same to the scheduler, and a session that lost its pages is
 * simply one with computed = 0 (by NUMERICS its second computing gives the same bits).
 *
 * The owner (a request) makes a session, gives it to the scheduler, and learns through the two
 * events. Between these, only the scheduler changes it.
 */
#ifndef TERN_SESSION_H
#define TERN_SESSION_H

#include "coordinator/schedule/sample.h"
#include "proto/board.h"
#include "proto/status.h"

struct tern_lane;
struct tern_session;

struct tern_session_events {
    void *context;
    /* There are more ids, or the session ended (session->ended). The owner may free an ended
     * session here. */
    void (*changed)(void *context);
    /* Logits of `rows` positions from `first` on, of a session with every_row; valid during the
     * call, which must not call the scheduler (`changed` follows). Row i starts at logits + i *
     * stride bytes. */
    void (*rows)(void *context, uint32_t first, uint32_t rows, const uint8_t *logits,
                 uint32_t stride);
    /* A token of the answer was chosen from this row of logits, of a session with every_choice;
     * valid during the call, which must not call the scheduler (`changed` follows). */
    void (*chosen)(void *context, uint32_t token, const float *logits);
};

/* What is asked for. */
struct tern_session_wish {
    const uint32_t *ids; /* the prompt, copied; count >= 1, at most the lane's context */
    uint32_t count;
    uint64_t client;               /* who asks: sessions of different clients take turns */
    uint32_t most;                 /* tokens to generate at most; more than fits is cut */
    bool every_row;                /* logits of every position; nothing is generated */
    bool ignore_ends;              /* an end token is a token like others */
    bool every_choice;             /* `chosen` is told of every token */
    struct tern_sampling sampling; /* its bias list is copied */
};

struct tern_session_times {
    uint64_t began_ns;  /* its first row was issued */
    uint64_t first_ns;  /* its prompt was done: the first token was chosen */
    uint64_t last_ns;   /* its newest token was chosen */
    uint64_t worker_ns; /* the worker's time in the steps after the prompt's */
};

struct tern_session {
    struct tern_session *next; /* in the lane, in the order in which they are served */
    struct tern_lane *lane;    /* NULL: not with the scheduler (any more) */
    struct tern_session_events events;

    uint64_t client;
    uint32_t *ids;
    uint32_t count, prompt, limit; /* limit: at `count` ids it ends with reason "length" */
    bool every_row, ignore_ends, every_choice;
    struct tern_sampling sampling;

    uint32_t computed;
    uint32_t reused;  /* of the prompt, found computed when it first began */
    uint32_t pages;   /* entries of its page table that hold pages */
    int sequence;     /* its page table, -1: none */
    uint32_t credit;  /* rows that the owner can take now (0: paused); kept by the owner */
    uint32_t rows;    /* its rows in the step in flight, 0: none */
    bool cancelled;   /* ends when its step is done */
    uint32_t suspect; /* its rows in a step that killed the worker twice: runs alone; 0: none */
    uint32_t faults, kills; /* deaths of its present step while it was alone in it */

    bool ended, changed;
    const char *reason;      /* "stop", "length", "cancelled"; NULL after an error */
    struct tern_error error; /* status other than TERN_OK: failed */
    struct tern_session_times times;
};

/* NULL: out of memory. */
struct tern_session *tern_session_new(const struct tern_session_wish *wish, uint32_t context,
                                      const struct tern_session_events *events);
/* The session must have ended or never have been with the scheduler. NULL is allowed. */
void tern_session_free(struct tern_session *session);

/* Does the worker choose the session's tokens? */
static inline bool tern_session_argmax(const struct tern_session *session)
{
    return tern_sampling_is_argmax(&session->sampling) && !session->every_choice;
}

/* Rows that remain to be computed. */
static inline uint32_t tern_session_pending(const struct tern_session *session)
{
    return session->count - session->computed;
}

/* Can the session's next rows be computed now, as far as its owner is concerned? */
static inline bool tern_session_runnable(const struct tern_session *session)
{
    return session->credit > 0 && !session->cancelled && tern_session_pending(session) > 0;
}

/* Is its prompt computed but for the last row, so that its client waits for a token? */
static inline bool tern_session_awaits_token(const struct tern_session *session)
{
    return session->computed + 1 >= session->prompt && !session->every_row;
}

#endif
