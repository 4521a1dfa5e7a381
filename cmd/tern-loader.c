/* The loader process: started by the coordinator for one model file, with the channel at
 * TERN_CHANNEL_FD; see workers/loader/session.h. */
#include "proto/channel.h"
#include "proto/status.h"
#include "proto/victim.h"
#include "workers/loader/session.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static int channel_type(void)
{
    int type = 0;
    socklen_t size = sizeof type;
    return getsockopt(TERN_CHANNEL_FD, SOL_SOCKET, SO_TYPE, &type, &size) == 0 ? type : -1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("tern-loader " TERN_VERSION);
        return TERN_OK;
    }
    tern_log_name("loader");
    if (argc > 1 || channel_type() != SOCK_SEQPACKET) {
        tern_log("error",
                 "this program is started by ternd, which passes its channel as "
                 "descriptor %d; use 'tern load MODEL'",
                 TERN_CHANNEL_FD);
        return TERN_USAGE;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tern_prefer_as_victim();
    return tern_loader_session(TERN_CHANNEL_FD);
}
