/*
 * One loader's life, as the coordinator sees it over the channel:
 *
 *   coordinator -> loader   SEGMENT_WRITE (catalog), MODEL_FILE, in any order
 *   loader -> coordinator   CATALOG, or ERROR and exit
 *   coordinator -> loader   SEGMENT_WRITE (weights), FILL; or closes the channel: exit 0
 *   loader -> coordinator   PROGRESS (bytes) ..., FILLED and exit 0, or ERROR and exit
 */
#ifndef TERN_LOADER_SESSION_H
#define TERN_LOADER_SESSION_H

/* Runs on a connected channel until it is over; returns the exit code: 0, or the status of the
 * ERROR that was sent. The process is in its sandbox afterwards. */
int tern_loader_session(int channel);

#endif
