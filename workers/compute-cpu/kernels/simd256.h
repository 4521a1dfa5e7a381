/* 256-bit registers, with AVX2 and F16C. See simd.h. */
#ifndef TERN_KERNELS_SIMD256_H
#define TERN_KERNELS_SIMD256_H

enum { LANES = 8, QUARTERS = 2, HAS_DOT = 0 };
typedef __m256 vf;
typedef __m256i vi;

INLINE vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}
INLINE vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}
/* All ones in the first n lanes. */
INLINE vi first_lanes(uint32_t n)
{
    const vi lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}
/* The first n lanes (others +0); memory past them is not touched. */
INLINE vf vf_load_first(const float *p, uint32_t n)
{
    return _mm256_maskload_ps(p, first_lanes(n));
}
INLINE void vf_store_first(float *p, uint32_t n, vf x)
{
    _mm256_maskstore_ps(p, first_lanes(n), x);
}
INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}
/* x > m ? x : m, and x < m ? x : m */
INLINE vf vf_max(vf x, vf m)
{
    return _mm256_max_ps(x, m);
}
INLINE vf vf_min(vf x, vf m)
{
    return _mm256_min_ps(x, m);
}
/* Lanes of `yes` where a > b, else of `no`. */
INLINE vf vf_greater_select(vf a, vf b, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
/* The value rule. */
INLINE vf vf_value(vf x)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i keep = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x267fffff));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, keep));
}

INLINE vi vi_set1(int32_t x)
{
    return _mm256_set1_epi32(x);
}
INLINE vi vi_set1_byte(int x)
{
    return _mm256_set1_epi8((char)x);
}
INLINE vi vi_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
INLINE void vi_store(void *p, vi x)
{
    _mm256_storeu_si256((__m256i *)p, x);
}
INLINE vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}
INLINE vi vi_sub(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}
INLINE vi vi_mul(vi a, vi b)
{
    return _mm256_mullo_epi32(a, b);
}
INLINE vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}
INLINE vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}
INLINE vi vi_xor(vi a, vi b)
{
    return _mm256_xor_si256(a, b);
}
#define vi_left(a, n)         _mm256_slli_epi32(a, n)
#define vi_right(a, n)        _mm256_srli_epi32(a, n)
#define vi_right_signed(a, n) _mm256_srai_epi32(a, n)
INLINE vi vi_max_unsigned(vi a, vi b)
{
    return _mm256_max_epu32(a, b);
}
INLINE bool vi_any_greater(vi a, vi b)
{
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(a, b)) != 0;
}
INLINE vi vi_bits(vf x)
{
    return _mm256_castps_si256(x);
}
INLINE vf vf_bits(vi x)
{
    return _mm256_castsi256_ps(x);
}
INLINE vf vf_from_int(vi x)
{
    return _mm256_cvtepi32_ps(x);
}
/* Nearest even. */
INLINE vi vi_from_float(vf x)
{
    return _mm256_cvtps_epi32(x);
}

