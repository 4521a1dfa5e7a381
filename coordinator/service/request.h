/*
 * One request of one client: its message, what it uses, and its replies. Streaming replies
 * (PROGRESS, TOKENS, ROWS) run on credit: the client acknowledges them, and its session pauses
 * while too many are unacknowledged.
 */
#ifndef TERN_REQUEST_H
#define TERN_REQUEST_H

#include "coordinator/model/model.h"
#include "coordinator/schedule/chances.h"
#include "coordinator/service/outbox.h"
#include "coordinator/service/service.h"
#include "coordinator/service/stop.h"
#include "proto/message.h"

#include <zmq.h>

enum {
    /* Unacknowledged streaming replies of a request, at most 64: its session pauses at 32, progress
     * becomes rare at 48 (beside logits, which come many at a time, at 16). */
    TERN_CREDIT = 64,
    TERN_CREDIT_WORK = 32,
    TERN_CREDIT_PROGRESS = 48,
    TERN_CREDIT_PROGRESS_ROWS = 16,
    TERN_REQUESTS = 256,        /* in work at one time */
    TERN_CLIENT_REQUESTS = 192, /* of them, of one client: it cannot keep others out */
};
/* Bytes of all messages whose requests are in work. */
#define TERN_REQUEST_BYTES (256u << 20)
/* How long a client may take to acknowledge anything when its credit is used up. */
#define TERN_STARVED_NS (60ull * 1000 * 1000 * 1000)
/* How often a client that is behind is tried: what was sent to one that is gone comes back. */
#define TERN_PROBE_NS (4ull * 1000 * 1000 * 1000)
/* A request in work is never silent for longer than two of these. */
#define TERN_PULSE_NS (100ull * 1000 * 1000)

struct tern_service {
    struct tern_loop *loop;
    void *socket;
    uint64_t began_ns;
    int watch, pulse; /* pulse: timer, 0 while nothing is in work */
    struct tern_supervisor *supervisor;
    struct tern_scheduler *scheduler;
    struct tern_files *files;
    struct tern_models *models;
    struct tern_jobs *jobs;
    struct tern_outbox *outboxes;
    struct tern_request *requests; /* oldest first */
    uint32_t request_count;
    uint64_t request_bytes;
    bool advancing, again; /* see tern_service_advance */
};

/* What generating has to remember between tokens. */
struct tern_answer {
    struct tern_decoder decoder;
    struct tern_stops *stops;      /* NULL: none asked for */
    struct tern_sampling sampling; /* its bias list is the answer's own */
    uint32_t streamed;             /* ids of the session that were sent or belong to the prompt */
    uint32_t likeliest;            /* tokens whose chances are told beside the chosen one's */
    struct tern_chance *chances;   /* 1 + likeliest of each token that was not sent yet */
    size_t chance_count, chance_room;
    bool failed; /* no memory for chances */
};

/* Texts of a request, worked on by a thread: the request and what it uses stay meanwhile, whatever
 * becomes of it. The thread reads the message and the file, and writes what is below. */
struct tern_work {
    struct tern_job job;
    struct tern_request *request;
    bool busy, done; /* the loop's */
    enum tern_status status;
    struct tern_error error;   /* if status is not TERN_OK */
    struct tern_ids ids;       /* a prompt */
    struct tern_pack *replies; /* TOKENS to send */
    size_t count, sent;
};

struct tern_request {
    struct tern_request *next;
    struct tern_service *service;
    struct tern_client client;
    struct tern_outbox *outbox;
    zmq_msg_t bytes;
    struct tern_message message; /* points into bytes */
    uint64_t number;

    bool finished; /* the last reply was sent (or the client is gone) */
    bool gone;     /* the client is gone */
    bool over;     /* its session ended and the scheduler has let go of it */
    bool noticed;  /* the client knows what is odd: a short context, a special id */
    uint32_t unacknowledged;
    uint64_t sent_ns;    /* when the newest reply was sent */
    uint64_t starved_ns; /* since when the client is behind, 0: it is not */

    struct tern_options options; /* of requests that need a loaded model */
    struct tern_model_file *file;
    struct tern_model *model;
    struct tern_session *session;

    struct tern_work work;
    struct tern_answer answer; /* generate */
    uint8_t *rows;             /* logits: room for one reply's rows */
};

/* ---- replies ---- */

/* Starts a reply to this request. */
void tern_reply_begin(struct tern_pack *pack, enum tern_message_kind kind, uint64_t request);
/* Sends it and frees the pack. A client that cannot be reached makes the request `gone`. */
void tern_reply_send(struct tern_request *request, struct tern_pack *pack);
/* The same for a streaming reply, which uses credit. */
void tern_reply_stream(struct tern_request *request, struct tern_pack *pack);
/* Last replies: the request is finished afterwards. */
void tern_reply_last(struct tern_request *request, struct tern_pack *pack);
void tern_reply_error(struct tern_request *request, const struct tern_error *error);
void tern_reply_result(struct tern_request *request, const char *json, const char *text);
void tern_reply_done(struct tern_request *request, const char *reason);
/* Rare when the client is behind. */
void tern_reply_progress(struct tern_request *request, const char *text, uint64_t done,
                         uint64_t all);

