/*
 * What a chat template writes, read off its text. A template is a program, and running it is not
 * done here: its text is brought to one spelling and searched for the phrases that the known forms
 * are made of. A phrase that would change the outcome of a plain chat and is not understood makes
 * the template unknown.
 */
#ifndef TERN_CHAT_STYLE_H
#define TERN_CHAT_STYLE_H

#include "coordinator/chat/chat.h"

enum chat_system {
    CHAT_SYSTEM_TURN,    /* a turn like any other */
    CHAT_SYSTEM_PREFIX,  /* put before the first user's text, with a blank line between */
    CHAT_SYSTEM_REFUSED, /* the template raises an error */
};

struct chat_style {
    enum tern_chat_form form;
    enum chat_system system;
    bool bos;       /* the prompt begins with BOS */
    bool trim;      /* white space around texts is dropped */
    bool alternate; /* roles must be user, assistant, user, ... */
    bool thinking;  /* ChatML: thoughts are dropped from answers before the last question */
    bool dated;     /* Llama 3: the system turn is always there and holds dates */
    bool today;     /* Llama 3: the date of today, not the template's */
    char *standard; /* ChatML: system message if none is given, or NULL */
};

/* TERN_UNSUPPORTED if the template is of no known form. */
enum tern_status chat_style_read(struct tern_string template_text, struct chat_style *out,
                                 struct tern_error *error);
void chat_style_free(struct chat_style *style);

/* The prompt as pieces: what the style writes parses special tokens, what the messages hold does
 * not. */
struct chat_pieces {
    struct tern_text *piece;
    size_t count, room;
    char *date; /* text that pieces point to */
};

/* `bos` is the text of the BOS token. `seconds` is the time now. Pieces borrow from all arguments.
 * TERN_USAGE: roles or their order that the template refuses. */
enum tern_status chat_render(const struct chat_style *style, struct tern_string bos,
                             const struct tern_chat_message *messages, size_t count,
                             long long seconds, struct chat_pieces *out, struct tern_error *error);
void chat_pieces_free(struct chat_pieces *pieces);

#endif
