/* Every integer format becomes the same thing first: a block of codes with sub-scales. Products and
 * rows of floats are then written once for all of them. */
#include "weights.h"

#include "numbers.h"

#include <stdlib.h>
#include <string.h>

/* weight[i] = (d * scale[g]) * code[i] + m * minimum[g], where g = i / group. K formats subtract
 * dmin: m is -dmin then, which gives the same bits. */
struct block {
    int size, group;
    bool has_minimum;
    float d, m;
    int32_t scale[16], minimum[16];
    int32_t code[256];
};

static float f16_at(const uint8_t *p)
{
    return from_f16((uint16_t)(p[0] | p[1] << 8));
}

/* 32 weights, one scale of 1; minimum 1 times m. The fifth bit of weight i is bit i of `high`. */
static void begin_32(struct block *b, float d, bool has_minimum, float m)
{
    b->size = b->group = 32;
    b->has_minimum = has_minimum;
    b->d = d;
    b->m = m;
    b->scale[0] = b->minimum[0] = 1;
}

static void nibbles(struct block *b, const uint8_t q[16], uint32_t high, int bias)
{
    for (int j = 0; j < 16; j++) {
        b->code[j] = (int32_t)((q[j] & 15) + (high >> j & 1) * 16) - bias;
        b->code[j + 16] = (int32_t)((q[j] >> 4) + (high >> (j + 16) & 1) * 16) - bias;
    }
}

static uint32_t u32_at(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void decode_q8_0(struct block *b, const uint8_t *p)
{
    begin_32(b, f16_at(p), false, 0);
    for (int i = 0; i < 32; i++)
        b->code[i] = (int8_t)p[2 + i];
}

static void decode_q4_0(struct block *b, const uint8_t *p)
{
    begin_32(b, f16_at(p), false, 0);
    nibbles(b, p + 2, 0, 8);
}

static void decode_q4_1(struct block *b, const uint8_t *p)
{
    begin_32(b, f16_at(p), true, f16_at(p + 2));
    nibbles(b, p + 4, 0, 0);
}

static void decode_q5_0(struct block *b, const uint8_t *p)
{
    begin_32(b, f16_at(p), false, 0);
    nibbles(b, p + 6, u32_at(p + 2), 16);
}

static void decode_q5_1(struct block *b, const uint8_t *p)
{
    begin_32(b, f16_at(p), true, f16_at(p + 2));
    nibbles(b, p + 8, u32_at(p + 4), 0);
}

/* 6-bit scales and minima of 8 groups of 32 in 12 bytes. */
static void begin_k(struct block *b, const uint8_t *p)
{
    const uint8_t *s = p + 4;
    b->size = 256;
    b->group = 32;
    b->has_minimum = true;
    b->d = f16_at(p);
    b->m = -f16_at(p + 2);
    for (int j = 0; j < 4; j++) {
        b->scale[j] = s[j] & 63;
        b->minimum[j] = s[j + 4] & 63;
    }
    for (int j = 4; j < 8; j++) {
        b->scale[j] = (s[j + 4] & 15) + 16 * (s[j - 4] >> 6);
        b->minimum[j] = (s[j + 4] >> 4) + 16 * (s[j] >> 6);
    }
}

static void decode_q4_k(struct block *b, const uint8_t *p)
{
    const uint8_t *qs = p + 16;
    begin_k(b, p);
    for (int g = 0; g < 4; g++)
        for (int l = 0; l < 32; l++) {
            b->code[64 * g + l] = qs[32 * g + l] & 15;
            b->code[64 * g + 32 + l] = qs[32 * g + l] >> 4;
        }
}

static void decode_q5_k(struct block *b, const uint8_t *p)
{
    const uint8_t *qh = p + 16, *qs = p + 48;
    begin_k(b, p);
    for (int g = 0; g < 4; g++)
        for (int l = 0; l < 32; l++) {
            b->code[64 * g + l] = (qs[32 * g + l] & 15) + 16 * (qh[l] >> 2 * g & 1);
            b->code[64 * g + 32 + l] = (qs[32 * g + l] >> 4) + 16 * (qh[l] >> (2 * g + 1) & 1);
        }
}

static void decode_q6_k(struct block *b, const uint8_t *p)
{
    const uint8_t *scales = p + 192;
    b->size = 256;
    b->group = 16;
    b->has_minimum = false;
    b->d = f16_at(p + 208);
    for (int i = 0; i < 16; i++)
        b->scale[i] = (int8_t)scales[i];
    for (int h = 0; h < 2; h++) {
        const uint8_t *ql = p + 64 * h, *qh = p + 128 + 32 * h;
        int32_t *code = b->code + 128 * h;
        for (int l = 0; l < 32; l++) {
            code[l] = (ql[l] & 15) + 16 * (qh[l] & 3) - 32;
            code[l + 32] = (ql[l + 32] & 15) + 16 * (qh[l] >> 2 & 3) - 32;
            code[l + 64] = (ql[l] >> 4) + 16 * (qh[l] >> 4 & 3) - 32;
            code[l + 96] = (ql[l + 32] >> 4) + 16 * (qh[l] >> 6) - 32;
        }
    }
}

/* `decode` is NULL for the plain floats, whose blocks are single weights. */
struct format {
    uint32_t type;
    size_t weights, bytes;
    void (*decode)(struct block *block, const uint8_t *bytes);
};

static const struct format formats[] = {
    {TYPE_F32, 1, 4, NULL},
    {TYPE_F16, 1, 2, NULL},
    {TYPE_BF16, 1, 2, NULL},
    {TYPE_Q8_0, 32, 34, decode_q8_0},
    {TYPE_Q4_0, 32, 18, decode_q4_0},
    {TYPE_Q4_1, 32, 20, decode_q4_1},
    {TYPE_Q5_0, 32, 22, decode_q5_0},
    {TYPE_Q5_1, 32, 24, decode_q5_1},
    {TYPE_Q4_K, 256, 144, decode_q4_k},
    {TYPE_Q5_K, 256, 176, decode_q5_k},
    {TYPE_Q6_K, 256, 210, decode_q6_k},
};

static const struct format *find(uint32_t type)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].type == type)
            return &formats[i];
    return NULL;
}

