/* tern stop: ends the service; none running is fine. */
#include "cmd/tern/request.h"
#include "cmd/tern/verbs.h"
#include "proto/wait.h"

#include <time.h>

enum { STOP_MS = 10000 };

/* The reply comes before the end; wait until the service has let go of its lock, so that a script
 * may start anew. */
static enum tern_status wait_for_end(const struct client *client, struct tern_error *error)
{
    const uint64_t deadline = tern_now_ns() + STOP_MS * 1000000ull;
    while (tern_runtime_holder(&client->runtime) == client->service) {
        if (client_interrupted())
            return tern_fail(error, TERN_INTERRUPTED, "interrupted; the service goes on ending");
        if (tern_now_ns() > deadline)
            return tern_fail(error, TERN_FAILED, "the service does not end; kill %d ends it",
                             client->service);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return TERN_OK;
}

int verb_stop(const struct verb *verb, int argc, char **argv)
{
    const struct option options[] = {{0}};
    struct client client;
    struct tern_runtime runtime;
    struct tern_pack pack;
    struct tern_error error = {0};
    int code;
    if (!options_begin(verb, options, &argc, argv, 0, 0, &code))
        return code;
    if (tern_runtime_open(&runtime, &error) != TERN_OK)
        return complain(&error);
    enum tern_status status = client_open(&client, false, &error);
    if (status == TERN_NO_SERVICE && tern_runtime_holder(&runtime) == 0)
        return 0;
    if (status == TERN_OK) {
        client_begin(&client, &pack, TERN_MSG_STOP);
        status = client_call(&client, &pack, NULL, NULL, &error);
        client_close(&client);
        if (status == TERN_OK || status == TERN_NO_SERVICE)
            status = wait_for_end(&client, &error);
    }
    return status == TERN_OK ? 0 : complain(&error);
}
