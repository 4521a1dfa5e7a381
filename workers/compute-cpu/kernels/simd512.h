/* 512-bit registers, with AVX-512 F, BW, VL and DQ; integer dot products on VNNI where the tier has
 * it. See simd.h. */
#ifndef TERN_KERNELS_SIMD512_H
#define TERN_KERNELS_SIMD512_H

enum { LANES = 16, QUARTERS = 4 };
typedef __m512 vf;
typedef __m512i vi;

#if defined(__AVX512VNNI__)
enum { HAS_DOT = 1 };
#else
enum { HAS_DOT = 0 };
#endif

INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
/* The first n lanes (others +0); memory past them is not touched. */
INLINE vf vf_load_first(const float *p, uint32_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)_bzhi_u32(0xffff, n), p);
}
INLINE void vf_store_first(float *p, uint32_t n, vf x)
{
    _mm512_mask_storeu_ps(p, (__mmask16)_bzhi_u32(0xffff, n), x);
}
INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
/* x > m ? x : m, and x < m ? x : m */
INLINE vf vf_max(vf x, vf m)
{
    return _mm512_max_ps(x, m);
}
INLINE vf vf_min(vf x, vf m)
{
    return _mm512_min_ps(x, m);
}
/* Lanes of `yes` where a > b, else of `no`. */
INLINE vf vf_greater_select(vf a, vf b, vf yes, vf no)
{
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), yes);
}
/* The value rule. */
INLINE vf vf_value(vf x)
{
    const __m512i magnitude =
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    const __mmask16 keep = _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(0x26800000));
    return _mm512_maskz_mov_ps(keep, x);
}

INLINE vi vi_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}
INLINE vi vi_set1_byte(int x)
{
    return _mm512_set1_epi8((char)x);
}
INLINE vi vi_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
INLINE void vi_store(void *p, vi x)
{
    _mm512_storeu_si512(p, x);
}
INLINE vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
INLINE vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}
INLINE vi vi_mul(vi a, vi b)
{
    return _mm512_mullo_epi32(a, b);
}
INLINE vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}
INLINE vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}
INLINE vi vi_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}
#define vi_left(a, n)         _mm512_slli_epi32(a, n)
#define vi_right(a, n)        _mm512_srli_epi32(a, n)
#define vi_right_signed(a, n) _mm512_srai_epi32(a, n)
INLINE vi vi_max_unsigned(vi a, vi b)
{
    return _mm512_max_epu32(a, b);
}
INLINE bool vi_any_greater(vi a, vi b)
{
    return _mm512_cmpgt_epi32_mask(a, b) != 0;
}
INLINE vi vi_bits(vf x)
{
    return _mm512_castps_si512(x);
}
INLINE vf vf_bits(vi x)
{
    return _mm512_castsi512_ps(x);
}
INLINE vf vf_from_int(vi x)
{
    return _mm512_cvtepi32_ps(x);
}
/* Nearest even. */
INLINE vi vi_from_float(vf x)
{
    return _mm512_cvtps_epi32(x);
}

