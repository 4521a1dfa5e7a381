/* Sorting: a merge sort, stable like Python's and never slow. */
#include "coordinator/chat/template/functions.h"

struct entry {
    struct value key, item;
};

static void merge(struct work *w, struct entry *from, struct entry *to, size_t low, size_t middle,
                  size_t high, bool reverse)
{
    size_t left = low, right = middle;
    for (size_t i = low; i < high; i++) {
        bool take_left = right == high;
        work_spend(w, 1);
        if (left < middle && right < high) {
            const int order = value_compare(w, from[left].key, from[right].key);
            take_left = reverse ? order >= 0 : order <= 0;
        }
        to[i] = take_left ? from[left++] : from[right++];
    }
}

struct value sorted(struct work *w, struct value items, sort_key *key, const void *context,
                    bool reverse)
{
    const struct value list = value_items(w, items);
    const size_t count = list.list->count;
    struct entry *from = work_take_array(w, count, sizeof *from),
                 *to = work_take_array(w, count, sizeof *to);
    for (size_t i = 0; i < count; i++) {
        from[i].item = list.list->item[i];
        from[i].key = key(w, from[i].item, context);
    }
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            const size_t middle = low + width < count ? low + width : count,
                         high = low + 2 * width < count ? low + 2 * width : count;
            merge(w, from, to, low, middle, high, reverse);
        }
        struct entry *swap = from;
        from = to;
        to = swap;
    }
    const struct value out = list_new(w, VALUE_LIST, count);
    for (size_t i = 0; i < count; i++)
        list_add(w, out, from[i].item);
    return out;
}
