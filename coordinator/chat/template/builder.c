/* Texts made and written. */
#include "coordinator/chat/template/text.h"

#include <string.h>

enum { LONG = 1024 /* bytes of a text that is better not copied */ };

static struct text *new_text(struct work *w, const char *bytes, const uint8_t *marks, size_t length)
{
    struct text *text = work_take(w, sizeof *text);
    *text = (struct text){.bytes = bytes, .marks = marks, .length = length};
    return text;
}

const struct text *text_borrow(struct work *w, const char *bytes, size_t length)
{
    return new_text(w, bytes, NULL, length);
}

const struct text *text_of(struct work *w, const char *literal)
{
    return new_text(w, literal, NULL, strlen(literal));
}

const struct text *text_from_input(struct work *w, const char *bytes, size_t length)
{
    struct builder b = {0};
    builder_bytes(w, &b, bytes, length, true);
    return builder_text(w, &b);
}

const struct text *text_slice(struct work *w, const struct text *text, size_t from, size_t to)
{
    if (from >= to)
        return new_text(w, "", NULL, 0);
    if (from == 0 && to == text->length)
        return text;
    struct text *slice = work_take(w, sizeof *slice);
    *slice = (struct text){.bytes = text->bytes + from,
                           .marks = text->marks == NULL ? NULL : text->marks + from,
                           .length = to - from,
                           .tail = text->tail,
                           .safe = text->safe};
    return slice;
}

const struct text *text_with_safe(struct work *w, const struct text *text, bool safe)
{
    if (text->safe == safe)
        return text;
    struct text *copy = work_take(w, sizeof *copy);
    *copy = *text;
    copy->safe = safe;
    return copy;
}

/* Room for so many bytes more. */
static void make_room(struct work *w, struct builder *b, size_t more)
{
    if (more > w->output_limit - b->length)
        work_fail(w, TERN_BAD_MODEL, "the template writes more than %zu bytes; use --raw",
                  w->output_limit);
    work_spend_bytes(w, more);
    if (more <= b->room - b->length)
        return;
    const size_t room = 2 * (b->length + more) + 32;
    char *bytes = work_take(w, room);
    if (b->length > 0)
        memcpy(bytes, b->bytes, b->length);
    if (b->marks != NULL) {
        uint8_t *marks = work_take(w, room);
        memcpy(marks, b->marks, b->length);
        b->marks = marks;
    }
    work_spend_bytes(w, b->length);
    b->bytes = bytes;
    b->room = room;
}

/* Goes on after the text, if nobody has yet. */
static bool take_tail(struct builder *b, const struct text *text)
{
    struct text_tail *const tail = text->tail;
    if (b->bytes != NULL || tail == NULL || tail->at != text->bytes + text->length)
        return false;
    *b = (struct builder){
        .bytes = tail->at - text->length,
        .marks = tail->marks == NULL ? NULL : tail->marks - text->length,
        .length = text->length,
        .room = text->length + tail->room,
        .tail = tail,
    };
    tail->at = NULL;
    return true;
}

void builder_bytes(struct work *w, struct builder *b, const char *bytes, size_t length, bool mark)
{
    if (length == 0)
        return;
    make_room(w, b, length);
    memcpy(b->bytes + b->length, bytes, length);
    if (mark && b->marks == NULL)
        b->marks = work_take(w, b->room);
    if (b->marks != NULL)
        memset(b->marks + b->length, mark, length);
    b->length += length;
}

void builder_add(struct work *w, struct builder *b, const struct text *text)
{
    if (take_tail(b, text))
        return;
    builder_bytes(w, b, text->bytes, text->length, text->marks != NULL);
    if (text->marks != NULL && text->length > 0)
        memcpy(b->marks + b->length - text->length, text->marks, text->length);
}

void builder_literal(struct work *w, struct builder *b, const char *literal)
{
    builder_bytes(w, b, literal, strlen(literal), false);
}

void builder_point(struct work *w, struct builder *b, uint32_t point, bool mark)
{
    char bytes[4];
    size_t length = 0;
    if (point < 0x80) {
        bytes[length++] = (char)point;
    } else if (point < 0x800) {
        bytes[length++] = (char)(0xc0 | point >> 6);
        bytes[length++] = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        bytes[length++] = (char)(0xe0 | point >> 12);
        bytes[length++] = (char)(0x80 | (point >> 6 & 0x3f));
        bytes[length++] = (char)(0x80 | (point & 0x3f));
    } else {
        bytes[length++] = (char)(0xf0 | point >> 18);
        bytes[length++] = (char)(0x80 | (point >> 12 & 0x3f));
        bytes[length++] = (char)(0x80 | (point >> 6 & 0x3f));
        bytes[length++] = (char)(0x80 | (point & 0x3f));
    }
    builder_bytes(w, b, bytes, length, mark);
}

void builder_repeat(struct work *w, struct builder *b, const char *literal, size_t times)
{
    const size_t length = strlen(literal);
    if (length > 0 && times > w->output_limit / length)
        work_fail(w, TERN_BAD_MODEL, "the template writes more than %zu bytes; use --raw",
                  w->output_limit);
    for (size_t i = 0; i < times; i++)
        builder_bytes(w, b, literal, length, false);
}

void builder_mark(struct work *w, struct builder *b, size_t from)
{
    if (b->length == from)
        return;
    if (b->marks == NULL)
        b->marks = work_take(w, b->room);
    memset(b->marks + from, 1, b->length - from);
}

const struct text *builder_text(struct work *w, const struct builder *b)
{
    struct text *text = new_text(w, b->bytes == NULL ? "" : b->bytes, b->marks, b->length);
    if (b->length < LONG)
        return text;
    text->tail = b->tail != NULL ? b->tail : work_take(w, sizeof *text->tail);
    *text->tail = (struct text_tail){.at = b->bytes + b->length,
                                     .marks = b->marks == NULL ? NULL : b->marks + b->length,
                                     .room = b->room - b->length};
    return text;
}
