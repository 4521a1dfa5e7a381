/* tern-cpu: the CPU compute worker. Started by ternd only; see proto/worker.h. */
#include "proto/channel.h"
#include "proto/status.h"
#include "proto/victim.h"
#include "workers/compute-cpu/worker.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The coordinator may have died before the death signal was asked for; its end of the channel is
 * closed then. */
static bool coordinator_is_gone(void)
{
    struct pollfd channel = {.fd = TERN_CHANNEL_FD};
    return poll(&channel, 1, 0) > 0 && (channel.revents & (POLLHUP | POLLERR | POLLNVAL));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("tern-cpu " TERN_VERSION);
        return TERN_OK;
    }
    tern_log_name("cpu");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tern_prefer_as_victim();
    if (coordinator_is_gone()) {
        tern_log("error", "no coordinator: tern-cpu is started by ternd, not by hand");
        _exit(TERN_WORKER_BAD_INPUT);
    }
    _exit(tern_worker_run());
}
