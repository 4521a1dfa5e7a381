#include "inject.h"

#include "proto/status.h"
#include "proto/worker.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ORDERS = 16 };
enum action { CRASH, HANG, SPIN, EXIT, POISON };

struct order {
    enum action action;
    uint64_t step;        /* 0: every */
    uint32_t instruction; /* UINT32_MAX: every */
};

static struct {
    struct order order[MAX_ORDERS];
    uint32_t orders;
    bool twice;
} injected; /* written before threads start */

static const char *const action_names[] = {
    [CRASH] = "crash", [HANG] = "hang", [SPIN] = "spin", [EXIT] = "exit", [POISON] = "nan",
};

static bool read_number(const char *text, uint64_t every, uint64_t *value)
{
    char *end;
    *value = strcmp(text, "*") == 0 ? every : strtoull(text, &end, 10);
    return strcmp(text, "*") == 0 || (end != text && *end == '\0');
}

static bool read_order(char *text, struct order *order)
{
    char *rest;
    const char *action = strtok_r(text, ":", &rest);
    const char *step = strtok_r(NULL, ":", &rest);
    const char *instruction = strtok_r(NULL, ":", &rest);
    uint64_t index;
    if (instruction == NULL || !read_number(step, 0, &order->step) ||
        !read_number(instruction, UINT32_MAX, &index))
        return false;
    order->instruction = (uint32_t)index;
    for (size_t i = 0; i < sizeof action_names / sizeof action_names[0]; i++) {
        if (strcmp(action, action_names[i]) != 0)
            continue;
        order->action = (enum action)i;
        return true;
    }
    return false;
}

bool tern_inject_setup(void)
{
    const char *twice = getenv("TERN_RUN_TWICE");
    const char *orders = getenv("TERN_INJECT");
    injected.twice = twice != NULL && strcmp(twice, "1") == 0;
    if (orders == NULL)
        return true;
    char *text = strdup(orders), *rest;
    if (text == NULL)
        return false;
    for (char *one = strtok_r(text, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest))
        if (injected.orders == MAX_ORDERS || !read_order(one, &injected.order[injected.orders++])) {
            tern_log("error", "TERN_INJECT=%s is malformed", orders);
            free(text);
            return false;
        }
    free(text);
    return true;
}

static bool is_meant(const struct order *order, const struct tern_run *run,
                     const struct tern_call *call)
{
    return (order->step == 0 || order->step == run->number) &&
           (order->instruction == UINT32_MAX || order->instruction == call->index);
}

static void act(enum action action)
{
    switch (action) {
    case CRASH:
        signal(SIGSEGV, SIG_DFL); /* also under a sanitizer's handler */
        raise(SIGSEGV);
        break;
    case HANG:
        for (;;)
            pause();
    case SPIN:
        for (;;)
            tern_pause();
    case EXIT:
        _exit(TERN_WORKER_RETRY);
    case POISON:
        break; /* afterwards */
    }
}

void tern_inject_before(const struct tern_run *run, const struct tern_call *call)
{
    for (uint32_t i = 0; i < injected.orders; i++)
        if (is_meant(&injected.order[i], run, call))
            act(injected.order[i].action);
}

void tern_inject_after(const struct tern_run *run, const struct tern_call *call)
{
    static const uint32_t nan_bits = 0x7fc00000;
    for (uint32_t i = 0; i < injected.orders; i++)
        if (injected.order[i].action == POISON && is_meant(&injected.order[i], run, call) &&
            call->out[0].base != NULL)
            memcpy(call->out[0].base, &nan_bits, sizeof nan_bits);
}

bool tern_inject_twice(void)
{
    return injected.twice;
}

/* FNV-1a over 64-bit words; sizes are multiples of 8 or their last bytes are left out. */
static uint64_t add_bytes(uint64_t sum, const uint8_t *bytes, uint64_t size)
{
    for (uint64_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        sum = (sum ^ word) * 0x100000001b3u;
    }
    return sum;
}

uint64_t tern_inject_sum(const struct tern_run *run)
{
    const struct tern_program *program = run->program;
    const struct tern_kv_layout *kv = &program->header.kv;
    uint64_t sum =
        add_bytes(0xcbf29ce484222325u, program->activations.data, program->header.activation_bytes);
    for (uint32_t i = 0; kv->layers != 0 && i < run->rows; i++) {
        const struct tern_row *row = &run->row[i];
        const uint64_t page = run->page_table[row->sequence][row->position / TERN_PAGE_POSITIONS];
        sum = add_bytes(sum, program->cache + page * kv->page_bytes, kv->page_bytes);
    }
    return add_bytes(sum, (const uint8_t *)run->argmax, run->outputs * sizeof run->argmax[0]);
}

static bool any_fault(const struct tern_run *run)
{
    for (uint32_t i = 0; i < run->rows; i++)
        if (atomic_load(&run->fault[i]) != 0)
            return true;
    for (uint32_t i = 0; i < run->outputs; i++)
        if (atomic_load(&run->output_fault[i]) != 0)
            return true;
    return false;
}

/* What failed rows hold depends on who noticed first; they are nobody's answer. */
void tern_inject_compare(const struct tern_run *run, const struct tern_call *first, uint64_t before)
{
    if (any_fault(run) || tern_inject_sum(run) == before)
        return;
    tern_log("error", "step %llu, stage %u: run twice, it wrote other bytes",
             (unsigned long long)run->number, first->stage);
    _exit(TERN_WORKER_FATAL);
}
