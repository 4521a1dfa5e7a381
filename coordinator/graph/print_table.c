/* The plan as a table for people: what the model is, what the compiler saved, every instruction. */
#include "coordinator/graph/hyper.h"
#include "coordinator/graph/print.h"

#include <inttypes.h>

static void print_model(const struct tern_printer *p, FILE *out)
{
    const struct tern_hyper *h = &p->compiled->hyper;
    fprintf(out,
            "model       %s: %u layers, width %u, %u heads on %u KV heads of %u, FFN %u, "
            "vocabulary %u\n",
            tern_hyper_architecture(h), h->layers, h->width, h->heads, h->kv_heads, h->head_size,
            h->ffn, h->vocabulary);
    if (h->window > 0)
        fprintf(out, "window      %u positions\n", h->window);
    fprintf(out, "step        %u rows, %u of them output rows\n", p->plan->max_rows,
            p->plan->max_outputs);
}

static void print_memory(const struct tern_printer *p, FILE *out)
{
    const struct tern_kv_layout *kv = &p->plan->kv;
    const uint64_t pages =
        ((uint64_t)p->plan->context + TERN_PAGE_POSITIONS - 1) / TERN_PAGE_POSITIONS;
    fprintf(out, "weights     %.1f MiB\n", tern_print_mib(p->compiled->weight_bytes));
    fprintf(out, "cache       %.1f MiB for %u positions, %s, pages of %d positions\n",
            tern_print_mib(pages * kv->page_bytes), p->plan->context,
            kv->type == TERN_KV_F16 ? "f16" : "f32", TERN_PAGE_POSITIONS);
    fprintf(out, "tables      %.1f MiB, %u for RoPE\n", tern_print_mib(p->compiled->tables_bytes),
            p->compiled->tables);
}

static void print_report(const struct tern_printer *p, FILE *out)
{
    const struct tern_compile_report *r = &p->compiled->report;
    fprintf(out, "operations  %u -> %u\n", r->operations_before, r->operations_after);
    fprintf(out, "buffers     %u -> %u, %.1f -> %.1f MiB\n", r->buffers_before, r->buffers_after,
            tern_print_mib(r->bytes_before), tern_print_mib(r->bytes_after));
    for (uint32_t stage = 0; stage < p->plan->stages; stage++)
        fprintf(out, "stage %-5u cpu, reads %.1f MiB of weights\n", stage,
                tern_print_mib(tern_print_stage_bytes(p, stage)));
}

static void print_weights(const struct tern_instruction *code, FILE *out)
{
    const char *between = "";
    for (int k = 0; k < TERN_OP_WEIGHTS; k++) {
        const struct tern_weight *weight = &code->weight[k];
        if (weight->rows == 0)
            continue;
        fprintf(out, "%s%s %ux%u%s", between, tern_type_info(weight->type)->name, weight->rows,
                weight->columns, code->bias[k].rows != 0 ? "+bias" : "");
        between = ", ";
    }
    if (code->act.block != 0)
        fprintf(out, "%sa%u/%u", *between != '\0' ? " " : "", code->act.bits, code->act.block);
}

static void print_instruction(const struct tern_printer *p, uint32_t index, FILE *out)
{
    const struct tern_instruction *code = &p->code[index];
    char layer[16] = "-";
    if (code->layer != TERN_NO_LAYER)
        snprintf(layer, sizeof layer, "%u", code->layer);
    fprintf(out, "%5u %5s %5u  %-6s %-14s %-30s", index, layer, code->stage,
            code->flags & TERN_ON_OUTPUTS ? "output" : "all", tern_op_name(code->op),
            tern_plan_label(p->plan, code->label));
    const uint64_t bytes = tern_print_bytes(code);
    if (bytes > 0)
        fprintf(out, " %9.3f  ", tern_print_mib(bytes));
    else
        fprintf(out, " %9s  ", "");
    print_weights(code, out);
    fputc('\n', out);
}

bool tern_print_table(const struct tern_printer *p, FILE *out)
{
    print_model(p, out);
    print_memory(p, out);
    print_report(p, out);
    fprintf(out, "\n%5s %5s %5s  %-6s %-14s %-30s %9s  %s\n", "#", "layer", "stage", "rows",
            "operation", "name", "MiB", "weights, activations");
    for (uint32_t i = 0; i < p->plan->instructions; i++)
        print_instruction(p, i, out);
    return ferror(out) == 0;
}
