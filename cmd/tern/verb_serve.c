/* tern serve: the service in the foreground, for systemd and for looking at its log. */
#include "cmd/tern/client.h"
#include "cmd/tern/verbs.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

int verb_serve(const struct verb *verb, int argc, char **argv)
{
    const char *level = NULL;
    const struct option options[] = {
        {"log-level", OPTION_CHOICE, &level, "error|warning|info|debug",
         "what the log tells (info, or $TERN_LOG_LEVEL)", 0, 0, NULL},
        {0},
    };
    struct tern_error error = {0};
    char program[1200];
    int code;
    if (!options_begin(verb, options, &argc, argv, 0, 0, &code))
        return code;
    if (service_program(program, sizeof program, &error) == TERN_OK) {
        char *arguments[] = {program, level != NULL ? (char *)(uintptr_t) "--log-level" : NULL,
                             (char *)(uintptr_t)level, NULL};
        execv(program, arguments);
        tern_fail(&error, TERN_NO_SERVICE, "cannot run %s: %s", program, strerror(errno));
    }
    return complain(&error);
}
