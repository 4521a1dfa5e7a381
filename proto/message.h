/*
 * Messages: msgpack maps with string keys, one schema for all of Tern's processes and clients. A
 * message is {"v": version, "k": kind, field: value, ...}. Every field has a type and a limit; a
 * message with an unknown key, a wrong type or a value over the limit is refused as a whole.
 * The same bytes travel over ZeroMQ (clients, compute workers) and over the channel (loader).
 */
#ifndef TERN_PROTO_MESSAGE_H
#define TERN_PROTO_MESSAGE_H

#include "proto/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TERN_PROTOCOL_VERSION = 1, TERN_MESSAGE_MAX = 32 << 20 };

/* X(ENUM, "wire name") */
#define TERN_MESSAGE_KINDS(X)                                                                      \
    /* client -> coordinator; every one carries `request`, chosen by the client */                 \
    X(PING, "ping")             /* -> RESULT: is the service alive, its version */                 \
    X(LOAD, "load")             /* model + options -> PROGRESS*, RESULT */                         \
    X(UNLOAD, "unload")         /* model -> RESULT */                                              \
    X(PS, "ps")                 /* -> RESULT: json */                                              \
    X(GENERATE, "generate")     /* model + options + a prompt (prompt and system, messages, or     \
                                   tokens) -> PROGRESS*, TOKENS*, DONE */                          \
    X(LOGITS, "logits")         /* model + options + a prompt -> PROGRESS*, ROWS*, DONE */         \
    X(TOKENIZE, "tokenize")     /* model + text or bytes -> PROGRESS*, TOKENS*, DONE */            \
    X(DETOKENIZE, "detokenize") /* model + tokens -> PROGRESS*, bytes in TOKENS*, DONE */          \
    X(INFO, "info")             /* model + format -> RESULT: json */                               \
    X(PLAN, "plan")             /* model + options + format -> RESULT: json or text */             \
    X(CANCEL, "cancel")         /* ends `request`: DONE with reason "cancelled" */                 \
    X(ACK, "ack")               /* `count` replies of `request` were taken */                      \
    X(STOP, "stop")             /* -> RESULT, then the service ends */                             \
    /* coordinator -> client */                                                                    \
    X(PROGRESS, "progress") /* what happens now: text, done_units of all_units */                  \
    X(TOKENS, "tokens")     /* tokens and/or text of the answer */                                 \
    X(ROWS, "rows")         /* float32 rows of logits in data, first row number in count */        \
    X(RESULT, "result")     /* the whole answer: json and/or text */                               \
    X(DONE, "done")         /* end of a streamed answer: reason and figures */                     \
    X(ERROR, "error")       /* status, text */                                                     \
    /* compute worker <-> coordinator */                                                           \
    X(HELLO, "hello")       /* worker: incarnation, secret, pid */                                 \
    X(BIND, "bind")         /* coordinator: plan, segment ids, tier, threads */                    \
    X(BOUND, "bound")       /* worker: plan is ready */                                            \
    X(RELEASE, "release")   /* coordinator: plan is gone; unmap */                                 \
    X(RELEASED, "released") /* worker */                                                           \
    X(QUIT, "quit")         /* coordinator: end */                                                 \
    X(FAULT, "fault")       /* worker: status, text about `plan` */                                \
    /* loader <-> coordinator, over the channel */                                                 \
    X(CATALOG, "catalog") /* loader: the catalog segment is filled */                              \
    X(FILL, "fill")       /* coordinator: the weights segment was sent; read the tensors */        \
    X(FILLED, "filled")   /* loader: all tensors are in place */

/* X(ENUM, "wire name", type, limit): limit = largest value (U64) or bytes (STR, BIN). STR is valid
 * UTF-8 without NUL. BIN of tokens is u32 little-endian. */
