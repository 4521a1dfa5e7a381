/* Written out here so that tests need no cryptographic library. */
#include "tests/unit/sha256.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t turn(uint32_t word, int bits)
{
    return word >> bits | word << (32 - bits);
}

/* First 32 bits of the fraction of the root. */
static uint32_t fraction(long double root)
{
    return (uint32_t)((root - floorl(root)) * 4294967296.0L);
}

/* The constants are fractions of roots of the first primes, by definition. */
static void find_constants(uint32_t state[8], uint32_t constant[64])
{
    int found = 0;
    for (int number = 2; found < 64; number++) {
        bool prime = true;
        for (int i = 2; i * i <= number; i++)
            prime = prime && number % i != 0;
        if (!prime)
            continue;
        if (found < 8)
            state[found] = fraction(sqrtl(number));
        constant[found++] = fraction(cbrtl(number));
    }
}

static void add_block(uint32_t state[8], const uint32_t constant[64], const uint8_t *block)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        const uint32_t first = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) +
                               ((v[4] & v[5]) ^ (~v[4] & v[6])) + constant[i] + w[i];
        const uint32_t second = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) +
                                ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void test_sha256(const void *bytes, size_t length, char digest[65])
{
    uint32_t state[8], constant[64];
    find_constants(state, constant);
    const size_t padded = (length + 9 + 63) / 64 * 64;
    uint8_t *message = calloc(padded, 1);
    memcpy(message, bytes, length);
    message[length] = 0x80;
    for (int i = 0; i < 8; i++)
        message[padded - 1 - (size_t)i] = (uint8_t)((uint64_t)length * 8 >> 8 * i);
    for (size_t i = 0; i < padded; i += 64)
        add_block(state, constant, message + i);
    free(message);
    for (int i = 0; i < 8; i++)
        snprintf(digest + 8 * i, 9, "%08x", state[i]);
}
