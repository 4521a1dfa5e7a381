/* The plan as JSON, for programs. Sizes are bytes. */
#include "coordinator/graph/hyper.h"
#include "coordinator/graph/print.h"

#include <jansson.h>
#include <stdlib.h>

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *hyper_object(const struct tern_hyper *h)
{
    json_t *o = json_object();
    json_object_set_new(o, "architecture", json_string(tern_hyper_architecture(h)));
    json_object_set_new(o, "layers", number(h->layers));
    json_object_set_new(o, "width", number(h->width));
    json_object_set_new(o, "heads", number(h->heads));
    json_object_set_new(o, "kv_heads", number(h->kv_heads));
    json_object_set_new(o, "head_size", number(h->head_size));
    json_object_set_new(o, "ffn", number(h->ffn));
    json_object_set_new(o, "vocabulary", number(h->vocabulary));
    json_object_set_new(o, "window", number(h->window));
    json_object_set_new(o, "trained_context", number(h->trained_context));
    return o;
}

static json_t *pair(uint64_t before, uint64_t after)
{
    json_t *o = json_object();
    json_object_set_new(o, "before", number(before));
    json_object_set_new(o, "after", number(after));
    return o;
}

static json_t *operands(const struct tern_operand *operand)
{
    json_t *list = json_array();
    for (int k = 0; k < 3; k++) {
        if (operand[k].segment == TERN_SEGMENT_NONE)
            continue;
        json_t *o = json_object();
        json_object_set_new(o, "offset", number(operand[k].offset));
        json_object_set_new(o, "stride", number(operand[k].stride));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *weights(const struct tern_printer *p, const struct tern_weight *weight)
{
    json_t *list = json_array();
    for (int k = 0; k < TERN_OP_WEIGHTS; k++) {
        if (weight[k].rows == 0)
            continue;
        struct tern_tensor tensor;
        tern_catalog_tensor(p->catalog, weight[k].tensor, &tensor);
        json_t *o = json_object();
        json_object_set_new(o, "tensor", json_stringn(tensor.name.bytes, tensor.name.length));
        json_object_set_new(o, "type", json_string(tern_type_info(weight[k].type)->name));
        json_object_set_new(o, "rows", number(weight[k].rows));
        json_object_set_new(o, "columns", number(weight[k].columns));
        json_object_set_new(o, "bytes", number(tern_print_weight_bytes(&weight[k])));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *instruction_object(const struct tern_printer *p, uint32_t index)
{
    const struct tern_instruction *code = &p->code[index];
    json_t *o = json_object();
    json_object_set_new(o, "index", number(index));
    json_object_set_new(o, "operation", json_string(tern_op_name(code->op)));
    json_object_set_new(o, "name", json_string(tern_plan_label(p->plan, code->label)));
    json_object_set_new(o, "layer",
                        code->layer == TERN_NO_LAYER ? json_null() : number(code->layer));
    json_object_set_new(o, "stage", number(code->stage));
    json_object_set_new(o, "rows", json_string(code->flags & TERN_ON_OUTPUTS ? "output" : "all"));
    json_object_set_new(o, "columns", number(code->columns));
    json_object_set_new(o, "in", operands(code->in));
    json_object_set_new(o, "out", operands(code->out));
    json_object_set_new(o, "weights", weights(p, code->weight));
    json_object_set_new(o, "biases", weights(p, code->bias));
    if (code->act.block != 0) {
        json_t *act = json_object();
        json_object_set_new(act, "bits", number(code->act.bits));
        json_object_set_new(act, "block", number(code->act.block));
        json_object_set_new(o, "activations", act);
    }
    return o;
}

static json_t *stages(const struct tern_printer *p)
{
    json_t *list = json_array();
    for (uint32_t stage = 0; stage < p->plan->stages; stage++) {
        json_t *o = json_object();
        json_object_set_new(o, "worker", json_string("cpu"));
        json_object_set_new(o, "weight_bytes", number(tern_print_stage_bytes(p, stage)));
        json_array_append_new(list, o);
    }
    return list;
}

bool tern_print_json(const struct tern_printer *p, FILE *out)
{
    const struct tern_compile_report *r = &p->compiled->report;
    json_t *o = json_object();
    json_object_set_new(o, "model", hyper_object(&p->compiled->hyper));
    json_object_set_new(o, "max_rows", number(p->plan->max_rows));
    json_object_set_new(o, "max_outputs", number(p->plan->max_outputs));
    json_object_set_new(o, "context", number(p->plan->context));
    json_object_set_new(o, "weight_bytes", number(p->compiled->weight_bytes));
    json_object_set_new(o, "table_bytes", number(p->compiled->tables_bytes));
    json_object_set_new(o, "page_bytes", number(p->plan->kv.page_bytes));
    json_object_set_new(o, "page_positions", number(TERN_PAGE_POSITIONS));
    json_object_set_new(o, "operations", pair(r->operations_before, r->operations_after));
    json_object_set_new(o, "buffers", pair(r->buffers_before, r->buffers_after));
    json_object_set_new(o, "activation_bytes", pair(r->bytes_before, r->bytes_after));
    json_object_set_new(o, "stages", stages(p));
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->plan->instructions; i++)
        json_array_append_new(list, instruction_object(p, i));
    json_object_set_new(o, "instructions", list);
    const bool fine = json_dumpf(o, out, JSON_INDENT(1)) == 0;
    json_decref(o);
    fputc('\n', out);
    return fine && ferror(out) == 0;
}