size_t weights_row_bytes(uint32_t type, size_t columns)
{
    const struct format *format = find(type);
    return format ? columns / format->weights * format->bytes : 0;
}

static const uint8_t *row_of(const struct tensor *tensor, size_t row)
{
    return tensor->data + row * weights_row_bytes(tensor->type, tensor->columns);
}

/* Weights are floats read from a file, so the value rule applies to them. */
static float plain_weight(uint32_t type, const uint8_t *row, size_t i)
{
    float x;
    if (type == TYPE_F16)
        return value(f16_at(row + 2 * i));
    if (type == TYPE_BF16)
        return value(from_bf16((uint16_t)(row[2 * i] | row[2 * i + 1] << 8)));
    memcpy(&x, row + 4 * i, sizeof x);
    return value(x);
}

static const struct format *format_of(const struct tensor *tensor)
{
    const struct format *format = find(tensor->type);
    if (!format || tensor->columns % format->weights != 0)
        fail("tensor %.*s: type %u with %zu columns is not known", (int)tensor->name_length,
             tensor->name, tensor->type, tensor->columns);
    return format;
}

static void block_weights(float *out, const struct block *b)
{
    for (int i = 0; i < b->size; i++) {
        const int g = i / b->group;
        float w = (b->d * (float)b->scale[g]) * (float)b->code[i];
        if (b->has_minimum)
            w = w + b->m * (float)b->minimum[g];
        out[i] = value(w);
    }
}

void weights_row(float *out, const struct tensor *tensor, size_t row)
{
    const struct format *format = format_of(tensor);
    const uint8_t *bytes = row_of(tensor, row);
    struct block block;
    for (size_t i = 0; i < tensor->columns; i += format->weights) {
        if (format->decode) {
            format->decode(&block, bytes + i / format->weights * format->bytes);
            block_weights(out + i, &block);
        } else {
            out[i] = plain_weight(tensor->type, bytes, i);
        }
    }
}

/* The term of one block: v are its activations as integers, their scale is `as`. The integers are
 * summed exactly and converted to float with one rounding. */
static float block_term(const struct block *b, const int32_t *v, float as)
{
    int64_t sum = 0, minimum_sum = 0;
    for (int g = 0; g < b->size / b->group; g++) {
        int32_t products = 0, total = 0; /* at most 32 * 128 * 32639 */
        for (int i = g * b->group; i < (g + 1) * b->group; i++) {
            products += b->code[i] * v[i];
            total += v[i];
        }
        sum += (int64_t)b->scale[g] * products;
        if (b->has_minimum)
            minimum_sum += (int64_t)b->minimum[g] * total;
    }
    const float term = (b->d * as) * (float)sum;
    return b->has_minimum ? term + (b->m * as) * (float)minimum_sum : term;
}

static void integer_product(float *out, const struct tensor *tensor, const struct format *format,
                            const float *x, int steps)
{
    const size_t blocks = tensor->columns / format->weights;
    int32_t *v = allocate(tensor->columns, sizeof *v);
    float *as = allocate(blocks, sizeof *as);
    for (size_t k = 0; k < blocks; k++)
        as[k] = quantize(v + k * format->weights, x + k * format->weights, format->weights, steps);
    for (size_t row = 0; row < tensor->rows; row++) {
        const uint8_t *bytes = row_of(tensor, row);
        float sum = 0;
        for (size_t k = 0; k < blocks; k++) {
            struct block block;
            format->decode(&block, bytes + k * format->bytes);
            const float term = block_term(&block, v + k * format->weights, as[k]);
            sum = k == 0 ? term : sum + term;
        }
        out[row] = value(sum);
    }
    free(v);
    free(as);
}

void weights_product(float *out, const struct tensor *tensor, const float *x, int steps)
{
    const struct format *format = format_of(tensor);
    if (format->decode) {
        integer_product(out, tensor, format, x, steps);
        return;
    }
    float *row = allocate(tensor->columns, sizeof *row);
    for (size_t r = 0; r < tensor->rows; r++) {
        weights_row(row, tensor, r);
        out[r] = value(dot(row, x, tensor->columns));
    }
    free(row);
}
