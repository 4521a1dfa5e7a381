/* The parts of the step loop: taking a step from the board, and going on without being asked. */
#ifndef TERN_CPU_STEP_H
#define TERN_CPU_STEP_H

#include "program.h"

/* Copies the step into *run (whose program, page_table and pool are set) and checks the copy
 * against the program's limits and the page tables. TERN_USAGE with a message if it breaks them. */
enum tern_status tern_step_take(const struct tern_step *step, struct tern_run *run,
                                struct tern_error *error);

/* The fault of an output row, whichever instruction it came from; 0: none. */
uint32_t tern_step_output_fault(const struct tern_run *run, uint32_t output);

/* Run-ahead: after a finished step, turns *run into the next decode step of its own and publishes
 * that it begins. False if it may not go on: no grant, fault, end token, limit, new epoch. */
bool tern_run_ahead(struct tern_run *run, const struct tern_coordinator_board *coordinator,
                    struct tern_worker_board *board);

#endif
