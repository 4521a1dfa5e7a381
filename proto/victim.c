#include "proto/victim.h"

#include <fcntl.h>
#include <unistd.h>

void tern_prefer_as_victim(void)
{
    static const char most[] = "1000"; /* raising one's own needs no rights */
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, most, sizeof most - 1) < 0) {
        /* as it was */
    }
    close(fd);
}
