/* The plan as a graph for Graphviz: instructions, and who reads whose values. */
#include "coordinator/graph/print.h"

static void print_node(const struct tern_printer *p, uint32_t index, FILE *out)
{
    const struct tern_instruction *code = &p->code[index];
    fprintf(out, "    n%u [label=\"%s\\n%s", index, tern_plan_label(p->plan, code->label),
            tern_op_name(code->op));
    const uint64_t bytes = tern_print_bytes(code);
    if (bytes >= 1 << 16)
        fprintf(out, ", %.2f MiB", tern_print_mib(bytes));
    fprintf(out, "\"%s];\n", code->flags & TERN_ON_OUTPUTS ? ", style=\"rounded,filled\"" : "");
}

/* The instructions of one layer in a box of their own; `index` is its first, the next one's is
 * returned. */
static uint32_t print_layer(const struct tern_printer *p, uint32_t index, FILE *out)
{
    const uint16_t layer = p->code[index].layer;
    const bool boxed = layer != TERN_NO_LAYER;
    if (boxed)
        fprintf(out, "  subgraph cluster_%u {\n    label=\"layer %u\";\n", index, layer);
    for (; index < p->plan->instructions && p->code[index].layer == layer; index++)
        print_node(p, index, out);
    if (boxed)
        fprintf(out, "  }\n");
    return index;
}

static void print_edges(const struct tern_printer *p, uint32_t index, FILE *out)
{
    for (int k = 0; k < 3; k++) {
        const uint32_t writer = tern_print_writer(p, index, k);
        if (writer != UINT32_MAX)
            fprintf(out, "  n%u -> n%u;\n", writer, index);
    }
    const struct tern_instruction *code = &p->code[index];
    if (code->op != TERN_OP_KV_WRITE && code->op != TERN_OP_QKV_ROPE_WRITE)
        return;
    for (uint32_t i = index + 1; i < p->plan->instructions; i++)
        if (p->code[i].op == TERN_OP_ATTENTION && p->code[i].kv_layer == code->kv_layer)
            fprintf(out, "  n%u -> n%u [style=dashed, label=\"cache\"];\n", index, i);
}

bool tern_print_dot(const struct tern_printer *p, FILE *out)
{
    fprintf(out, "digraph plan {\n  rankdir=TB;\n  node [shape=box, style=rounded, "
                 "fontname=\"sans-serif\", fillcolor=\"#eeeeee\"];\n");
    for (uint32_t i = 0; i < p->plan->instructions;)
        i = print_layer(p, i, out);
    for (uint32_t i = 0; i < p->plan->instructions; i++)
        print_edges(p, i, out);
    fprintf(out, "}\n");
    return ferror(out) == 0;
}
