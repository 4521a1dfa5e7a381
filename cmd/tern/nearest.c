#include "cmd/tern/nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 255, FAR = 1000 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static int letter(const char *text, size_t i)
{
    return tolower((unsigned char)text[i]);
}

/* Letters to change, swap with the next, add or leave out. */
static unsigned distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    unsigned rows[3][LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return FAR;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3], *before = rows[(i - 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            const unsigned change = letter(a, i - 1) != letter(b, j - 1);
            row[j] = least(least(before[j], row[j - 1]) + 1, before[j - 1] + change);
            if (i > 1 && j > 1 && letter(a, i - 1) == letter(b, j - 2) &&
                letter(a, i - 2) == letter(b, j - 1))
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

/* FAR: not alike. */
static unsigned unlikeness(const char *name, const char *other)
{
    const size_t n = strlen(name), m = strlen(other);
    const unsigned changes = distance(name, other);
    if (changes <= (n < 9 ? n / 3 : 3))
        return changes;
    if (n >= 3 && m >= 3 && strncasecmp(name, other, n < m ? n : m) == 0)
        return LONGEST + changes;
    return FAR;
}

size_t nearest_names(const char *name, const char *const *names, size_t count, const char **found,
                     size_t most)
{
    unsigned unlike[8];
    size_t kept = 0;
    if (most > sizeof unlike / sizeof unlike[0])
        most = sizeof unlike / sizeof unlike[0];
    for (size_t i = 0; i < count; i++) {
        const unsigned here = unlikeness(name, names[i]);
        size_t at = kept;
        if (here >= FAR)
            continue;
        for (; at > 0 && unlike[at - 1] > here; at--)
            if (at < most) {
                unlike[at] = unlike[at - 1];
                found[at] = found[at - 1];
            }
        if (at < most) {
            unlike[at] = here;
            found[at] = names[i];
            kept += kept < most;
        }
    }
    return kept;
}

void nearest_suggest(const char *name, const char *dashes, const char *const *names, size_t count,
                     char *text, size_t room)
{
    enum { MOST = 2 };
    const char *near[MOST];
    const size_t found = nearest_names(name, names, count, near, MOST);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < found && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s'%s%s'",
                                 i == 0 ? "; did you mean " : " or ", dashes, near[i]);
    if (found > 0 && used + 1 < room)
        strcpy(text + used, "?");
}