#define TERN_MESSAGE_FIELDS(X)                                                                     \
    X(REQUEST, "request", U64, UINT64_MAX)                                                         \
    X(MODEL, "model", STR, 4096)    /* absolute path */                                            \
    X(THREADS, "threads", U64, 512) /* 0 = default, as for all options */                          \
    X(TIER, "tier", STR, 16)                                                                       \
    X(BATCH, "batch", U64, 1024)                                                                   \
    X(PRECISION, "precision", STR, 8) /* "fast", "high" */                                         \
    X(KV, "kv", STR, 8)               /* "f16", "f32" */                                           \
    X(CTX, "ctx", U64, UINT64_MAX)                                                                 \
    X(UNFUSED, "unfused", BOOL, 0)                                                                 \
    X(PIN, "pin", BOOL, 0) /* LOAD: keep until UNLOAD */                                           \
    X(PROMPT, "prompt", STR, TERN_MESSAGE_MAX)                                                     \
    X(SYSTEM, "system", STR, 1 << 20)                                                              \
    X(MESSAGES, "messages", STR, TERN_MESSAGE_MAX) /* in place of prompt and system: JSON list of  \
                                                      {"role": ..., "content": ...} */             \
    X(TOKENS, "tokens", BIN, TERN_MESSAGE_MAX)                                                     \
    X(RAW, "raw", BOOL, 0)               /* no chat template */                                    \
    X(CHAT, "chat", BOOL, 0)             /* TOKENIZE: text is the user's message of a chat */      \
    X(NO_SPECIAL, "no_special", BOOL, 0) /* add no BOS/EOS */                                      \
    X(NO_PARSE_SPECIAL, "no_parse_special", BOOL, 0) /* special tokens in text are text */         \
    X(N, "n", U64, 1 << 20) /* tokens to generate; absent = until the end */                       \
    X(TEMP, "temp", F64, 0)                                                                        \
    X(PIECES, "pieces", BIN, TERN_MESSAGE_MAX) /* TOKENS: for each pair of chances its token's     \
                                                  text: u32 bytes, then these */                   \
    X(SEED, "seed", U64, UINT64_MAX)                                                               \
    X(TOP_K, "top_k", U64, UINT32_MAX)          /* 0: no cut */                                    \
    X(TOP_P, "top_p", F64, 0)                   /* 1: no cut */                                    \
    X(MIN_P, "min_p", F64, 0)                   /* 0: no cut */                                    \
    X(REPEAT_PENALTY, "repeat_penalty", F64, 0) /* 1: none */                                      \
    X(BIAS, "bias", BIN, 1 << 20)    /* pairs (u32 id, f32 added to its logit), little-endian */   \
    X(STOP, "stop", BIN, 1 << 18)    /* texts that end the answer, each followed by a NUL */       \
    X(LOGPROBS, "logprobs", U64, 20) /* GENERATE: likeliest tokens to tell beside the chosen */    \
    X(CHANCES, "chances", BIN, TERN_MESSAGE_MAX) /* TOKENS: for each token 1 + logprobs pairs      \
                                                    (u32 id, f32 log-probability), it first */     \
    X(IGNORE_EOS, "ignore_eos", BOOL, 0)                                                           \
    X(FORMAT, "format", STR, 16) /* PLAN: "json", "table", "dot", "svg"; INFO: "metadata" */       \
    X(COUNT, "count", U64, UINT64_MAX)                                                             \
    X(TEXT, "text", STR, TERN_MESSAGE_MAX)                                                         \
    X(BYTES, "bytes", BIN, TERN_MESSAGE_MAX) /* text that may end inside a character */            \
    X(JSON, "json", STR, TERN_MESSAGE_MAX)                                                         \
    X(DATA, "data", BIN, TERN_MESSAGE_MAX)                                                         \
    X(DONE_UNITS, "done_units", U64, UINT64_MAX)                                                   \
    X(ALL_UNITS, "all_units", U64, UINT64_MAX)                                                     \
    X(REASON, "reason", STR, 16) /* "stop", "length", "cancelled" */                               \
    X(PROMPT_TOKENS, "prompt_tokens", U64, UINT64_MAX)                                             \
    X(REUSED, "reused", U64, UINT64_MAX) /* of prompt_tokens, computed by an earlier request */    \
    X(PROMPT_NS, "prompt_ns", U64, UINT64_MAX)                                                     \
    X(DECODE_NS, "decode_ns", U64, UINT64_MAX)                                                     \
    X(WORKER_NS, "worker_ns", U64, UINT64_MAX) /* of decode_ns, inside the worker's steps */       \
    X(STATUS, "status", U64, 255)                                                                  \
    X(INCARNATION, "incarnation", U64, 65535)                                                      \
    X(SECRET, "secret", BIN, 16)                                                                   \
    X(PID, "pid", U64, UINT32_MAX)                                                                 \
    X(PLAN, "plan", U64, UINT32_MAX)                                                               \
    X(SEG_PLAN, "seg_plan", U64, UINT64_MAX)                                                       \
    X(SEG_WEIGHTS, "seg_weights", U64, UINT64_MAX)                                                 \
    X(SEG_KV, "seg_kv", U64, UINT64_MAX)                                                           \
    X(SEG_ACTIVATIONS, "seg_activations", U64, UINT64_MAX)                                         \
    X(SEG_TABLES, "seg_tables", U64, UINT64_MAX)                                                   \
    X(DROP_CACHE, "drop_cache", BOOL, 0) /* FILL: leave nothing in the page cache */

