#include "coordinator/model/settle.h"

#include "coordinator/memory.h"
#include "proto/wait.h"

/* How long a worker may take to unmap; what it still holds then counts as used. */
#define MAPPED_NS (5ull * 1000 * 1000 * 1000)
/* How long the kernel may take: pages that were freed stay with a processor for a second or two,
 * and MemAvailable does not know them (a few hundred MiB were seen on Linux 6.18). */
#define COUNTED_NS (2ull * 1000 * 1000 * 1000)

void tern_settle_expect(struct tern_settling *settling, uint64_t bytes)
{
    const uint64_t now = tern_now_ns();
    struct tern_error error;
    uint64_t room;
    if (now - settling->since_ns > MAPPED_NS)
        settling->due = 0; /* nobody waited for that; others may have taken it since */
    settling->since_ns = now;
    if (tern_memory_room(&room, &error) == TERN_OK)
        settling->due = (room > settling->due ? room : settling->due) + bytes;
}

/* Others may take memory meanwhile: a sixteenth less will do, and the time is short. */
bool tern_settle_waits(struct tern_settling *settling, bool mapped)
{
    const uint64_t passed = tern_now_ns() - settling->since_ns;
    struct tern_error error;
    uint64_t room;
    if (settling->due == 0 && !mapped)
        return false;
    if (mapped && passed < MAPPED_NS)
        return true;
    if (passed < COUNTED_NS && tern_memory_room(&room, &error) == TERN_OK &&
        room < settling->due - settling->due / 16)
        return true;
    settling->due = 0;
    return false;
}
