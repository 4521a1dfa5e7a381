/*
 * The plan drawn: a line of boxes per layer, coloured by what they do; below it the activations
 * segment over time, where each rectangle is a value from the instruction that writes it to the
 * last one that reads it.
 */
#include "coordinator/graph/print.h"

#include <inttypes.h>
#include <stdlib.h>

enum { BOX_WIDTH = 170, BOX_HEIGHT = 34, GAP = 8, MARGIN = 90, MAP_HEIGHT = 400, MAP_WIDTH = 1500 };

static const char *color(uint16_t op)
{
    switch (op) {
    case TERN_OP_MATMUL:
    case TERN_OP_MATMUL_GLU:
    case TERN_OP_EMBED:
        return "#bcd9f2";
    case TERN_OP_ATTENTION:
    case TERN_OP_KV_WRITE:
    case TERN_OP_QKV_ROPE_WRITE:
        return "#f6d5a8";
    case TERN_OP_QUANTIZE:
        return "#dddddd";
    default:
        return "#c9e8c3";
    }
}

static void print_box(const struct tern_printer *p, uint32_t index, unsigned x, unsigned y,
                      FILE *out)
{
    const struct tern_instruction *code = &p->code[index];
    fprintf(out,
            "<rect x=\"%u\" y=\"%u\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" "
            "stroke=\"%s\"/>\n",
            x, y, BOX_WIDTH, BOX_HEIGHT, color(code->op),
            code->flags & TERN_ON_OUTPUTS ? "#c0392b" : "#888888");
    fprintf(out, "<text x=\"%u\" y=\"%u\">%s</text>\n", x + 6, y + 14,
            tern_plan_label(p->plan, code->label));
    const uint64_t bytes = tern_print_bytes(code);
    fprintf(out, "<text x=\"%u\" y=\"%u\" fill=\"#666666\">%s", x + 6, y + 28,
            tern_op_name(code->op));
    if (bytes >= 1 << 16)
        fprintf(out, ", %.2f MiB", tern_print_mib(bytes));
    fprintf(out, "</text>\n");
}

/* Widest line of boxes and number of lines. */
static void measure(const struct tern_printer *p, unsigned *widest, unsigned *lines)
{
    unsigned length = 0;
    *widest = *lines = 0;
    for (uint32_t i = 0; i < p->plan->instructions; i++) {
        const bool new_line = i == 0 || p->code[i].layer != p->code[i - 1].layer;
        length = new_line ? 1 : length + 1;
        *lines += new_line;
        *widest = length > *widest ? length : *widest;
    }
}

static void print_boxes(const struct tern_printer *p, FILE *out)
{
    unsigned x = 0, y = GAP;
    for (uint32_t i = 0; i < p->plan->instructions; i++) {
        const uint16_t layer = p->code[i].layer;
        if (i == 0 || layer != p->code[i - 1].layer) {
            y += i == 0 ? 0 : BOX_HEIGHT + GAP;
            x = MARGIN;
            if (layer != TERN_NO_LAYER)
                fprintf(out, "<text x=\"%d\" y=\"%u\">layer %u</text>\n", GAP, y + 20, layer);
        }
        print_box(p, i, x, y, out);
        x += BOX_WIDTH + GAP;
    }
}

/* last_read[3*i + k]: the last instruction that reads output k of instruction i. */
static uint32_t *find_last_reads(const struct tern_printer *p)
{
    const uint32_t count = p->plan->instructions;
    uint32_t *last = calloc(3 * (size_t)count, sizeof *last);
    for (uint32_t i = 0; last != NULL && i < count; i++)
        for (int k = 0; k < 3; k++) {
            const uint32_t writer = tern_print_writer(p, i, k);
            if (writer == UINT32_MAX)
                continue;
            for (int j = 0; j < 3; j++)
                if (p->code[writer].out[j].segment == TERN_SEGMENT_ACTIVATIONS &&
                    p->code[writer].out[j].offset == p->code[i].in[k].offset)
                    last[3 * writer + j] = i;
        }
    return last;
}

static void print_map(const struct tern_printer *p, const uint32_t *last, unsigned top, FILE *out)
{
    const double per_byte = (double)MAP_HEIGHT / (double)p->plan->activation_bytes;
    const double per_step = (double)MAP_WIDTH / p->plan->instructions;
    fprintf(out,
            "<text x=\"%d\" y=\"%u\">activations, %.1f MiB, over the instructions of a step"
            "</text>\n",
            MARGIN, top - 6, tern_print_mib(p->plan->activation_bytes));
    for (uint32_t i = 0; i < p->plan->instructions; i++)
        for (int k = 0; k < 3; k++) {
            const struct tern_instruction *code = &p->code[i];
            if (code->out[k].segment != TERN_SEGMENT_ACTIVATIONS)
                continue;
            const uint32_t rows =
                code->flags & TERN_ON_OUTPUTS ? p->plan->max_outputs : p->plan->max_rows;
            const uint32_t end = last[3 * i + (uint32_t)k] > i ? last[3 * i + (uint32_t)k] : i;
            fprintf(out,
                    "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
                    "stroke=\"#888888\" stroke-width=\"0.3\"/>\n",
                    MARGIN + i * per_step, top + (double)code->out[k].offset * per_byte,
                    (end - i + 1) * per_step, (double)code->out[k].stride * rows * per_byte,
                    color(code->op));
        }
}

bool tern_print_svg(const struct tern_printer *p, FILE *out)
{
    uint32_t *last = find_last_reads(p);
    if (last == NULL)
        return false;
    unsigned widest, lines;
    measure(p, &widest, &lines);
    const unsigned map_top = lines * (BOX_HEIGHT + GAP) + 40;
    unsigned width = MARGIN + widest * (BOX_WIDTH + GAP);
    if (width < MARGIN + MAP_WIDTH + GAP)
        width = MARGIN + MAP_WIDTH + GAP;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, map_top + MAP_HEIGHT + GAP);
    print_boxes(p, out);
    print_map(p, last, map_top, out);
    fprintf(out, "</svg>\n");
    free(last);
    return ferror(out) == 0;
}
