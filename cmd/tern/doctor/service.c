/* The service: is there one, and is it of this version? */
#include "cmd/tern/client.h"
#include "cmd/tern/doctor/checks.h"
#include "cmd/tern/fields.h"
#include "cmd/tern/output.h"

#include <stdlib.h>
#include <string.h>

static enum tern_status ask_version(char *version, size_t room, struct tern_error *error)
{
    struct client client;
    struct tern_pack pack;
    struct result result = {0};
    enum tern_status status = client_open(&client, false, error);
    if (status != TERN_OK)
        return status;
    client_begin(&client, &pack, TERN_MSG_PS);
    status = client_call(&client, &pack, take_result, &result, error);
    client_close(&client);
    snprintf(version, room, "%s", text_of(json_object_get(result.json, "coordinator"), "version"));
    free(result.text);
    json_decref(result.json);
    return status;
}

void check_service(struct finding *finding)
{
    struct tern_runtime runtime;
    struct tern_error error = {0};
    char version[64];
    const bool known = tern_runtime_open(&runtime, &error) == TERN_OK;
    const int pid = known ? tern_runtime_holder(&runtime) : 0;
    finding_flag(finding, "running", pid > 0);
    finding_unknown(finding, "pid");
    finding_unknown(finding, "version");
    if (pid <= 0) {
        finding_say(finding, "does not run; the first command that needs it starts it");
        return;
    }
    finding_number(finding, "pid", (uint64_t)pid);
    finding_say(finding, "process %d", pid);
    if (ask_version(version, sizeof version, &error) != TERN_OK) {
        finding_say(finding, "%s", error.message);
        finding_raise(finding, FINDING_PROBLEM, "end it with kill %d (kill -9 if need be)", pid);
        return;
    }
    finding_text(finding, "version", version);
    finding_say(finding, "version %s", version);
    if (strcmp(version, TERN_VERSION) != 0)
        finding_raise(finding, FINDING_NOTE,
                      "this is tern %s; tern stop, and the next command "
                      "starts the service anew",
                      TERN_VERSION);
}
