/* Completion scripts and manual pages, written from the verbs' own tables so that they cannot drift
 * from what the verbs take. All print to standard output. */
#ifndef TERN_CMD_DESCRIBE_H
#define TERN_CMD_DESCRIBE_H

#include "cmd/tern/options.h"

void describe_bash(void);
void describe_zsh(void);
void describe_fish(void);
void describe_man_tern(void);
void describe_man_ternd(void);

/* Whether the verb's arguments may be names of the cache, and files of models; MODEL is both. */
bool takes_names(const struct verb *verb);
bool takes_models(const struct verb *verb);
/* Whether the option's value is a file to be named. */
bool takes_file(const struct option *option);

/* Prints a text with each of the characters in `special` preceded by a backslash. */
void print_escaped(const char *text, const char *special);
/* Prints the words of a choice ("a|b") separated by spaces. */
void print_words(const char *choices);

#endif
