/*
 * Text to ids. The pieces are joined, added tokens are cut out, the plain stretches between them
 * are normalized into one text, and that is encoded.
 */
#include "coordinator/tokenizer/internal.h"
#include "coordinator/tokenizer/normalize.h"
#include "coordinator/tokenizer/unicode.h"
#include "proto/utf8.h"
#include <stdlib.h>
#include <string.h>

/* More than any context holds. A single word of this length takes seconds and half a gigabyte
 * to merge; texts of many words take a second per 50 MB. */
enum { LONGEST_TEXT = 8 << 20 };

/* A plain stretch of the normalized text, or an added token. */
struct part {
    uint32_t start, end;
    uint32_t id; /* TOKEN_NONE: plain */
};

struct parts {
    const struct tern_tokenizer *tokenizer;
    struct text_buffer text; /* all plain stretches, normalized */
    struct part *part;
    size_t count, room;
};

void tern_ids_free(struct tern_ids *ids)
{
    free(ids->id);
    *ids = (struct tern_ids){0};
}

static enum tern_status join(const struct tern_text *pieces, size_t count, struct text_buffer *text,
                             struct tern_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].length > LONGEST_TEXT - text->length)
            return tern_fail(error, TERN_USAGE, "the text is longer than %d MiB; use a shorter one",
                             LONGEST_TEXT >> 20);
        const enum tern_status status = text_append(text, pieces[i].bytes, pieces[i].length, error);
        if (status != TERN_OK)
            return status;
    }
    if (text->length > 0 && !tern_utf8_valid(text->bytes, text->length))
        return tern_fail(error, TERN_USAGE, "the text is not valid UTF-8");
    return TERN_OK;
}

static enum tern_status add_part(struct parts *parts, struct part part, struct tern_error *error)
{
    if (parts->count == parts->room) {
        const size_t room = 2 * parts->room + 16;
        struct part *grown = realloc(parts->part, room * sizeof *grown);
        if (grown == NULL)
            return tern_fail(error, TERN_NO_MEMORY, "no memory for %zu parts of a text", room);
        parts->part = grown;
        parts->room = room;
    }
    parts->part[parts->count++] = part;
    return TERN_OK;
}

/* Spaces and literal U+2581 are one character to SentencePiece, a space here. */
static enum tern_status append_spaced(struct text_buffer *buffer, const char *text, size_t length,
                                      struct tern_error *error)
{
    static const char mark[] = "\xe2\x96\x81";
    while (length > 0) {
        const char *found = memmem(text, length, mark, 3);
        const size_t before = found == NULL ? length : (size_t)(found - text);
        enum tern_status status = text_append(buffer, text, before, error);
        if (status == TERN_OK && found != NULL)
            status = text_append(buffer, " ", 1, error);
        if (status != TERN_OK || found == NULL)
            return status;
        text += before + 3;
        length -= before + 3;
    }
    return TERN_OK;
}

static enum tern_status add_plain(struct parts *parts, const char *text, size_t length,
                                  struct tern_error *error)
{
    if (length == 0)
        return TERN_OK;
    const struct tern_tokenizer *const t = parts->tokenizer;
    const size_t start = parts->text.length;
    enum tern_status status = TERN_OK;
    if (t->space_prefix)
        status = text_append(&parts->text, " ", 1, error);
    if (status == TERN_OK)
        status = t->sentencepiece != NULL ? append_spaced(&parts->text, text, length, error)
                 : t->nfc                 ? text_append_nfc(&parts->text, text, length, error)
                                          : text_append(&parts->text, text, length, error);
    if (status != TERN_OK)
        return status;
    return add_part(parts, (struct part){(uint32_t)start, (uint32_t)parts->text.length, TOKEN_NONE},
                    error);
}

static bool parses_special(const struct tern_text *piece)
{
    return piece->parse_special;
}

static bool parses_markup(const struct tern_text *piece)
{
    return !piece->users;
}

/* Where the run of pieces that parse tokens of a kind ends, for the piece that holds a position. */
struct special_run {
    bool (*parses)(const struct tern_text *piece);
    const struct tern_text *piece;
    size_t count, next; /* next piece to look at */
    size_t piece_end;   /* end of the pieces looked at */
    size_t run_end;     /* end of the run; 0 if this piece parses none */
};

static size_t run_length(struct special_run *run, size_t at)
{
    while (at >= run->piece_end && run->next < run->count) {
        const bool parses = run->parses(&run->piece[run->next]);
        run->piece_end += run->piece[run->next++].length;
        if (parses && run->run_end < run->piece_end) {
            run->run_end = run->piece_end;
            for (size_t i = run->next; i < run->count && run->parses(&run->piece[i]); i++)
                run->run_end += run->piece[i].length;
        }
    }
    return run->run_end > at ? run->run_end - at : 0;
}

