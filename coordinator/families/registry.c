/* All families; a new one is one line here. */
#include "coordinator/families/family.h"

#include <string.h>

#define FAMILIES(X)                                                                                \
    X(llama)                                                                                       \
    X(qwen2)                                                                                       \
    X(qwen3)                                                                                       \
    X(gemma3)

static const struct tern_family *const families[] = {
#define X(name) &tern_family_##name,
    FAMILIES(X)
#undef X
};

const struct tern_family *tern_family_find(struct tern_string architecture)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const char *name = families[i]->architecture;
        if (strlen(name) == architecture.length &&
            memcmp(name, architecture.bytes, architecture.length) == 0)
            return families[i];
    }
    return NULL;
}

const char *tern_family_names(void)
{
#define X(name) ", " #name
    static const char names[] = FAMILIES(X);
#undef X
    return names + 2;
}