/* A line that the person should see: a progress reply without units. */
void tern_reply_note(struct tern_request *request, const char *text);

/* `count` replies were taken. */
void tern_request_acknowledge(struct tern_request *request, uint64_t count);
/* Its session goes on if credit allows. */
void tern_request_resume(struct tern_request *request);
/* What the session may compute with the credit that is left. */
void tern_request_update_credit(struct tern_request *request);

/* The request ends with this error, and its session with it. */
void tern_request_give_up(struct tern_request *request, const struct tern_error *error);

/* ---- what each kind does; each returns when it has finished or must wait for a change ---- */

/* tokenize, detokenize, info, plan: the file is OPEN. */
void tern_request_tokenize(struct tern_request *request);
void tern_request_detokenize(struct tern_request *request);
void tern_request_info(struct tern_request *request);
void tern_request_plan(struct tern_request *request);
/* load, generate, logits: the model is READY. */
void tern_request_loaded(struct tern_request *request);
void tern_request_generate(struct tern_request *request);
void tern_request_logits(struct tern_request *request);
void tern_request_ps(struct tern_request *request);

/* Gives the request's texts to a thread; it goes on when work.done. */
void tern_work_start(struct tern_request *request, void (*run)(struct tern_job *job));
/* Nobody wants it any more: it is not begun, if it was not yet. */
void tern_work_drop(struct tern_request *request);
struct tern_work *tern_work_of(struct tern_job *job);
void tern_work_free(struct tern_work *work);
/* Does the message hold a prompt at all? TERN_USAGE. */
enum tern_status tern_prompt_check(const struct tern_request *request, struct tern_error *error);
/* Were the prompt's texts read? The model's file is OPEN; the model may still be loading. False:
 * not yet, or the request has ended with an error. */
bool tern_prompt_read(struct tern_request *request);
/* Is work.ids a prompt that fits the loaded model? False as above. */
bool tern_prompt_ready(struct tern_request *request);

/* Reads what the answer needs of the message, before anything is done for it: TERN_USAGE,
 * TERN_NO_MEMORY. */
enum tern_status tern_answer_begin(struct tern_request *request, struct tern_error *error);
/* Can the loaded model give such an answer? TERN_USAGE, TERN_UNSUPPORTED. */
enum tern_status tern_answer_check(const struct tern_request *request, struct tern_error *error);
/* An answer that continues a text, and is no turn of its own, keeps the space it may begin with. */
void tern_answer_follow(struct tern_request *request, const struct tern_ids *prompt);
/* Notes the chances of a token that was chosen from this row of logits. */
void tern_answer_chosen(struct tern_request *request, uint32_t token, const float *logits);
/* Sends what the session has found so far, as credit allows; ends the request with its session or
 * with a stop text. */
void tern_answer_flush(struct tern_request *request);
void tern_answer_free(struct tern_answer *answer);
/* How tokens are to be chosen: TERN_USAGE naming the setting. out->bias is malloc'ed, in all
 * cases the caller's to free. */
enum tern_status tern_sampling_read(const struct tern_message *message, struct tern_sampling *out,
                                    struct tern_error *error);
/* Are all biases of tokens that exist? TERN_USAGE. */
enum tern_status tern_sampling_check(const struct tern_sampling *sampling, uint32_t vocabulary,
                                     struct tern_error *error);
/* What a session is at, as a progress reply. */
void tern_generate_progress(struct tern_request *request);

/* Ids of the message's tokens field, checked: TERN_USAGE. *ids is malloc'ed. */
enum tern_status tern_request_tokens(const struct tern_request *request, uint32_t vocabulary,
                                     struct tern_ids *ids, struct tern_error *error);
/* The ids of a user's text in a chat, or of plain text; see the message's fields. */
enum tern_status tern_request_text(const struct tern_request *request,
                                   const struct tern_model_file *file, enum tern_field field,
                                   bool chat, struct tern_ids *ids, struct tern_error *error);

/* The ids of the message's conversation. TERN_USAGE, TERN_UNSUPPORTED. */
enum tern_status tern_request_conversation(const struct tern_request *request,
                                           const struct tern_model_file *file, struct tern_ids *ids,
                                           struct tern_error *error);

/* ---- json, malloc'ed or NULL ---- */

char *tern_describe_service(const struct tern_service *service);
/* metadata: with all keys and values too (long ones cut). */
char *tern_describe_file(const struct tern_model_file *file, const struct tern_models *models,
                         bool metadata);
char *tern_describe_model(const struct tern_model *model);

/* ---- the service's own ---- */

/* Takes one message from the socket; false when there is none. Finished requests stay until
 * tern_service_advance. */
bool tern_service_receive(struct tern_service *service);

/* Brings every request as far as it can go now, then frees the finished ones. */
void tern_service_advance(struct tern_service *service);

#endif
