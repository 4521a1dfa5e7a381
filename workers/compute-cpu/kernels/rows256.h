/* rows.h for 256-bit registers: a 32-element block of 8 rows fills 8 registers, one row each. */
#ifndef TERN_KERNELS_ROWS256_H
#define TERN_KERNELS_ROWS256_H

INLINE __m128i load128(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* 16 where the row's bit of element i is set, else 0. */
INLINE vi spread_bits(uint32_t bits)
{
    const vi byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2,
                                     2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const vi bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const vi spread =
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), _mm256_set1_epi8(16));
}

INLINE vi block32_codes(enum tern_type type, struct rows rows, unsigned i)
{
    const uint8_t *p = row_at(rows, i) + code_start(type);
    if (type == TERN_Q8_0)
        return _mm256_xor_si256(vi_load(p), _mm256_set1_epi8(-128));
    const vi both = _mm256_broadcastsi128_si256(load128(p));
    const vi shift = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    const vi q = _mm256_and_si256(_mm256_srlv_epi32(both, shift), _mm256_set1_epi8(15));
    if (type != TERN_Q5_0 && type != TERN_Q5_1)
        return q;
    return _mm256_or_si256(q, spread_bits(load_u32(p - 4)));
}

INLINE vi block32_act(const uint8_t *p)
{
    return vi_load(p);
}

/* Adds the two quarters of each row: half[h] has rows 4h..4h+3 in both quarters. */
INLINE vi block32_join(const vi half[2])
{
    return vi_add(_mm256_permute2x128_si256(half[0], half[1], 0x20),
                  _mm256_permute2x128_si256(half[0], half[1], 0x31));
}

/* From registers of one row to registers of one dword (four elements) of all rows. */
INLINE void block32_transpose(vi x[8])
{
    vi_transpose(x);
}

/* 16 bytes of every row as four dwords, each with the rows in its lanes. */
INLINE void rows_quad(struct rows rows, vi quad[4])
{
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; i++)
        quad[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(row_at(rows, i))),
                                          load128(row_at(rows, i + 4)), 1);
    vi_transpose4(quad);
}

INLINE __m128i gather_words(struct rows rows, unsigned r, size_t offset)
{
    __m128i x = _mm_cvtsi32_si128((int)load_u32(row_at(rows, r) + offset));
    x = _mm_insert_epi32(x, (int)load_u32(row_at(rows, r + 1) + offset), 1);
    x = _mm_insert_epi32(x, (int)load_u32(row_at(rows, r + 2) + offset), 2);
    return _mm_insert_epi32(x, (int)load_u32(row_at(rows, r + 3) + offset), 3);
}
/* One dword of each row. */
INLINE vi rows_words(struct rows rows, size_t offset)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(gather_words(rows, 0, offset)),
                                   gather_words(rows, 4, offset), 1);
}
/* One half of each row, widened. */
INLINE vf rows_halves(struct rows rows, size_t offset)
{
    __m128i x = _mm_cvtsi32_si128(load_u16(row_at(rows, 0) + offset));
    x = _mm_insert_epi16(x, load_u16(row_at(rows, 1) + offset), 1);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, 2) + offset), 2);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, 3) + offset), 3);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, 4) + offset), 4);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, 5) + offset), 5);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, 6) + offset), 6);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, 7) + offset), 7);
    return _mm256_cvtph_ps(x);
}

/* ---- 256-element blocks: spans of 32 elements ---- */

/* Codes of span g (0..7) of one row's block. */
INLINE vi span_codes(enum tern_type type, const uint8_t *block, unsigned g)
{
    const vi nibble = _mm256_set1_epi8(15);
    if (type == TERN_Q6_K) {
        const unsigned j = g % 4;
        const vi ql = vi_load(block + 64 * (g / 4) + 32 * (j % 2));
        const vi qh = vi_load(block + 128 + 32 * (g / 4));
        const vi low = _mm256_and_si256(_mm256_srli_epi32(ql, (int)(j / 2) * 4), nibble);
        const vi high = _mm256_and_si256(_mm256_srli_epi32(qh, (int)j * 2), _mm256_set1_epi8(3));
        return _mm256_or_si256(low, _mm256_slli_epi32(high, 4));
    }
    const vi q = vi_load(block + (type == TERN_Q4_K ? 16 : 48) + 32 * (g / 2));
    const vi code = _mm256_and_si256(_mm256_srli_epi32(q, (int)(g % 2) * 4), nibble);
    if (type == TERN_Q4_K)
        return code;
    const vi bit =
        _mm256_and_si256(_mm256_srli_epi32(vi_load(block + 16), (int)g), _mm256_set1_epi8(1));
    return _mm256_or_si256(code, _mm256_slli_epi32(bit, 4));
}

/* u[q]: rows 4q..4q+3, with a sum of 16 elements in each quarter. To sums of 32 (one) or of 16
 * elements (two), one row in each lane. */
INLINE void span_join(unsigned width, vi u[2], vi sum[2])
{
    const vi low = _mm256_permute2x128_si256(u[0], u[1], 0x20);
    const vi high = _mm256_permute2x128_si256(u[0], u[1], 0x31);
    sum[0] = width == 32 ? vi_add(low, high) : low;
    sum[1] = high;
}

#endif
