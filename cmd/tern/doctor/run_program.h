/* Runs a program for what it says. */
#ifndef TERN_CMD_DOCTOR_RUN_PROGRAM_H
#define TERN_CMD_DOCTOR_RUN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Runs `program --version`. text: its output and errors, NUL-terminated, cut at room - 1; or why it
 * could not be run. only_libraries: glibc's dynamic linker then lists the libraries in place of
 * running it. True if it ended with exit code 0; a program that takes over five seconds is killed.
 */
bool run_version(const char *program, bool only_libraries, char *text, size_t room);

#endif
