#include "cmd/tern/options.h"

#include "cmd/tern/nearest.h"
#include "proto/utf8.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT_COLUMN = 24 };

static struct {
    options_visitor visit;
    void *context;
} visitor; /* of the tables, in place of --help's text */

const char *option_dashes(const struct option *option)
{
    return option->name[1] == '\0' ? "-" : "--";
}

static void print_option(const struct option *option)
{
    char left[64];
    if (option->kind == OPTION_FLAG)
        snprintf(left, sizeof left, "%s%s", option_dashes(option), option->name);
    else
        snprintf(left, sizeof left, "%s%s %s", option_dashes(option), option->name,
                 option->choices != NULL ? option->choices : "N");
    if (strlen(left) > LEFT_COLUMN)
        printf("  %s\n  %-*s %s\n", left, LEFT_COLUMN, "", option->help);
    else
        printf("  %-*s %s\n", LEFT_COLUMN, left, option->help);
}

static void print_help(const struct verb *verb, const struct option *options)
{
    printf("usage: tern %s%s%s%s\n\n%s\n", verb->name, verb->arguments[0] != '\0' ? " " : "",
           verb->arguments, options->name != NULL ? " [OPTION...]" : "", verb->summary);
    if (options->name != NULL)
        printf("\noptions (defaults in parentheses):\n");
    for (; options->name != NULL; options++)
        print_option(options);
    if (verb->details != NULL)
        printf("\n%s", verb->details);
}

static const struct option *find_option(const struct option *options, const char *name,
                                        size_t length)
{
    for (; options->name != NULL; options++)
        if (strlen(options->name) == length && memcmp(options->name, name, length) == 0)
            return options;
    return NULL;
}

static enum tern_status parse_count(const struct option *option, const char *text,
                                    struct tern_error *error)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    const uint64_t high = option->high < 0x1p64 ? (uint64_t)option->high : UINT64_MAX;
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
        value < (uint64_t)option->low || value > high)
        return tern_fail(error, TERN_USAGE,
                         "%s%s is '%s'; it must be a whole number from %.0f to %" PRIu64,
                         option_dashes(option), option->name, text, option->low, high);
    *(uint64_t *)option->target = value;
    return TERN_OK;
}

static enum tern_status parse_integer(const struct option *option, const char *text,
                                      struct tern_error *error)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || (double)value < option->low ||
        (double)value > option->high)
        return tern_fail(error, TERN_USAGE,
                         "%s%s is '%s'; it must be a whole number from %.0f to %.0f",
                         option_dashes(option), option->name, text, option->low, option->high);
    *(int64_t *)option->target = value;
    return TERN_OK;
}

static enum tern_status add_text(const struct option *option, const char *text,
                                 struct tern_error *error)
{
    struct option_texts *texts = option->target;
    if (texts->count == OPTION_MOST_TEXTS)
        return tern_fail(error, TERN_USAGE, "%s%s can be given %d times", option_dashes(option),
                         option->name, OPTION_MOST_TEXTS);
    texts->text[texts->count++] = text;
    return TERN_OK;
}

static enum tern_status parse_number(const struct option *option, const char *text,
                                     struct tern_error *error)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < option->low ||
        value > option->high)
        return tern_fail(error, TERN_USAGE, "%s%s is '%s'; it must be a number from %g to %g",
                         option_dashes(option), option->name, text, option->low, option->high);
    *(double *)option->target = value;
    return TERN_OK;
}

static enum tern_status parse_choice(const struct option *option, const char *text,
                                     struct tern_error *error)
{
    const size_t length = strlen(text);
    for (const char *word = option->choices; *word != '\0';) {
        const size_t n = strcspn(word, "|");
        if (n == length && memcmp(word, text, n) == 0) {
            *(const char **)option->target = text;
            return TERN_OK;
        }
        word += n + (word[n] == '|');
    }
    return tern_fail(error, TERN_USAGE, "%s%s is '%s'; it must be one of %s", option_dashes(option),
                     option->name, text, option->choices);
}

static enum tern_status parse_value(const struct option *option, const char *text,
                                    struct tern_error *error)
{
    switch (option->kind) {
    case OPTION_COUNT:
        return parse_count(option, text, error);
    case OPTION_INTEGER:
        return parse_integer(option, text, error);
    case OPTION_NUMBER:
        return parse_number(option, text, error);
    case OPTION_CHOICE:
        return parse_choice(option, text, error);
    case OPTION_TEXT:
    case OPTION_TEXTS:
        if (!tern_utf8_valid(text, strlen(text)))
            return tern_fail(error, TERN_USAGE, "%s%s is not valid UTF-8", option_dashes(option),
                             option->name);
        if (option->kind == OPTION_TEXTS)
            return add_text(option, text, error);
        *(const char **)option->target = text;
        return TERN_OK;
    case OPTION_FLAG:
        break;
    }
    return TERN_OK;
}

