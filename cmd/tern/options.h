/*
 * Command line options: each verb declares a table of what it takes; parsing, checking of ranges,
 * and the text of --help all come from the table.
 */
#ifndef TERN_CMD_OPTIONS_H
#define TERN_CMD_OPTIONS_H

#include "proto/status.h"
#include <stdbool.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_COUNT,   /* uint64_t, in [low, high]; high 0x1p64: any */
    OPTION_INTEGER, /* int64_t, in [low, high] */
    OPTION_NUMBER,  /* double, finite, in [low, high] */
    OPTION_TEXT,    /* const char *, valid UTF-8 */
    OPTION_TEXTS,   /* struct option_texts; may be given several times */
    OPTION_CHOICE,  /* const char *, one of the words in `choices`, separated by '|' */
};

enum { OPTION_MOST_TEXTS = 1024 };

struct option_texts {
    const char *text[OPTION_MOST_TEXTS];
    int count;
};

struct option {
    const char *name; /* without "--"; a single letter is used as "-x" */
    enum option_kind kind;
    void *target;
    const char *choices; /* OPTION_CHOICE; for the others a name for the value in --help */
    const char *help;
    double low, high;
    bool *given; /* set when the option appears; may be NULL */
};

struct verb {
    const char *name;
    const char *arguments; /* "MODEL [PROMPT...]" */
    const char *summary;
    const char *details; /* more lines for `tern VERB --help`, may be NULL */
    int (*run)(const struct verb *verb, int argc, char **argv);
};

/*
 * Parses argv[1..]: fills targets, moves positional arguments to argv[0..*argc) and checks that
 * there are `least` to `most` of them. "--" ends the options; "-" alone is positional. Options end
 * with a NULL name. False: the verb ends with exit code *code, --help or a message having been
 * printed.
 */
bool options_begin(const struct verb *verb, const struct option *options, int *argc, char **argv,
                   int least, int most, int *code);

/* Hands a verb's table to `visit` (options end with a NULL name); the verb does nothing else. */
typedef void (*options_visitor)(void *context, const struct verb *verb,
                                const struct option *options);
void options_visit(const struct verb *verb, options_visitor visit, void *context);

/* "-" or "--", as this option is typed. */
const char *option_dashes(const struct option *option);

/* Prints `tern: message` and returns the status as exit code. */
int complain(const struct tern_error *error);

#endif
