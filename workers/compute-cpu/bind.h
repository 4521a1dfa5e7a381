/*
 * Binding: every operand of a plan is checked once against the segments it points into, then each
 * instruction becomes a call with pointers and kernels (program.h). After this the step loop trusts
 * the program completely, so nothing here is taken on faith: a plan that passed can make no kernel
 * read or write outside its segments, whatever the steps are (which exec.c checks).
 */
#ifndef TERN_CPU_BIND_H
#define TERN_CPU_BIND_H

#include "program.h"

/* The segments of one model, mapped: kv and activations writable. Borrowed by the program. */
struct tern_program_segments {
    struct tern_segment plan, weights, kv, activations, tables;
};

/* TERN_OK and a program that steps name by `plan`; TERN_FAILED with a message that names the
 * instruction and the operand; TERN_UNSUPPORTED for a weight type that the tier has no kernels for;
 * TERN_USAGE for the number of threads; TERN_NO_MEMORY. The plan segment is not needed afterwards.
 */
enum tern_status tern_bind(uint32_t plan, const struct tern_program_segments *segments,
                           const struct tern_kernels *kernels, uint32_t threads,
                           struct tern_program **program, struct tern_error *error);
void tern_program_free(struct tern_program *program);

#endif
