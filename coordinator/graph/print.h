/*
 * What the printers of a plan share: sizes, weights, and which instruction wrote what another
 * reads.
 */
#ifndef TERN_PRINT_H
#define TERN_PRINT_H

#include "coordinator/graph/graph.h"
#include <stdio.h>

struct tern_printer {
    const struct tern_compiled *compiled;
    const struct tern_catalog *catalog;
    const struct tern_plan *plan;
    const struct tern_instruction *code; /* plan->instructions of them */
};

/* Each writes the whole document to `out`. False: out of memory. */
bool tern_print_table(const struct tern_printer *printer, FILE *out);
bool tern_print_json(const struct tern_printer *printer, FILE *out);
bool tern_print_dot(const struct tern_printer *printer, FILE *out);
bool tern_print_svg(const struct tern_printer *printer, FILE *out);

/* Bytes of one weight, and of all weights and biases of an instruction. */
uint64_t tern_print_weight_bytes(const struct tern_weight *weight);
uint64_t tern_print_bytes(const struct tern_instruction *code);
/* What a stage reads of its weights in a step: all of them but the embedding's table. */
uint64_t tern_print_stage_bytes(const struct tern_printer *printer, uint32_t stage);

/* The instruction before `reader` that wrote its input k, or UINT32_MAX. */
uint32_t tern_print_writer(const struct tern_printer *printer, uint32_t reader, int k);

double tern_print_mib(uint64_t bytes);

#endif
