/*
 * Lines edited on a terminal with libedit. Characters are read here and not by libedit, so that a
 * signal ends the reading at once and the terminal gets its modes back whatever ends the line.
 */
#include "cmd/tern/chat/history.h"
#include "cmd/tern/chat/input.h"
#include "cmd/tern/client.h"
#include "proto/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { PASTE_MAX = 1 << 20 /* characters */ };

struct editor {
    EditLine *el;
    struct chat_history *history;
    const char *prompt;
    int input;        /* the terminal, where possible so that reading never blocks */
    char typed[4096]; /* read and not yet used: typed[begin .. end) */
    size_t begin, end;
    bool interrupted, hung_up;
    bool dumb; /* the terminal obeys nothing, or nobody said which one it is */
};

static volatile sig_atomic_t resized, stop_asked;

static void note_signal(int signal)
{
    if (signal == SIGWINCH)
        resized = 1;
    else
        stop_asked = 1;
}

/* With brackets around what is pasted, its newlines do not end the line. A dumb terminal would show
 * what asks for them. */
static void bracket_pastes(const struct editor *editor, bool on)
{
    if (editor->dumb)
        return;
    fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

/* Ctrl-Z: the shell must find the terminal as it was. */
static void stop_here(struct editor *editor)
{
    stop_asked = 0;
    bracket_pastes(editor, false);
    el_set(editor->el, EL_PREP_TERM, 0);
    raise(SIGSTOP);
    el_set(editor->el, EL_PREP_TERM, 1);
    bracket_pastes(editor, true);
    el_set(editor->el, EL_REFRESH);
}

/* True when there is something to read; false after a signal that ends the line. */
static bool wait_for_key(struct editor *editor)
{
    struct pollfd input = {.fd = editor->input, .events = POLLIN};
    sigset_t all, old;
    int ready = -1;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    while (ready < 0 && !client_interrupted()) {
        if (stop_asked)
            stop_here(editor);
        if (resized) {
            resized = 0;
            el_resize(editor->el);
            el_set(editor->el, EL_REFRESH);
        }
        ready = ppoll(&input, 1, NULL, &old);
        if (ready < 0 && errno != EINTR)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ready > 0 && !client_interrupted();
}

/* More typed bytes; false at the end of input or after a signal. */
static bool read_typed(struct editor *editor)
{
    if (editor->begin > 0)
        memmove(editor->typed, editor->typed + editor->begin, editor->end - editor->begin);
    editor->end -= editor->begin;
    editor->begin = 0;
    if (!wait_for_key(editor)) {
        editor->interrupted = client_interrupted();
        return false;
    }
    const ssize_t got =
        read(editor->input, editor->typed + editor->end, sizeof editor->typed - editor->end);
    editor->hung_up = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    editor->end += got > 0 ? (size_t)got : 0;
    return !editor->hung_up;
}

static wchar_t code_point(const char *text, int bytes)
{
    static const unsigned char first[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    wchar_t code = (unsigned char)text[0] & first[bytes];
    for (int i = 1; i < bytes; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3F);
    return code;
}

/* libedit asks for a character here: 1, or -1 at the end of the line's reading. */
static int next_character(EditLine *el, wchar_t *character)
{
    struct editor *editor;
    el_get(el, EL_CLIENTDATA, &editor);
    for (;;) {
        const char *text = editor->typed + editor->begin;
        const size_t length = editor->end - editor->begin;
        const int bytes = length > 0 ? tern_utf8_character(text, length) : -1;
        if (bytes >= 0) {
            *character = bytes > 0 ? code_point(text, bytes) : 0xFFFD;
            editor->begin += bytes > 0 ? (size_t)bytes : 1;
            return 1;
        }
        if (!read_typed(editor))
            return -1;
    }
}

static char *prompt(EditLine *el)
{
    struct editor *editor;
    el_get(el, EL_CLIENTDATA, &editor);
    return (char *)(uintptr_t)editor->prompt;
}

/* What stands between ESC [ 200 ~ and ESC [ 201 ~ goes into the line as it is, newlines too; other
 * control characters are left out. */
static unsigned char paste(EditLine *el, int key)
{
    static const wchar_t end[] = L"\033[201~";
    const size_t tail = sizeof end / sizeof end[0] - 1;
    wchar_t *text = malloc((PASTE_MAX + tail + 1) * sizeof *text), c;
    size_t length = 0, kept = 0;
    (void)key;
    if (text == NULL)
        return CC_ERROR;
    while (el_wgetc(el, &c) == 1) {
        text[length++] = c;
        if (length >= tail && wmemcmp(text + length - tail, end, tail) == 0) {
            length -= tail;
            break;
        }
        if (length == PASTE_MAX + tail) /* the rest is lost, but its end is still found */
            wmemmove(text + PASTE_MAX, text + PASTE_MAX + 1, --length - PASTE_MAX);
    }
    for (size_t i = 0; i < length && i < PASTE_MAX; i++) {
        const wchar_t shown = text[i] == L'\r' ? L'\n' : text[i];
        if (shown == L'\n' || shown == L'\t' || (shown >= 0x20 && (shown < 0x7F || shown > 0x9F)))
            text[kept++] = shown;
    }
    text[kept] = L'\0';
    const bool inserted = kept == 0 || el_winsertstr(el, text) == 0;
    free(text);
    return inserted && length <= PASTE_MAX ? CC_REFRESH : CC_REFRESH_BEEP;
}

static unsigned char ignore_key(EditLine *el, int key)
{
    (void)el, (void)key;
    return CC_NORM;
}

static void bind_key(EditLine *el, const char *command, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void bind_key(EditLine *el, const char *command, const char *format, ...)
{
    char key[32];
    va_list values;
    va_start(values, format);
    vsnprintf(key, sizeof key, format, values);
    va_end(values);
    el_set(el, EL_BIND, key, command, NULL);
}

/* Of a key that libedit does not know it leaves all but the beginning in the line, so every key
 * that terminals have is told to it; those that do something come last. */
static void bind_keys(EditLine *el)
{
    static const char letters[] = "ABCDEFHPQRS";
    static const struct {
        const char *key, *command;
    } useful[] = {
        {"\033[H", "ed-move-to-beg"},       {"\033OH", "ed-move-to-beg"},
        {"\033[1~", "ed-move-to-beg"},      {"\033[7~", "ed-move-to-beg"},
        {"\033[F", "ed-move-to-end"},       {"\033OF", "ed-move-to-end"},
        {"\033[4~", "ed-move-to-end"},      {"\033[8~", "ed-move-to-end"},
        {"\033[3~", "ed-delete-next-char"}, {"\033[A", "ed-prev-history"},
        {"\033OA", "ed-prev-history"},      {"\033[B", "ed-next-history"},
        {"\033OB", "ed-next-history"},      {"\033[C", "ed-next-char"},
        {"\033OC", "ed-next-char"},         {"\033[D", "ed-prev-char"},
        {"\033OD", "ed-prev-char"},         {"\033[1;5C", "em-next-word"},
        {"\033[1;3C", "em-next-word"},      {"\033[1;5D", "ed-prev-word"},
        {"\033[1;3D", "ed-prev-word"},      {"\033[3;5~", "em-delete-next-word"},
    };
    enum { FUNCTION_KEYS = 34, MODIFIERS = 8 };
    for (const char *letter = letters; *letter != '\0'; letter++) {
        bind_key(el, "tern-ignore", "\033[%c", *letter);
        bind_key(el, "tern-ignore", "\033O%c", *letter);
        for (int with = 2; with <= MODIFIERS; with++)
            bind_key(el, "tern-ignore", "\033[1;%d%c", with, *letter);
    }
    for (int number = 1; number <= FUNCTION_KEYS; number++) {
        bind_key(el, "tern-ignore", "\033[%d~", number);
        for (int with = 2; with <= MODIFIERS; with++)
            bind_key(el, "tern-ignore", "\033[%d;%d~", number, with);
    }
    for (const char *letter = "ABCDE"; *letter != '\0'; letter++) /* the Linux console's F1 to F5 */
        bind_key(el, "tern-ignore", "\033[[%c", *letter);
    for (const char *letter = "ZIO"; *letter != '\0'; letter++) /* back tab, focus comes and goes */
        bind_key(el, "tern-ignore", "\033[%c", *letter);
    for (size_t i = 0; i < sizeof useful / sizeof useful[0]; i++)
        bind_key(el, useful[i].command, "%s", useful[i].key);
}

/* The terminal opened anew: Ctrl-C and Ctrl-Z throw away what was typed, also what poll has seen
 * already, and a reading that then blocked would not be ended by a signal that came before it. The
 * descriptor that others share stays as it is. */
static int open_terminal(void)
{
    const int fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd >= 0 ? fd : STDIN_FILENO;
}

static void close_terminal(const struct editor *editor)
{
    if (editor->input != STDIN_FILENO)
        close(editor->input);
}

struct editor *editor_open(void)
{
    struct editor *editor = calloc(1, sizeof *editor);
    if (editor == NULL)
        return NULL;
    editor->input = open_terminal();
    editor->prompt = "> ";
    const char *kind = getenv("TERM");
    editor->dumb = kind == NULL || kind[0] == '\0' || strcmp(kind, "dumb") == 0;
    editor->el = el_init("tern", stdin, stdout, stderr);
    if (editor->el == NULL) {
        close_terminal(editor);
        free(editor);
        return NULL;
    }
    el_set(editor->el, EL_CLIENTDATA, editor);
    el_set(editor->el, EL_SIGNAL, 0);
    el_set(editor->el, EL_PROMPT, prompt);
    el_set(editor->el, EL_EDITOR, "emacs");
    el_set(editor->el, EL_GETCFN, next_character);
    el_wset(editor->el, EL_ADDFN, L"tern-paste", L"Insert pasted text", paste); /* el_set leaks */
    el_wset(editor->el, EL_ADDFN, L"tern-ignore", L"Do nothing", ignore_key);
    bind_keys(editor->el);
    el_source(editor->el, NULL);
    el_set(editor->el, EL_BIND, "\033[200~", "tern-paste", NULL);
    el_set(editor->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    editor->history = chat_history_open(editor->el);
    return editor;
}

void editor_close(struct editor *editor)
{
    chat_history_close(editor->history);
    el_end(editor->el);
    close_terminal(editor);
    free(editor);
}

void editor_remember(struct editor *editor, const char *text)
{
    chat_history_add(editor->history, text);
}

/* The line was ended by a signal or by the terminal itself. */
static enum input_event end_of_reading(struct editor *editor, bool *cleared)
{
    const LineInfoW *rest = el_wline(editor->el);
    *cleared = rest->lastchar > rest->buffer;
    putchar('\n');
    fflush(stdout);
    if (!editor->interrupted)
        return INPUT_END;
    editor->begin = editor->end = 0;
    if (!client_forget_interrupt())
        *cleared = false; /* the signal was another than Ctrl-C: there is no next line */
    return INPUT_INTERRUPTED;
}

enum input_event editor_line(struct editor *editor, const char *text, struct line *line,
                             bool *cleared)
{
    struct sigaction noted = {.sa_handler = note_signal}, old_resize, old_stop;
    int length = 0;
    editor->prompt = text;
    editor->interrupted = editor->hung_up = false;
    sigaction(SIGWINCH, &noted, &old_resize);
    sigaction(SIGTSTP, &noted, &old_stop);
    el_set(editor->el, EL_PREP_TERM, 1); /* before the prompt, which invites Ctrl-D */
    el_resize(editor->el);               /* it may have changed during the answer */
    bracket_pastes(editor, true);
    line->text = el_gets(editor->el, &length);
    bracket_pastes(editor, false);
    sigaction(SIGWINCH, &old_resize, NULL);
    sigaction(SIGTSTP, &old_stop, NULL);
    clearerr(
        stdout); /* signals may have cut off what was drawn, which is no output that is missed */
    if (line->text == NULL || length <= 0 || editor->interrupted || editor->hung_up)
        return end_of_reading(editor, cleared);
    line->length = (size_t)length - (line->text[length - 1] == '\n');
    ((char *)(uintptr_t)line->text)[line->length] = '\0';
    return INPUT_TEXT;
}
