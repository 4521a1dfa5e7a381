/* Runs of one class by tables of its members. */
#include "coordinator/tokenizer/split_run.h"

#include <string.h>

static int hex_digit(char digit)
{
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* One member of a class as an expression writes it: itself, "\t", "\r", "\n", "\xHH" or an escaped
 * sign. */
static unsigned char read_member(const char **contents)
{
    const char *c = *contents;
    if (*c != '\\') {
        *contents = c + 1;
        return (unsigned char)*c;
    }
    *contents = c + (c[1] == 'x' ? 4 : 2);
    switch (c[1]) {
    case 'x':
        return (unsigned char)(hex_digit(c[2]) << 4 | hex_digit(c[3]));
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'n':
        return '\n';
    default:
        return (unsigned char)c[1];
    }
}

static void read_class(const char *contents, bool *members)
{
    while (contents != NULL && *contents != '\0') {
        const unsigned first = read_member(&contents);
        unsigned last = first;
        if (contents[0] == '-' && contents[1] != '\0') {
            contents++;
            last = read_member(&contents);
        }
        for (unsigned member = first; member <= last; member++)
            members[member] = true;
    }
}

void split_run_init(const struct split_step *step, struct split_run *run)
{
    *run = (struct split_run){
        .least = step->least > 0 ? step->least : 1,
        .most = step->most > 0 ? step->most : SIZE_MAX,
        .at_end = step->at_end,
    };
    read_class(step->run, run->run);
    read_class(step->before, run->before);
}

bool split_run_find(const struct split_run *run, const uint8_t *subject, size_t length, size_t at,
                    size_t *start, size_t *end)
{
    for (size_t i = at; i < length;) {
        while (i < length && !run->run[subject[i]])
            i++;
        const size_t first = i;
        while (i < length && i - first < run->most && run->run[subject[i]])
            i++;
        if (i - first < run->least || (run->at_end && i < length))
            continue;
        *start = first > at && run->before[subject[first - 1]] ? first - 1 : first;
        *end = i;
        return true;
    }
    return false;
}
