#include "tests/kernels/check.h"
#include <sys/mman.h>

const char *const kind_names[KINDS] = {"random", "largest", "smallest", "tiny", "sparse"};

uint32_t random_bits(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

uint32_t random_below(uint32_t limit)
{
    return (uint32_t)((uint64_t)random_bits() * limit >> 32);
}

float random_float(int low, int high)
{
    const uint32_t exponent = (uint32_t)(127 + low) + random_below((uint32_t)(high - low));
    return tern_float((random_bits() & 0x807fffffu) | exponent << 23);
}

enum { PAGE = 4096 };
struct guard_header {
    size_t bytes;
};

void *guarded_alloc(size_t bytes, size_t slack)
{
    const size_t body = (bytes + slack + 63) / 64 * 64;
    const size_t mapped = (body + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
    uint8_t *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        abort();
    if (mprotect(base + mapped - PAGE, PAGE, PROT_NONE) != 0)
        abort();
    uint8_t *p = base + mapped - PAGE - body;
    *(struct guard_header *)(void *)base = (struct guard_header){mapped};
    return p;
}

void guarded_free(void *p)
{
    /* The header lies one page or more before p, at the mapping's first page. */
    uint8_t *page = (uint8_t *)((uintptr_t)p / PAGE * PAGE);
    struct guard_header *header = (struct guard_header *)(void *)(page - PAGE);
    munmap(header, header->bytes);
}

void fill_pattern(void *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)p)[i] = (uint8_t)(0xa5 + 31 * i);
}

void fill_floats(float *x, size_t n, enum check_kind kind)
{
    for (size_t i = 0; i < n; i++) {
        switch (kind) {
        case KIND_RANDOM:
            x[i] = random_float(-6, 3);
            break;
        case KIND_LARGEST:
            x[i] = random_float(20, 30);
            break;
        case KIND_SMALLEST:
            x[i] = -random_float(2, 3);
            break;
        case KIND_TINY:
            x[i] = tern_value(random_float(-52, -46));
            break;
        default:
            x[i] = random_below(8) == 0 ? random_float(-3, 3) : 0.0f;
        }
    }
}

/* ---- Weights ---- */

static uint16_t half_of_kind(enum check_kind kind)
{
    const uint16_t sign = (uint16_t)(random_bits() & 0x8000u);
    const uint16_t mantissa = (uint16_t)(random_bits() & 0x3ffu);
    switch (kind) {
    case KIND_RANDOM:
        return (uint16_t)(sign | (5 + random_below(8)) << 10 | mantissa);
    case KIND_LARGEST:
        return 0x7bff;
    case KIND_SMALLEST:
        return 0xfbff;
    case KIND_TINY:
        return random_below(4) == 0 ? sign : (uint16_t)(sign | (mantissa & 15));
    default:
        return random_below(3) == 0 ? (uint16_t)(sign | mantissa) : sign;
    }
}

/* Offsets of a block's halves; -1: none. */
static void half_offsets(uint32_t type, int offset[2])
{
    offset[0] = type == TERN_Q6_K ? 208 : 0;
    const bool two =
        type == TERN_Q4_1 || type == TERN_Q5_1 || type == TERN_Q4_K || type == TERN_Q5_K;
    offset[1] = two ? 2 : -1;
}

static uint8_t byte_of_kind(enum check_kind kind)
{
    static const uint8_t extremes[] = {0x00, 0x80, 0xff, 0x7f, 0x81};
    switch (kind) {
    case KIND_LARGEST:
        return 0xff;
    case KIND_SMALLEST:
        return 0x80;
    case KIND_SPARSE:
        return extremes[random_below(sizeof extremes)];
    default:
        return (uint8_t)random_bits();
    }
}

static void fill_float_weights(uint32_t type, uint8_t *row, uint32_t columns, enum check_kind kind)
{
    for (uint32_t k = 0; k < columns; k++) {
        float x;
        fill_floats(&x, 1, kind);
        if (type == TERN_F32) {
            memcpy(row + 4 * (size_t)k, &x, 4);
            continue;
        }
        const uint16_t bits =
            type == TERN_BF16 ? (uint16_t)(tern_bits(x) >> 16) : half_of_kind(kind);
        memcpy(row + 2 * (size_t)k, &bits, 2);
    }
}

void fill_weights(uint32_t type, uint8_t *row, uint32_t columns, enum check_kind kind)
{
    const struct tern_type_info *info = tern_type_info(type);
    if (info->act_block == 0) {
        fill_float_weights(type, row, columns, kind);
        return;
    }
    int offset[2];
    half_offsets(type, offset);
    for (uint32_t k = 0; k < columns; k += info->block, row += info->bytes) {
        /* Some blocks saturate whatever the kind: sums of one sign are the largest there are. */
        const enum check_kind bytes = random_below(6) == 0 ? KIND_LARGEST : kind;
        for (uint32_t i = 0; i < info->bytes; i++)
            row[i] = byte_of_kind(bytes);
        if (type == TERN_Q8_0 && kind == KIND_LARGEST)
            memset(row, 0x7f, info->bytes);
        for (int i = 0; i < 2; i++) {
            const uint16_t half = half_of_kind(kind);
            if (offset[i] >= 0)
                memcpy(row + offset[i], &half, sizeof half);
        }
    }
}

/* ---- Activations ---- */

static int32_t code_of_kind(enum check_kind kind, int32_t limit)
{
    switch (kind) {
    case KIND_LARGEST:
        return limit;
    case KIND_SMALLEST:
        return -limit;
    case KIND_SPARSE: /* hi of every sign with lo = -128, and zeros */
        if (limit > 127 && random_below(2) == 0)
            return 256 * ((int32_t)random_below(254) - 126) - 128;
        return random_below(3) == 0 ? limit : 0;
    default:
        return (int32_t)random_below((uint32_t)(2 * limit + 1)) - limit;
    }
}

static float scale_of_kind(enum check_kind kind)
{
    switch (kind) {
    case KIND_TINY:
        return tern_float(tern_bits(random_float(-48, -30)) & 0x7fffffffu);
    case KIND_SPARSE:
        return random_below(4) == 0 ? 0.0f : 1.0f;
    default:
        return tern_float(tern_bits(random_float(-12, 0)) & 0x7fffffffu);
    }
}

void fill_act(struct tern_act act, uint32_t columns, uint8_t *row, enum check_kind kind)
{
    if (act.block == 0) {
        fill_floats((float *)(void *)row, columns, kind);
        return;
    }
    const struct tern_act_layout layout = tern_act_layout(act, columns);
    memset(row, 0, layout.stride);
    float *scale = (float *)(void *)(row + layout.scale);
    int32_t *sum = (int32_t *)(void *)(row + layout.sum);
    for (uint32_t k = 0; k < columns; k++) {
        const int32_t v = code_of_kind(kind, act.bits == 16 ? 32639 : 127);
        sum[k / 16] += v;
        if (k % act.block == 0)
            scale[k / act.block] = scale_of_kind(kind);
        const int32_t hi = (v + 128 + 65536) / 256 - 256;
        ((int8_t *)row)[k] = (int8_t)(act.bits == 16 ? hi : v);
        if (act.bits == 16)
            ((int8_t *)row)[layout.lo + k] = (int8_t)(v - 256 * hi);
    }
}

void for_each_tier(void (*check)(const struct tern_kernels *k))
{
    for (unsigned tier = TERN_SCALAR + 1; tier < TERN_TIERS; tier++) {
        const struct tern_kernels *k = tern_kernels((enum tern_tier)tier);
        if (k != NULL)
            check(k);
    }
}
