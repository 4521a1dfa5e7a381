/*
 * The operations on one row or head that are no products: norm, add, gated activation, argmax,
 * RoPE, key and value store, and widened embedding rows of the common types. Compiled once per
 * tier. Lanes past a row's end hold +0, which changes no sum and no finite test.
 */
#include "proto/numerics/product.h"
#include "workers/compute-cpu/kernels/functions_simd.h"
#include "workers/compute-cpu/kernels/operations.h"
#include <math.h>

INLINE vf load_row(const float *x, uint32_t i, uint32_t n)
{
    return n - i >= LANES ? vf_load(x + i) : vf_load_first(x + i, n - i);
}
INLINE void store_row(float *out, uint32_t i, uint32_t n, vf y)
{
    if (n - i >= LANES)
        vf_store(out + i, y);
    else
        vf_store_first(out + i, n - i, y);
}

/* Sum of squares in 16 chains. */
static float sum_squares(const float *x, uint32_t n)
{
    vf sum[PER16];
    for (unsigned c = 0; c < PER16; c++)
        sum[c] = vf_zero();
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        for (unsigned c = 0; c < PER16; c++) {
            const vf v = vf_load(x + i + c * LANES);
            sum[c] = vf_add(sum[c], vf_mul(v, v));
        }
    }
    for (unsigned c = 0; c < PER16 && i < n; c++, i += LANES) {
        const vf v = load_row(x, i, n);
        sum[c] = vf_add(sum[c], vf_mul(v, v));
    }
    float chain[16];
    for (unsigned c = 0; c < PER16; c++)
        vf_store(chain + c * LANES, sum[c]);
    return tern_join16(chain);
}

bool TIER(norm)(const float *x, const float *gain, uint32_t n, float epsilon, float *out)
{
    const float squares = sum_squares(x, n);
    if (!tern_finite(squares))
        return false;
    const float mean = squares / (float)n;
    const vf inverse = vf_set1(1.0f / sqrtf(mean + epsilon));
    vi largest = vi_zero();
    for (uint32_t i = 0; i < n; i += LANES) {
        const vf y = vf_mul(vf_mul(load_row(x, i, n), inverse), load_row(gain, i, n));
        const vf value = vf_value(y);
        largest = track_magnitude(largest, value);
        store_row(out, i, n, value);
    }
    return tracked_finite(largest);
}

bool TIER(add)(const float *a, const float *b, uint32_t n, float *out)
{
    vi largest = vi_zero();
    for (uint32_t i = 0; i < n; i += LANES) {
        const vf value = vf_value(vf_add(load_row(a, i, n), load_row(b, i, n)));
        largest = track_magnitude(largest, value);
        store_row(out, i, n, value);
    }
    return tracked_finite(largest);
}

bool TIER(glu)(enum tern_activation act, const float *gate, const float *up, uint32_t n, float *out)
{
    vi largest = vi_zero();
    for (uint32_t i = 0; i < n; i += LANES) {
        const vf g = load_row(gate, i, n);
        const vf activated = act == TERN_GELU ? vf_gelu(g) : vf_silu(g);
        const vf value = vf_value(vf_mul(activated, load_row(up, i, n)));
        largest = track_magnitude(track_magnitude(largest, g), value);
        store_row(out, i, n, value);
    }
    return tracked_finite(largest);
}

uint32_t TIER(argmax)(const float *x, uint32_t n)
{
    if (n < LANES)
        return tern_argmax(x, n);
    const vi step = vi_set1(LANES);
    int32_t index[LANES];
    for (int32_t i = 0; i < LANES; i++)
        index[i] = i;
    vi at = vi_load(index);
    vf best = vf_load(x);
    vi best_at = at;
    uint32_t i = LANES;
    for (; i + LANES <= n; i += LANES) {
        at = vi_add(at, step);
        const vf v = vf_load(x + i);
        best_at = vi_bits(vf_greater_select(v, best, vf_bits(at), vf_bits(best_at)));
        best = vf_greater_select(v, best, v, best);
    }
    float value[LANES];
    vf_store(value, best);
    vi_store(index, best_at);
    uint32_t first = 0;
    for (uint32_t lane = 1; lane < LANES; lane++)
        if (value[lane] > value[first] ||
            (value[lane] == value[first] && index[lane] < index[first]))
            first = lane;
    uint32_t found = (uint32_t)index[first];
    for (; i < n; i++)
        found = x[i] > x[found] ? i : found;
    return found;
}

/* ---- RoPE: as many whole registers of pairs as there are; the scalar code turns the rest ---- */

