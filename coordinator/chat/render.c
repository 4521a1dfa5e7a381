/* Writes the prompt that a style's template would. */
#include "coordinator/chat/style.h"
#include "coordinator/tokenizer/unicode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct writer {
    const struct chat_style *style;
    struct chat_pieces *pieces;
    bool failed; /* no memory */
};

static void put(struct writer *w, const char *bytes, size_t length, bool special)
{
    struct chat_pieces *const p = w->pieces;
    if (w->failed || length == 0)
        return;
    if (p->count == p->room) {
        const size_t room = 2 * p->room + 32;
        struct tern_text *grown = realloc(p->piece, room * sizeof *grown);
        w->failed = grown == NULL;
        if (w->failed)
            return;
        p->piece = grown;
        p->room = room;
    }
    p->piece[p->count++] =
        (struct tern_text){.bytes = bytes, .length = length, .parse_special = special};
}

static void put_own(struct writer *w, const char *text)
{
    put(w, text, strlen(text), true);
}

static void put_text(struct writer *w, struct tern_string text)
{
    put(w, text.bytes, text.length, false);
}

static struct tern_string string_of(const char *text)
{
    return (struct tern_string){text, strlen(text)};
}

/* What Python's str.strip takes for white space. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static struct tern_string trim(struct tern_string text)
{
    unsigned bytes;
    while (text.length > 0 && is_space(unicode_point(text.bytes, &bytes))) {
        text.bytes += bytes;
        text.length -= bytes;
    }
    while (text.length > 0) {
        size_t start = text.length - 1;
        while (start > 0 && ((unsigned char)text.bytes[start] & 0xc0) == 0x80)
            start--;
        if (!is_space(unicode_point(text.bytes + start, &bytes)))
            break;
        text.length = start;
    }
    return text;
}

static struct tern_string trim_lines(struct tern_string text, bool left, bool right)
{
    while (left && text.length > 0 && text.bytes[0] == '\n') {
        text.bytes++;
        text.length--;
    }
    while (right && text.length > 0 && text.bytes[text.length - 1] == '\n')
        text.length--;
    return text;
}

static struct tern_string content_of(const struct writer *w, const struct tern_chat_message *m)
{
    const struct tern_string text = string_of(m->text);
    return w->style->trim ? trim(text) : text;
}

static bool is_role(const struct tern_chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

static void put_chatml_turn(struct writer *w, const char *role, struct tern_string text)
{
    put_own(w, "<|im_start|>");
    put_own(w, role);
    put_own(w, "\n");
    put_text(w, text);
    put_own(w, "<|im_end|>\n");
}

/* The last place of `mark` in text, or NULL. */
static const char *find_last(struct tern_string text, const char *mark)
{
    const size_t length = strlen(mark);
    const char *last = NULL, *at = text.bytes, *const end = text.bytes + text.length;
    while ((at = memmem(at, (size_t)(end - at), mark, length)) != NULL)
        last = at += length;
    return last;
}

/* An answer of a model that thinks: the thought is kept only after the last question. */
static void put_thinking_turn(struct writer *w, const struct tern_chat_message *message,
                              bool after_question, bool last)
{
    struct tern_string content = string_of(message->text), thought = {"", 0};
    const char *const first_end = memmem(content.bytes, content.length, "</think>", 8);
    if (first_end != NULL) {
        thought = trim_lines(
            (struct tern_string){content.bytes, (size_t)(first_end - content.bytes)}, false, true);
        const char *const begin = find_last(thought, "<think>");
        if (begin != NULL)
            thought = (struct tern_string){begin, thought.length - (size_t)(begin - thought.bytes)};
        const char *const rest = find_last(content, "</think>");
        content =
            trim_lines((struct tern_string){rest, content.length - (size_t)(rest - content.bytes)},
                       true, false);
        thought = trim_lines(thought, true, false);
    }
    if (!after_question || (!last && thought.length == 0)) {
        put_chatml_turn(w, message->role, content);
        return;
    }
    put_own(w, "<|im_start|>assistant\n<think>\n");
    put_text(w, trim_lines(thought, true, true));
    put_own(w, "\n</think>\n\n");
    put_text(w, trim_lines(content, true, false));
    put_own(w, "<|im_end|>\n");
}

static void write_chatml(struct writer *w, const struct tern_chat_message *messages, size_t count)
{
    if (w->style->standard != NULL && !is_role(&messages[0], "system")) {
        put_own(w, "<|im_start|>system\n");
        put_own(w, w->style->standard);
        put_own(w, "<|im_end|>\n");
    }
    size_t question = count - 1;
    for (size_t i = count; w->style->thinking && i-- > 0;)
        if (is_role(&messages[i], "user")) {
            question = i;
            break;
        }
    for (size_t i = 0; i < count; i++) {
        if (w->style->thinking && is_role(&messages[i], "assistant"))
            put_thinking_turn(w, &messages[i], i > question, i + 1 == count);
        else
            put_chatml_turn(w, messages[i].role, content_of(w, &messages[i]));
    }
    put_own(w, "<|im_start|>assistant\n");
}

