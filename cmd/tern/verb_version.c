/* tern version: which Tern this is. */
#include "cmd/tern/json_output.h"
#include "cmd/tern/verbs.h"
#include "proto/message.h"

#include <stdio.h>

int verb_version(const struct verb *verb, int argc, char **argv)
{
    bool as_json = false;
    const struct option options[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON", 0, 0, NULL},
        {0},
    };
    int code;
    if (!options_begin(verb, options, &argc, argv, 0, 0, &code))
        return code;
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
