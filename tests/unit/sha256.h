/* SHA-256 (FIPS 180-4), for golden files that give a digest. */
#ifndef TERN_TEST_SHA256_H
#define TERN_TEST_SHA256_H

#include <stddef.h>

/* digest: 64 hexadecimal digits and a NUL. */
void test_sha256(const void *bytes, size_t length, char digest[65]);

#endif
