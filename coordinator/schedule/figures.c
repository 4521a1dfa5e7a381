#include "coordinator/schedule/figures.h"

static const uint64_t window_ns = (uint64_t)TERN_FIGURES_SLOTS * TERN_FIGURES_SLOT_NS;

void tern_figures_add(struct tern_figures *figures, struct tern_count rows, uint64_t spent,
                      uint64_t now)
{
    const uint64_t number = now / TERN_FIGURES_SLOT_NS, index = number % TERN_FIGURES_SLOTS;
    const uint64_t both = rows.prompt + rows.decode;
    if (both == 0)
        return;
    figures->steps++;
    figures->all.prompt += rows.prompt;
    figures->all.decode += rows.decode;
    const uint64_t for_prompt = (uint64_t)((double)spent * (double)rows.prompt / (double)both);
    figures->prompt_ns += for_prompt;
    figures->decode_ns += spent - for_prompt;
    if (figures->slot_number[index] != number)
        figures->slot[index] = (struct tern_count){0};
    figures->slot_number[index] = number;
    figures->slot[index].prompt += rows.prompt;
    figures->slot[index].decode += rows.decode;
    if (figures->steps == 1 || now - figures->newest_ns > window_ns)
        figures->active_ns = now > spent ? now - spent : 0;
    figures->newest_ns = now;
}

struct tern_rates tern_figures_recent(const struct tern_figures *figures, uint64_t now)
{
    const uint64_t number = now / TERN_FIGURES_SLOT_NS;
    struct tern_count sum = {0};
    for (int i = 0; i < TERN_FIGURES_SLOTS; i++)
        if (number - figures->slot_number[i] < TERN_FIGURES_SLOTS) {
            sum.prompt += figures->slot[i].prompt;
            sum.decode += figures->slot[i].decode;
        }
    /* The newest slot is not full yet. */
    uint64_t span = window_ns - TERN_FIGURES_SLOT_NS + now % TERN_FIGURES_SLOT_NS;
    if (now - figures->active_ns < span)
        span = now - figures->active_ns;
    if (sum.prompt + sum.decode == 0 || span == 0)
        return (struct tern_rates){0};
    return (struct tern_rates){.prompt = (double)sum.prompt * 1e9 / (double)span,
                               .decode = (double)sum.decode * 1e9 / (double)span};
}

static double rate(uint64_t tokens, uint64_t ns)
{
    return ns > 0 ? (double)tokens * 1e9 / (double)ns : 0;
}

struct tern_rates tern_figures_all(const struct tern_figures *figures)
{
    return (struct tern_rates){.prompt = rate(figures->all.prompt, figures->prompt_ns),
                               .decode = rate(figures->all.decode, figures->decode_ns)};
}