enum tern_message_kind {
#define X(name, wire) TERN_MSG_##name,
    TERN_MESSAGE_KINDS(X)
#undef X
        TERN_MSG_KINDS
};

enum tern_field {
#define X(name, wire, type, limit) TERN_F_##name,
    TERN_MESSAGE_FIELDS(X)
#undef X
        TERN_FIELDS
};

/* ---- reading ---- */

/* A parsed message; strings and binaries point into the parsed buffer. */
struct tern_message {
    enum tern_message_kind kind;
    uint64_t present[(TERN_FIELDS + 63) / 64];
    union {
        uint64_t u64;
        double f64;
        bool boolean;
        struct {
            const char *bytes; /* STR: not NUL-terminated */
            size_t length;
        } text;
    } value[TERN_FIELDS];
};

/* TERN_USAGE with a message that names the field when anything is off. Never reads past `size`, no
 * recursion. `buffer` must outlive *message. */
enum tern_status tern_message_parse(const void *buffer, size_t size, struct tern_message *message,
                                    struct tern_error *error);

bool tern_message_has(const struct tern_message *message, enum tern_field field);
uint64_t tern_message_u64(const struct tern_message *message, enum tern_field field,
                          uint64_t otherwise);
double tern_message_f64(const struct tern_message *message, enum tern_field field,
                        double otherwise);
bool tern_message_bool(const struct tern_message *message,
                       enum tern_field field); /* absent: false */
/* NULL and length 0 if absent. */
const char *tern_message_text(const struct tern_message *message, enum tern_field field,
                              size_t *length);
/* A malloc'ed NUL-terminated copy, or NULL if absent or out of memory. The caller frees it. */
char *tern_message_copy(const struct tern_message *message, enum tern_field field);

const char *tern_message_name(enum tern_message_kind kind);

/* ---- writing ---- */

/* A message being written; grows by itself, remembers failure. Start with tern_pack_begin. */
struct tern_pack {
    struct msgpack_sbuffer *buffer;
    unsigned fields;
    bool failed;
};

void tern_pack_begin(struct tern_pack *pack, enum tern_message_kind kind);
void tern_pack_u64(struct tern_pack *pack, enum tern_field field, uint64_t value);
void tern_pack_f64(struct tern_pack *pack, enum tern_field field, double value);
void tern_pack_bool(struct tern_pack *pack, enum tern_field field, bool value);
void tern_pack_text(struct tern_pack *pack, enum tern_field field, const char *text);
void tern_pack_bytes(struct tern_pack *pack, enum tern_field field, const void *bytes,
                     size_t length); /* STR and BIN fields */
/* The finished bytes (valid until tern_pack_free), or NULL after a failure. */
const void *tern_pack_end(struct tern_pack *pack, size_t *size);
void tern_pack_free(struct tern_pack *pack);

#endif
