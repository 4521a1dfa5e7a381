/*
 * Standard error as a log that never waits: a terminal that was stopped or a pipe that nobody reads
 * costs lines, not the service. How many is said when there is room again.
 */
#ifndef TERN_LOG_STDERR_H
#define TERN_LOG_STDERR_H

/* From now on tern_log writes there so. What cannot be opened anew keeps waiting, as before. */
void tern_log_stderr(void);

#endif
