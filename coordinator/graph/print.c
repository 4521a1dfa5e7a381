/*
 * `tern plan`: what the compiler did, as a table, as JSON, or drawn. Everything is read from the
 * finished plan, so what is printed is what workers will run.
 */
#include "coordinator/graph/print.h"

#include <stdlib.h>
#include <string.h>

uint64_t tern_print_weight_bytes(const struct tern_weight *weight)
{
    uint64_t row;
    if (weight->rows == 0 || !tern_row_bytes(weight->type, weight->columns, &row))
        return 0;
    return row * weight->rows;
}

uint64_t tern_print_bytes(const struct tern_instruction *code)
{
    uint64_t bytes = 0;
    for (int k = 0; k < TERN_OP_WEIGHTS; k++)
        bytes +=
            tern_print_weight_bytes(&code->weight[k]) + tern_print_weight_bytes(&code->bias[k]);
    return bytes;
}

uint64_t tern_print_stage_bytes(const struct tern_printer *printer, uint32_t stage)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < printer->plan->instructions; i++)
        if (printer->code[i].stage == stage && printer->code[i].op != TERN_OP_EMBED)
            bytes += tern_print_bytes(&printer->code[i]);
    return bytes;
}

uint32_t tern_print_writer(const struct tern_printer *printer, uint32_t reader, int k)
{
    const struct tern_operand *in = &printer->code[reader].in[k];
    if (in->segment != TERN_SEGMENT_ACTIVATIONS)
        return UINT32_MAX;
    for (uint32_t i = reader; i-- > 0;)
        for (int j = 0; j < 3; j++) {
            const struct tern_operand *out = &printer->code[i].out[j];
            if (out->segment == in->segment && out->offset == in->offset)
                return i;
        }
    return UINT32_MAX;
}

double tern_print_mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

char *tern_plan_print(const struct tern_compiled *compiled, const struct tern_catalog *catalog,
                      const char *format, struct tern_error *error)
{
    static const struct {
        const char *name;
        bool (*print)(const struct tern_printer *, FILE *);
    } formats[] = {
        {"table", tern_print_table},
        {"json", tern_print_json},
        {"dot", tern_print_dot},
        {"svg", tern_print_svg},
    };
    size_t chosen = 0;
    while (chosen < sizeof formats / sizeof formats[0] && strcmp(formats[chosen].name, format) != 0)
        chosen++;
    if (chosen == sizeof formats / sizeof formats[0]) {
        tern_fail(error, TERN_USAGE, "a plan can be printed as table, json, dot or svg, not as %s",
                  format);
        return NULL;
    }
    const struct tern_printer printer = {.compiled = compiled,
                                         .catalog = catalog,
                                         .plan = compiled->plan,
                                         .code = tern_plan_instructions(compiled->plan)};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    bool fine = out != NULL && formats[chosen].print(&printer, out);
    fine = out != NULL && fclose(out) == 0 && fine;
    if (fine)
        return text;
    free(text);
    tern_fail(error, TERN_NO_MEMORY, "no memory to print the plan");
    return NULL;
}