static void open_llama3_turn(struct writer *w, const char *role)
{
    put_own(w, "<|start_header_id|>");
    put_own(w, role);
    put_own(w, "<|end_header_id|>\n\n");
}

static void write_date(struct writer *w, long long seconds)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const time_t now = (time_t)seconds;
    struct tm day;
    if (!w->style->today || localtime_r(&now, &day) == NULL) {
        put_own(w, "26 Jul 2024");
        return;
    }
    char text[32];
    const int length = snprintf(text, sizeof text, "%02d %s %d", day.tm_mday, months[day.tm_mon],
                                1900 + day.tm_year);
    w->pieces->date = strdup(text);
    w->failed = w->failed || w->pieces->date == NULL;
    if (w->pieces->date != NULL)
        put(w, w->pieces->date, (size_t)length, true);
}

static void write_llama3(struct writer *w, const struct tern_chat_message *messages, size_t count,
                         long long seconds)
{
    size_t first = 0;
    if (w->style->dated) {
        open_llama3_turn(w, "system");
        put_own(w, "Cutting Knowledge Date: December 2023\nToday Date: ");
        write_date(w, seconds);
        put_own(w, "\n\n");
        if (is_role(&messages[0], "system"))
            put_text(w, content_of(w, &messages[first++]));
        put_own(w, "<|eot_id|>");
    }
    for (size_t i = first; i < count; i++) {
        open_llama3_turn(w, messages[i].role);
        put_text(w, content_of(w, &messages[i]));
        put_own(w, "<|eot_id|>");
    }
    open_llama3_turn(w, "assistant");
}

static void write_gemma(struct writer *w, const struct tern_chat_message *messages, size_t count)
{
    const bool prefix = w->style->system == CHAT_SYSTEM_PREFIX && is_role(&messages[0], "system");
    for (size_t i = prefix; i < count; i++) {
        put_own(w, "<start_of_turn>");
        put_own(w, is_role(&messages[i], "assistant") ? "model" : messages[i].role);
        put_own(w, "\n");
        if (prefix && i == 1) {
            put_text(w, string_of(messages[0].text));
            put_own(w, "\n\n");
        }
        put_text(w, content_of(w, &messages[i]));
        put_own(w, "<end_of_turn>\n");
    }
    put_own(w, "<start_of_turn>model\n");
}

static enum tern_status check_roles(const struct chat_style *style,
                                    const struct tern_chat_message *messages, size_t count,
                                    struct tern_error *error)
{
    if (count == 0)
        return tern_fail(error, TERN_USAGE, "a chat needs at least one message");
    for (size_t i = 0; i < count; i++)
        if (!is_role(&messages[i], "system") && !is_role(&messages[i], "user") &&
            !is_role(&messages[i], "assistant"))
            return tern_fail(error, TERN_USAGE,
                             "message %zu has role '%s'; roles are system, user and assistant", i,
                             messages[i].role);
    const bool system = is_role(&messages[0], "system");
    if (system && style->system == CHAT_SYSTEM_REFUSED)
        return tern_fail(error, TERN_UNSUPPORTED,
                         "this model's chat template takes no system message");
    const size_t first = system && style->system == CHAT_SYSTEM_PREFIX;
    if (first == count)
        return tern_fail(error, TERN_USAGE, "a chat needs a message besides the system message");
    for (size_t i = first; style->alternate && i < count; i++)
        if (is_role(&messages[i], "user") != ((i - first) % 2 == 0))
            return tern_fail(error, TERN_USAGE,
                             "message %zu: this model's roles must alternate, user first", i);
    return TERN_OK;
}

enum tern_status chat_render(const struct chat_style *style, struct tern_string bos,
                             const struct tern_chat_message *messages, size_t count,
                             long long seconds, struct chat_pieces *out, struct tern_error *error)
{
    *out = (struct chat_pieces){0};
    const enum tern_status status = check_roles(style, messages, count, error);
    if (status != TERN_OK)
        return status;
    struct writer w = {.style = style, .pieces = out};
    if (style->bos)
        put(&w, bos.bytes, bos.length, true);
    if (style->form == TERN_CHAT_CHATML)
        write_chatml(&w, messages, count);
    else if (style->form == TERN_CHAT_LLAMA3)
        write_llama3(&w, messages, count, seconds);
    else
        write_gemma(&w, messages, count);
    if (!w.failed)
        return TERN_OK;
    chat_pieces_free(out);
    return tern_fail(error, TERN_NO_MEMORY, "no memory for a chat of %zu messages", count);
}

void chat_pieces_free(struct chat_pieces *pieces)
{
    free(pieces->piece);
    free(pieces->date);
    *pieces = (struct chat_pieces){0};
}
