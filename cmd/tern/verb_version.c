/* tern version: which Tern this is. */
#include "cmd/tern/output.h"
#include "cmd/tern/verbs.h"

#include <stdio.h>

int verb_version(const struct verb *verb, int argc, char **argv)
{
    bool as_json = false;
    const struct option options[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON", 0, 0, NULL},
        {0},
    };
    struct tern_error error = {0};
    int positionals;
    enum tern_status status = options_parse(verb, options, argc, argv, &positionals, &error);
    if (status == TERN_INTERRUPTED)
        return 0;
    if (status == TERN_OK && positionals > 0)
        status = tern_fail(&error, TERN_USAGE, "version takes no arguments");
    if (status != TERN_OK)
        return complain(&error);
    if (as_json) {
        json_t *version =
            json_pack("{s:s, s:i}", "version", TERN_VERSION, "protocol", TERN_PROTOCOL_VERSION);
        print_json(version);
        json_decref(version);
    } else {
        printf("tern %s\n", TERN_VERSION);
    }
    return 0;
}