static uint32_t rotate_interleaved(const float *x, const float *pairs, uint32_t size, float *out,
                                   vi *largest)
{
    int32_t sign[LANES];
    for (int i = 0; i < LANES; i++)
        sign[i] = i % 2 == 0 ? INT32_MIN : 0;
    const vi negative = vi_load(sign);
    uint32_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        const vf v = vf_load(x + i);
        const vf table = vf_load(pairs + i);
        const vf by_sin = vf_mul(vf_pair_exchange(v), vf_pair_second(table));
        const vf turned = vf_bits(vi_xor(vi_bits(by_sin), negative));
        const vf y = vf_value(vf_add(vf_mul(v, vf_pair_first(table)), turned));
        *largest = track_magnitude(*largest, y);
        vf_store(out + i, y);
    }
    return i / 2;
}

static uint32_t rotate_halves(const float *x, const float *pairs, uint32_t count, float *out,
                              vi *largest)
{
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        vf c, s;
        vf_split_pairs(vf_load(pairs + 2 * i), vf_load(pairs + 2 * i + LANES), &c, &s);
        const vf x1 = vf_load(x + i);
        const vf x2 = vf_load(x + count + i);
        const vf y1 = vf_value(vf_sub(vf_mul(x1, c), vf_mul(x2, s)));
        const vf y2 = vf_value(vf_add(vf_mul(x2, c), vf_mul(x1, s)));
        *largest = track_magnitude(track_magnitude(*largest, y1), y2);
        vf_store(out + i, y1);
        vf_store(out + count + i, y2);
    }
    return i;
}

bool TIER(rope)(const float *x, const float *pairs, uint32_t head_size, uint32_t rope_size,
                enum tern_rope_pairs order, float *out)
{
    const uint32_t count = rope_size / 2;
    vi largest = vi_zero();
    const bool interleaved = order == TERN_ROPE_INTERLEAVED;
    uint32_t i = interleaved ? rotate_interleaved(x, pairs, 2 * count, out, &largest)
                             : rotate_halves(x, pairs, count, out, &largest);
    bool finite = tracked_finite(largest);
    for (; i < count; i++) {
        const uint32_t first = interleaved ? 2 * i : i;
        const uint32_t second = interleaved ? 2 * i + 1 : i + count;
        const float c = pairs[2 * i];
        const float s = pairs[2 * i + 1];
        const float x1 = x[first];
        const float x2 = x[second];
        out[first] = tern_value(x1 * c - x2 * s);
        out[second] = tern_value(x2 * c + x1 * s);
        finite = finite && tern_finite(out[first]) && tern_finite(out[second]);
    }
    if (out != x)
        memcpy(out + 2 * count, x + 2 * count, (head_size - 2 * count) * sizeof *out);
    return finite;
}

int TIER(kv_store)(enum tern_kv_type type, const float *x, uint32_t n, void *out)
{
    if (type == TERN_KV_F32)
        return tern_kv_store(type, x, n, out);
    uint16_t *half = out;
    vi largest = vi_zero();
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vf v = vf_load(x + i);
        largest = track_magnitude(largest, v);
        vf_store_half(half + i, v);
    }
    const int rest = tern_kv_store(type, x + i, n - i, half + i);
    const bool fits = !vi_any_greater(largest, vi_set1((int32_t)tern_bits(65520.0f) - 1));
    return fits ? rest : TERN_FAULT_KV_OVERFLOW;
}

/* ---- Embedding rows ---- */

/* Applies the value rule, the factor, and the value rule again. */
INLINE vf embed_value(vf x, float factor, vi *largest)
{
    vf y = vf_value(x);
    if (factor != 1.0f)
        y = vf_value(vf_mul(y, vf_set1(factor)));
    *largest = track_magnitude(*largest, y);
    return y;
}

static bool widen_q8_0(const uint8_t *block, uint32_t columns, float factor, float *out)
{
    vi largest = vi_zero();
    for (uint32_t k = 0; k < columns; k += 32, block += 34) {
        const vf d = vf_set1(tern_half_to_float(load_u16(block)));
        for (uint32_t i = 0; i < 32; i += LANES) {
            const vf code = vf_from_int(vi_load_signed_bytes(block + 2 + i));
            vf_store(out + k + i, embed_value(vf_mul(d, code), factor, &largest));
        }
    }
    return tracked_finite(largest);
}

bool TIER(widen)(uint32_t type, const void *weights, uint32_t columns, float factor, float *out)
{
    if (type == TERN_Q8_0)
        return widen_q8_0(weights, columns, factor, out);
    if (columns % LANES != 0 || (type != TERN_F16 && type != TERN_BF16))
        return tern_widen_row(type, weights, columns, factor, out);
    vi largest = vi_zero();
    for (uint32_t k = 0; k < columns; k += LANES) {
        const uint8_t *p = (const uint8_t *)weights + 2 * (size_t)k;
        const vf w = type == TERN_F16 ? vf_load_half(p) : vf_load_bf16(p);
        vf_store(out + k, embed_value(w, factor, &largest));
    }
    return tracked_finite(largest);
}