/* LANES halves or bfloat16 from memory, widened; the first n only. */
INLINE vf vf_load_half(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE vf vf_load_bf16(const void *p)
{
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
INLINE vf vf_load_half_first(const void *p, uint32_t n)
{
    uint16_t copy[LANES] = {0};
    memcpy(copy, p, n * sizeof *copy);
    return vf_load_half(copy);
}
INLINE vf vf_load_bf16_first(const void *p, uint32_t n)
{
    uint16_t copy[LANES] = {0};
    memcpy(copy, p, n * sizeof *copy);
    return vf_load_bf16(copy);
}
/* The low halves of the lanes, widened. */
INLINE vf vf_widen_low_halves(vi x)
{
    const vi low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    const vi packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

/* sum + code[4i..4i+3] . x[4i..4i+3] in lane i; codes unsigned, up to `largest`, x signed. */
INLINE vi vi_dot(vi sum, vi code, vi x, unsigned largest)
{
    const vi ones = _mm256_set1_epi16(1);
    if (largest <= 127) /* two products of at most 127 * 128 stay below 2^15 */
        return vi_add(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(code, x), ones));
    /* One product of at most 255 * 128 does: even and odd elements go their own ways. */
    const vi low = _mm256_set1_epi16(0xff);
    const vi even = _mm256_maddubs_epi16(_mm256_and_si256(low, code), x);
    const vi odd = _mm256_maddubs_epi16(_mm256_andnot_si256(low, code), x);
    sum = vi_add(sum, _mm256_madd_epi16(even, ones));
    return vi_add(sum, _mm256_madd_epi16(odd, ones));
}

/* The same in 16-bit halves of lanes, which must not overflow; and their sums added to sum. */
INLINE vi vi_dot_halves(vi halves, vi code, vi x)
{
    return _mm256_add_epi16(halves, _mm256_maddubs_epi16(code, x));
}
INLINE vi vi_add_halves(vi sum, vi halves)
{
    return vi_add(sum, _mm256_madd_epi16(halves, _mm256_set1_epi16(1)));
}

/* ---- Moves between rows and lanes ---- */

/* In each quarter: lane i = sum of the quarter's four lanes of the i-th operand. */
INLINE vi vi_join4(vi a, vi b, vi c, vi d)
{
    const vi ab = vi_add(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    const vi cd = vi_add(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    return vi_add(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}
/* The same for floats, as (0+1)+(2+3). */
INLINE vf vf_join4(vf a, vf b, vf c, vf d)
{
    const vf ab = vf_add(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
    const vf cd = vf_add(_mm256_shuffle_ps(c, d, 0x88), _mm256_shuffle_ps(c, d, 0xdd));
    return vf_add(_mm256_shuffle_ps(ab, cd, 0x88), _mm256_shuffle_ps(ab, cd, 0xdd));
}
/* Of two registers, four quarters: (0 + 1) + (2 + 3). */
INLINE __m128 join_quarters(const vf x[2])
{
    const __m128 a = _mm_add_ps(_mm256_castps256_ps128(x[0]), _mm256_extractf128_ps(x[0], 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(x[1]), _mm256_extractf128_ps(x[1], 1));
    return _mm_add_ps(a, b);
}
/* In each quarter, four registers as rows become columns. */
INLINE void vi_transpose4(vi x[4])
{
    const vi a = _mm256_unpacklo_epi32(x[0], x[1]);
    const vi b = _mm256_unpackhi_epi32(x[0], x[1]);
    const vi c = _mm256_unpacklo_epi32(x[2], x[3]);
    const vi d = _mm256_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm256_unpacklo_epi64(a, c);
    x[1] = _mm256_unpackhi_epi64(a, c);
    x[2] = _mm256_unpacklo_epi64(b, d);
    x[3] = _mm256_unpackhi_epi64(b, d);
}

/* LANES registers as rows become columns. */
INLINE void vi_transpose(vi x[8])
{
    vi_transpose4(x);
    vi_transpose4(x + 4);
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; i++) {
        const vi low = _mm256_permute2x128_si256(x[i], x[i + 4], 0x20);
        x[i + 4] = _mm256_permute2x128_si256(x[i], x[i + 4], 0x31);
        x[i] = low;
    }
}

/* ---- Groups of 16 ---- */

enum { PER16 = 16 / LANES }; /* registers that hold 16 lanes */

/* 16 integers in [-128, 127] as bytes. */
INLINE void vi_store_bytes16(int8_t *p, const vi x[PER16])
{
    const vi words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x[0], x[1]), 0xd8);
    const __m128i low = _mm256_castsi256_si128(words);
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm_packs_epi16(low, _mm256_extracti128_si256(words, 1)));
}
INLINE int32_t vi_sum16(const vi x[PER16])
{
    const vi pair = vi_add(x[0], x[1]);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(pair), _mm256_extracti128_si256(pair, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}
INLINE uint32_t vi_largest_unsigned(vi x)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1)));
}
/* LANES bytes, sign-extended. */
INLINE vi vi_load_signed_bytes(const void *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
/* LANES halves, rounded to nearest even. */
INLINE void vf_store_half(void *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
/* Even and odd lanes of two registers, in order. */
INLINE void vf_split_pairs(vf a, vf b, vf *even, vf *odd)
{
    const __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    const __m256d o = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xd8));
}
/* Each pair's first, its second, or the two exchanged. */
INLINE vf vf_pair_first(vf x)
{
    return _mm256_moveldup_ps(x);
}
INLINE vf vf_pair_second(vf x)
{
    return _mm256_movehdup_ps(x);
}
INLINE vf vf_pair_exchange(vf x)
{
    return _mm256_permute_ps(x, 0xb1);
}

#endif