/* Text that looks like an option gets there by accident, as a prompt of its own. */
static enum tern_status unknown_option(const struct verb *verb, const struct option *options,
                                       const char *word, const char *name, size_t length,
                                       struct tern_error *error)
{
    enum { MOST_OPTIONS = 64 };
    const char *names[MOST_OPTIONS];
    char meant[64], near[256] = "";
    size_t count = 0;
    for (; options->name != NULL && count < MOST_OPTIONS; options++)
        if (options->name[1] != '\0')
            names[count++] = options->name;
    if (length < sizeof meant) {
        memcpy(meant, name, length);
        meant[length] = '\0';
        nearest_suggest(meant, "--", names, count, near, sizeof near);
    }
    return tern_fail(
        error, TERN_USAGE, "unknown option '%s'; see tern %s --help%s%s", word, verb->name,
        strpbrk(word, " \t\n") != NULL ? "; text that begins with - goes behind --" : "", near);
}

/* One option at argv[*i]; advances *i over its value. */
static enum tern_status parse_option(const struct verb *verb, const struct option *options,
                                     char **argv, int argc, int *i, struct tern_error *error)
{
    const char *word = argv[*i];
    const char *name = word + (word[1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct option *option = find_option(options, name, length);
    if (option == NULL || (word[1] != '-') != (length == 1))
        return unknown_option(verb, options, word, name, length, error);
    if (option->given != NULL)
        *option->given = true;
    if (option->kind == OPTION_FLAG) {
        if (equals != NULL)
            return tern_fail(error, TERN_USAGE, "option '%s' takes no value", word);
        *(bool *)option->target = true;
        return TERN_OK;
    }
    if (equals == NULL && *i + 1 >= argc)
        return tern_fail(error, TERN_USAGE, "option '%s' needs a value", word);
    return parse_value(option, equals != NULL ? equals + 1 : argv[++*i], error);
}

/* TERN_INTERRUPTED: --help was printed. */
static enum tern_status parse(const struct verb *verb, const struct option *options, int argc,
                              char **argv, int *positionals, struct tern_error *error)
{
    int kept = 0;
    bool only_positionals = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const bool option = word[0] == '-' && word[1] != '\0' && !only_positionals;
        if (!option) {
            argv[kept++] = argv[i];
        } else if (strcmp(word, "--") == 0) {
            only_positionals = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            if (visitor.visit != NULL)
                visitor.visit(visitor.context, verb, options);
            else
                print_help(verb, options);
            return TERN_INTERRUPTED;
        } else {
            const enum tern_status status = parse_option(verb, options, argv, argc, &i, error);
            if (status != TERN_OK)
                return status;
        }
    }
    *positionals = kept;
    return TERN_OK;
}

static enum tern_status check_positionals(const struct verb *verb, int given, char **argv,
                                          int least, int most, struct tern_error *error)
{
    const char *between = verb->arguments[0] != '\0' ? " " : "";
    if (given < least)
        return tern_fail(error, TERN_USAGE, "%.*s is missing; usage: tern %s %s",
                         (int)strcspn(verb->arguments, " ."), verb->arguments, verb->name,
                         verb->arguments);
    if (given > most)
        return tern_fail(error, TERN_USAGE, "'%s' is one argument too many; usage: tern %s%s%s",
                         argv[most], verb->name, between, verb->arguments);
    return TERN_OK;
}

bool options_begin(const struct verb *verb, const struct option *options, int *argc, char **argv,
                   int least, int most, int *code)
{
    struct tern_error error = {0};
    enum tern_status status = parse(verb, options, *argc, argv, argc, &error);
    *code = 0;
    if (status == TERN_INTERRUPTED)
        return false;
    if (status == TERN_OK)
        status = check_positionals(verb, *argc, argv, least, most, &error);
    if (status != TERN_OK)
        *code = complain(&error);
    return status == TERN_OK;
}

/* The tables live in the verbs' functions, which stop at --help once they have one. */
void options_visit(const struct verb *verb, options_visitor visit, void *context)
{
    char help[] = "--help";
    char *argv[] = {(char *)(uintptr_t)verb->name, help, NULL};
    visitor.visit = visit;
    visitor.context = context;
    verb->run(verb, 2, argv);
    visitor.visit = NULL;
}

int complain(const struct tern_error *error)
{
    fprintf(stderr, "tern: %s\n", error->message);
    return error->status;
}