/* LANES halves or bfloat16 from memory, widened; the first n only. */
INLINE vf vf_load_half(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
INLINE vf vf_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
INLINE vf vf_load_half_first(const void *p, uint32_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)_bzhi_u32(0xffff, n), p));
}
INLINE vf vf_load_bf16_first(const void *p, uint32_t n)
{
    const __m256i x = _mm256_maskz_loadu_epi16((__mmask16)_bzhi_u32(0xffff, n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
/* The low halves of the lanes, widened. */
INLINE vf vf_widen_low_halves(vi x)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
}

/* sum + code[4i..4i+3] . x[4i..4i+3] in lane i; codes unsigned, up to `largest`, x signed. */
INLINE vi vi_dot(vi sum, vi code, vi x, unsigned largest)
{
#if defined(__AVX512VNNI__)
    (void)largest;
    return _mm512_dpbusd_epi32(sum, code, x);
#else
    const vi ones = _mm512_set1_epi16(1);
    if (largest <= 127) /* two products of at most 127 * 128 stay below 2^15 */
        return vi_add(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(code, x), ones));
    /* One product of at most 255 * 128 does: even and odd elements go their own ways. */
    const vi low = _mm512_set1_epi16(0xff);
    const vi even = _mm512_maddubs_epi16(_mm512_and_si512(low, code), x);
    const vi odd = _mm512_maddubs_epi16(_mm512_andnot_si512(low, code), x);
    sum = vi_add(sum, _mm512_madd_epi16(even, ones));
    return vi_add(sum, _mm512_madd_epi16(odd, ones));
#endif
}

/* The same without a dot product instruction, in 16-bit halves of lanes, which must not overflow;
 * and their sums added to sum. */
INLINE vi vi_dot_halves(vi halves, vi code, vi x)
{
    return _mm512_add_epi16(halves, _mm512_maddubs_epi16(code, x));
}
INLINE vi vi_add_halves(vi sum, vi halves)
{
    return vi_add(sum, _mm512_madd_epi16(halves, _mm512_set1_epi16(1)));
}

/* ---- Moves between rows and lanes ---- */

/* In each quarter: lane i = sum of the quarter's four lanes of the i-th operand. */
INLINE vi vi_join4(vi a, vi b, vi c, vi d)
{
    const vi ab = vi_add(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const vi cd = vi_add(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    return vi_add(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}
/* The same for floats, as (0+1)+(2+3). */
INLINE vf vf_join4(vf a, vf b, vf c, vf d)
{
    const vf ab = vf_add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
    const vf cd = vf_add(_mm512_shuffle_ps(c, d, 0x88), _mm512_shuffle_ps(c, d, 0xdd));
    return vf_add(_mm512_shuffle_ps(ab, cd, 0x88), _mm512_shuffle_ps(ab, cd, 0xdd));
}
/* (quarter 0 + quarter 1) + (quarter 2 + quarter 3) */
INLINE __m128 join_quarters(const vf x[1])
{
    const __m256 low = _mm512_castps512_ps256(x[0]);
    const __m256 high = _mm512_extractf32x8_ps(x[0], 1);
    const __m128 a = _mm_add_ps(_mm256_castps256_ps128(low), _mm256_extractf128_ps(low, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(high), _mm256_extractf128_ps(high, 1));
    return _mm_add_ps(a, b);
}
/* In each quarter, four registers as rows become columns. */
INLINE void vi_transpose4(vi x[4])
{
    const vi a = _mm512_unpacklo_epi32(x[0], x[1]);
    const vi b = _mm512_unpackhi_epi32(x[0], x[1]);
    const vi c = _mm512_unpacklo_epi32(x[2], x[3]);
    const vi d = _mm512_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm512_unpacklo_epi64(a, c);
    x[1] = _mm512_unpackhi_epi64(a, c);
    x[2] = _mm512_unpacklo_epi64(b, d);
    x[3] = _mm512_unpackhi_epi64(b, d);
}
/* Quarters of four registers as rows become columns. */
INLINE void vi_transpose_quarters(vi x[4])
{
    const vi a = _mm512_shuffle_i32x4(x[0], x[1], 0x44);
    const vi b = _mm512_shuffle_i32x4(x[0], x[1], 0xee);
    const vi c = _mm512_shuffle_i32x4(x[2], x[3], 0x44);
    const vi d = _mm512_shuffle_i32x4(x[2], x[3], 0xee);
    x[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    x[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    x[2] = _mm512_shuffle_i32x4(b, d, 0x88);
    x[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

/* LANES registers as rows become columns. */
INLINE void vi_transpose(vi x[16])
{
#pragma GCC unroll 4
    for (unsigned q = 0; q < 4; q++)
        vi_transpose4(x + 4 * q);
        /* x[4q + j] now has columns j, 4+j, 8+j, 12+j of rows 4q..4q+3 in its quarters. */
#pragma GCC unroll 4
    for (unsigned j = 0; j < 4; j++) {
        vi u[4] = {x[j], x[4 + j], x[8 + j], x[12 + j]};
        vi_transpose_quarters(u);
        x[j] = u[0];
        x[4 + j] = u[1];
        x[8 + j] = u[2];
        x[12 + j] = u[3];
    }
}

/* ---- Groups of 16 ---- */

enum { PER16 = 16 / LANES }; /* registers that hold 16 lanes */

/* 16 integers in [-128, 127] as bytes. */
INLINE void vi_store_bytes16(int8_t *p, const vi x[PER16])
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(x[0]));
}
INLINE int32_t vi_sum16(const vi x[PER16])
{
    return _mm512_reduce_add_epi32(x[0]);
}
INLINE uint32_t vi_largest_unsigned(vi x)
{
    return _mm512_reduce_max_epu32(x);
}
/* LANES bytes, sign-extended. */
INLINE vi vi_load_signed_bytes(const void *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
/* LANES halves, rounded to nearest even. */
INLINE void vf_store_half(void *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
/* Even and odd lanes of two registers, in order. */
INLINE void vf_split_pairs(vf a, vf b, vf *even, vf *odd)
{
    const vi index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(a, index, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(index, _mm512_set1_epi32(1)), b);
}
/* Each pair's first, its second, or the two exchanged. */
INLINE vf vf_pair_first(vf x)
{
    return _mm512_moveldup_ps(x);
}
INLINE vf vf_pair_second(vf x)
{
    return _mm512_movehdup_ps(x);
}
INLINE vf vf_pair_exchange(vf x)
{
    return _mm512_permute_ps(x, 0xb1);
}

#endif
