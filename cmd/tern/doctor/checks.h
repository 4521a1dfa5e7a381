/* The checks of `tern doctor`. None changes anything but the folders it makes (what any command
 * does), none starts the service, and each copes with a container that has no /sys. */
#ifndef TERN_CMD_DOCTOR_CHECKS_H
#define TERN_CMD_DOCTOR_CHECKS_H

#include "cmd/tern/doctor/finding.h"

/* processor.c */
void check_processors(struct finding *finding);
void check_tiers(struct finding *finding);
void check_clock(struct finding *finding);

/* memory.c */
void check_memory(struct finding *finding);
void check_cgroup(struct finding *finding);
void check_huge_pages(struct finding *finding);

/* bandwidth.c; takes about half a second */
void check_bandwidth(struct finding *finding);

/* kernel.c */
void check_kernel(struct finding *finding);
void check_limits(struct finding *finding);
void check_seccomp(struct finding *finding);
void check_io_uring(struct finding *finding);

/* folders.c */
void check_cache(struct finding *finding);
void check_runtime(struct finding *finding);
void check_state(struct finding *finding);

/* programs.c */
void check_programs(struct finding *finding);
void check_packages(struct finding *finding);

/* service.c */
void check_service(struct finding *finding);

#endif
