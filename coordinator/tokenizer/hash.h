/*
 * Hashing of token texts. Seeded by chance once per tokenizer, so that no model file can be made
 * whose tokens all collide.
 */
#ifndef TERN_TOKENIZER_HASH_H
#define TERN_TOKENIZER_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Both halves of the 128-bit product: every bit of a and b reaches every bit of the result. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_word(uint64_t word, uint64_t seed)
{
    return hash_fold(word ^ seed, 0x9e3779b97f4a7c15u ^ (seed << 1 | 1));
}

static inline uint64_t hash_bytes(const char *bytes, size_t length, uint64_t seed)
{
    uint64_t hash = hash_word(length, seed);
    for (; length >= 8; length -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = hash_word(word ^ hash, seed);
    }
    uint64_t last = 0;
    if (length >= 4) {
        uint32_t low, high;
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + length - 4, 4);
        last = (uint64_t)high << 32 | low;
    } else if (length > 0) {
        const unsigned char *s = (const unsigned char *)bytes;
        last = (uint64_t)s[0] << 16 | (uint64_t)s[length / 2] << 8 | s[length - 1];
    }
    return hash_word(last ^ hash, seed);
}

#endif
