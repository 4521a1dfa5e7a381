#include "proto/status.h"

#include "proto/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum tern_status tern_fail(struct tern_error *error, enum tern_status status, const char *format,
                           ...)
{
    if (error == NULL)
        return status;
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    tern_utf8_show(error->message); /* vsnprintf may have cut inside a character */
    error->status = status;
    return status;
}

static void append(struct tern_error *error, const char *remedy)
{
    const size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length, "; %s", remedy);
    tern_utf8_show(error->message);
}

enum tern_status tern_add_remedy(struct tern_error *error, enum tern_status status)
{
    if (error != NULL && status == TERN_BAD_MODEL)
        append(error, TERN_REMEDY_CONVERT);
    else if (error != NULL && status == TERN_UNSUPPORTED)
        append(error, TERN_REMEDY_OTHER);
    return status;
}

void tern_add_name(struct tern_error *error, const char *name)
{
    const struct tern_error before = *error;
    if (strstr(before.message, name) == NULL)
        tern_fail(error, before.status, "%s: %s", name, before.message);
}