static bool is_white_space(uint32_t point)
{
    return (point >= 9 && point <= 13) || point == ' ' || point == 0x85 || point == 0xa0 ||
           point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
           point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

static size_t skip_white_space(const char *text, size_t length, size_t at)
{
    unsigned bytes;
    while (at < length && is_white_space(unicode_point(text + at, &bytes)))
        at += bytes;
    return at;
}

static enum tern_status cut_parts(const struct tern_text *pieces, size_t count, const char *text,
                                  size_t length, struct parts *parts, struct tern_error *error)
{
    const struct added *const added = &parts->tokenizer->added;
    struct special_run special = {.parses = parses_special, .piece = pieces, .count = count};
    struct special_run markup = {.parses = parses_markup, .piece = pieces, .count = count};
    size_t plain = 0;
    for (size_t at = 0; at < length;) {
        const unsigned char byte = (unsigned char)text[at];
        const struct added_token *token = NULL;
        if (added->first[byte] != added->first[byte + 1])
            token = added_match(added, text + at,
                                &(struct added_limits){.control = run_length(&special, at),
                                                       .markup = run_length(&markup, at),
                                                       .other = length - at});
        if (token == NULL) {
            at++;
            continue;
        }
        enum tern_status status = add_plain(parts, text + plain, at - plain, error);
        if (status == TERN_OK)
            status = add_part(parts, (struct part){.id = token->id}, error);
        if (status != TERN_OK)
            return status;
        at += token->length;
        if (token->strips)
            at = skip_white_space(text, length, at);
        plain = at;
    }
    return plain < length ? add_plain(parts, text + plain, length - plain, error) : TERN_OK;
}

/* SentencePiece gives one unknown token for a run of unknown characters; there are such only where
 * some byte has no token. */
static void join_unknown(const struct vocabulary *v, struct tern_ids *ids)
{
    bool complete = true;
    for (size_t i = 0; i < 256; i++)
        complete = complete && v->byte[i] != TOKEN_NONE;
    if (complete || v->form != VOCABULARY_SENTENCEPIECE)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < ids->count; i++)
        if (kept == 0 || ids->id[i] != v->unknown || ids->id[kept - 1] != v->unknown)
            ids->id[kept++] = ids->id[i];
    ids->count = kept;
}

static enum tern_status encode_parts(const struct parts *parts, bool add_special,
                                     struct tern_ids *out, struct tern_error *error)
{
    const struct tern_tokenizer *const t = parts->tokenizer;
    struct encoding encoding = {
        .encoder = &t->encoder, .text = parts->text.bytes, .length = parts->text.length};
    struct tern_ids *const ids = &encoding.ids;
    /* No token stands for less than a byte. */
    ids->id = malloc((parts->text.length + parts->count + 2) * sizeof *ids->id);
    if (ids->id == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "no memory for the ids of %zu bytes",
                         parts->text.length);
    enum tern_status status = TERN_OK;
    if (add_special && t->add_bos && t->vocabulary.bos >= 0)
        ids->id[ids->count++] = (uint32_t)t->vocabulary.bos;
    for (size_t i = 0; status == TERN_OK && i < parts->count; i++) {
        const struct part *part = &parts->part[i];
        if (part->id != TOKEN_NONE)
            ids->id[ids->count++] = part->id;
        else
            status = encode(&encoding, part->start, part->end, error);
    }
    join_unknown(&t->vocabulary, ids);
    if (add_special && t->add_eos && t->vocabulary.eos >= 0)
        ids->id[ids->count++] = (uint32_t)t->vocabulary.eos;
    encoding_free(&encoding);
    if (status != TERN_OK) {
        tern_ids_free(ids);
        return status;
    }
    uint32_t *fitting = realloc(ids->id, (ids->count + 1) * sizeof *fitting);
    *out = (struct tern_ids){.id = fitting == NULL ? ids->id : fitting, .count = ids->count};
    return TERN_OK;
}

enum tern_status tern_tokenize(const struct tern_tokenizer *tokenizer,
                               const struct tern_text *pieces, size_t count, bool add_special,
                               struct tern_ids *out, struct tern_error *error)
{
    *out = (struct tern_ids){0};
    struct text_buffer text = {0};
    struct parts parts = {.tokenizer = tokenizer};
    enum tern_status status = join(pieces, count, &text, error);
    if (status == TERN_OK)
        status = cut_parts(pieces, count, text.bytes, text.length, &parts, error);
    if (status == TERN_OK)
        status = encode_parts(&parts, add_special, out, error);
    free(text.bytes);
    free(parts.text.bytes);
    free(parts.part);
    return status;
}
