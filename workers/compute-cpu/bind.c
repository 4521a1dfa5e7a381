#include "bind.h"
#include "binder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool tern_bind_refuse(struct binder *b, enum tern_status status, const char *format, ...)
{
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    b->status = status;
    if (b->instruction == NULL)
        tern_fail(b->error, status, "plan %u: %s", b->program->plan, text);
    else
        tern_fail(b->error, status, "plan %u, instruction %u (%.60s, %s): %s", b->program->plan,
                  b->call->index, tern_plan_label(b->plan, b->instruction->label),
                  tern_op_name(b->instruction->op), text);
    return false;
}

static bool check_header(struct binder *b)
{
    const struct tern_plan *plan = &b->program->header;
    if (plan->max_rows == 0 || plan->max_rows > TERN_MAX_ROWS || plan->max_outputs == 0 ||
        plan->max_outputs > plan->max_rows)
        return tern_bind_refuse(b, TERN_FAILED, "%u rows and %u outputs: must be 1 to %d",
                                plan->max_rows, plan->max_outputs, TERN_MAX_ROWS);
    if (plan->context == 0 || plan->context > TERN_MAX_CONTEXT)
        return tern_bind_refuse(b, TERN_FAILED, "a context of %u positions: must be 1 to %d",
                                plan->context, TERN_MAX_CONTEXT);
    if (plan->vocabulary == 0 || plan->vocabulary > MAX_COLUMNS)
        return tern_bind_refuse(b, TERN_FAILED, "a vocabulary of %u: must be 1 to %d",
                                plan->vocabulary, MAX_COLUMNS);
    if (plan->stages > TERN_MAX_STAGES)
        return tern_bind_refuse(b, TERN_FAILED, "%u stages: must be 1 to %d", plan->stages,
                                TERN_MAX_STAGES);
    if (plan->activation_bytes > b->segments->activations.size)
        return tern_bind_refuse(b, TERN_FAILED,
                                "needs %llu bytes of activations, the segment has %llu",
                                (unsigned long long)plan->activation_bytes,
                                (unsigned long long)b->segments->activations.size);
    return tern_bind_place(b, "logits", &plan->logits, plan->vocabulary * sizeof(float),
                           plan->max_outputs) &&
           tern_bind_cache(b);
}

/* Stages are runs of instructions, numbered 0, 1, 2, ... */
static bool check_stage(struct binder *b)
{
    const struct tern_instruction *in = b->instruction;
    const uint32_t index = b->call->index;
    const bool last = index + 1 == b->program->header.instructions;
    const uint32_t before = index == 0 ? 0 : in[-1].stage;
    const bool starts = index > 0 && in->stage == before + 1u;
    if (!starts && in->stage != before)
        return tern_bind_refuse(b, TERN_FAILED, "stage %u follows stage %u", in->stage, before);
    if (last && in->stage + 1u != b->program->header.stages)
        return tern_bind_refuse(b, TERN_FAILED, "the last stage is %u of %u", in->stage + 1,
                                b->program->header.stages);
    if (starts)
        b->call[-1].ends_stage = true;
    b->call->stage = in->stage;
    b->call->ends_stage = last;
    return true;
}

static bool bind_calls(struct binder *b)
{
    const struct tern_instruction *instructions = tern_plan_instructions(b->plan);
    const struct tern_plan *plan = &b->program->header;
    for (uint32_t i = 0; i < plan->instructions; i++) {
        b->instruction = &instructions[i];
        b->call = &b->program->call[i];
        b->places = 0;
        b->call->index = i;
        b->call->kernels = b->program->kernels;
        b->call->outputs = b->instruction->flags & TERN_ON_OUTPUTS;
        b->rows = b->call->outputs ? plan->max_outputs : plan->max_rows;
        if (!check_stage(b) || !tern_bind_instruction(b))
            return false;
    }
    return true;
}

/* From the last call to the first: which product comes next. */
static void link_products(struct tern_program *program)
{
    const struct tern_call *following = NULL;
    for (uint32_t i = program->header.instructions; i-- > 0;) {
        program->call[i].following = following;
        if (program->call[i].chunks > 0)
            following = &program->call[i];
    }
}

/* Untouched pages cost nothing; each thread touches its own, so they lie near its core. */
static bool make_scratch(struct binder *b)
{
    struct tern_program *program = b->program;
    uint64_t bytes;
    if (!tern_align(TERN_KERNEL_SCRATCH + program->row_scratch, 4096, &program->scratch_stride) ||
        !tern_mul(program->scratch_stride, program->threads, &bytes))
        bytes = UINT64_MAX;
    void *map = bytes > SIZE_MAX / 2 ? MAP_FAILED
                                     : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    b->instruction = NULL;
    if (map == MAP_FAILED)
        return tern_bind_refuse(b, TERN_NO_MEMORY, "no memory for the scratch of %u threads",
                                program->threads);
    program->scratch = map;
    return true;
}

static struct tern_program *new_program(uint32_t number, const struct tern_plan *plan,
                                        const struct tern_kernels *kernels, uint32_t threads)
{
    struct tern_program *program = calloc(1, sizeof *program);
    if (program == NULL)
        return NULL;
    program->plan = number;
    program->threads = threads;
    program->kernels = kernels;
    program->header = *plan;
    program->token_limit = plan->vocabulary;
    program->call = calloc(plan->instructions, sizeof *program->call);
    if (program->call != NULL)
        return program;
    free(program);
    return NULL;
}

enum tern_status tern_bind(uint32_t plan, const struct tern_program_segments *segments,
                           const struct tern_kernels *kernels, uint32_t threads,
                           struct tern_program **program, struct tern_error *error)
{
    *program = NULL;
    if (threads == 0 || threads > TERN_MAX_THREADS)
        return tern_fail(error, TERN_USAGE, "%u threads: must be 1 to %d", threads,
                         TERN_MAX_THREADS);
    const enum tern_status status = tern_plan_check(&segments->plan, error);
    if (status != TERN_OK)
        return status;

    struct binder binder = {
        .segments = segments,
        .plan = (const struct tern_plan *)(const void *)segments->plan.data,
        .error = error,
    };
    binder.program = new_program(plan, binder.plan, kernels, threads);
    if (binder.program == NULL)
        return tern_fail(error, TERN_NO_MEMORY, "plan %u: out of memory", plan);
    binder.program->activations = segments->activations;
    binder.program->cache = segments->kv.data;
    if (!check_header(&binder) || !bind_calls(&binder) || !make_scratch(&binder)) {
        tern_program_free(binder.program);
        return binder.status;
    }
    link_products(binder.program);
    *program = binder.program;
    return TERN_OK;
}

void tern_program_free(struct tern_program *program)
{
    if (program == NULL)
        return;
    if (program->scratch != NULL)
        munmap(program->scratch, program->scratch_stride * program->threads);
    free(program->call);
    free(program);
}
