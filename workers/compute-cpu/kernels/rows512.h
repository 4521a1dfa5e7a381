/* rows.h for 512-bit registers. A 32-element block of 16 rows fills 8 registers, two rows each:
 * register i < 4 holds rows i and i + 4, register i >= 4 rows i + 4 and i + 8, the order in which
 * block32_join and block32_transpose leave the rows in order. */
#ifndef TERN_KERNELS_ROWS512_H
#define TERN_KERNELS_ROWS512_H

INLINE __m128i load128(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
INLINE __m256i load256(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Shifts by `even` in quarters 0 and 2 (of == 1) or 0 and 1 (of == 2), by `odd` in the others. */
INLINE vi shift_quarters(vi x, unsigned of, int even, int odd)
{
    const __mmask16 mask = of == 1 ? 0xf0f0 : 0xff00;
    const vi count = _mm512_mask_mov_epi32(_mm512_set1_epi32(even), mask, _mm512_set1_epi32(odd));
    return _mm512_srlv_epi32(x, count);
}

INLINE vi block32_codes(enum tern_type type, struct rows rows, unsigned i)
{
    const uint8_t *a = row_at(rows, i < 4 ? i : i + 4) + code_start(type);
    const uint8_t *b = row_at(rows, i < 4 ? i + 4 : i + 8) + code_start(type);
    if (type == TERN_Q8_0) {
        const vi q = _mm512_inserti64x4(_mm512_castsi256_si512(load256(a)), load256(b), 1);
        return _mm512_xor_si512(q, _mm512_set1_epi8(-128));
    }
    vi q = _mm512_broadcast_i32x4(load128(a));
    q = _mm512_mask_broadcast_i32x4(q, 0xff00, load128(b));
    q = _mm512_and_si512(shift_quarters(q, 1, 0, 4), _mm512_set1_epi8(15));
    if (type != TERN_Q5_0 && type != TERN_Q5_1)
        return q;
    const __mmask64 fifth = load_u32(a - 4) | (uint64_t)load_u32(b - 4) << 32;
    return _mm512_mask_add_epi8(q, fifth, q, _mm512_set1_epi8(16));
}

INLINE vi block32_act(const uint8_t *p)
{
    return _mm512_broadcast_i64x4(load256(p));
}

/* Adds the two quarters of each row: half[h] has rows 8h..8h+3 in quarters 0 and 1, and rows
 * 8h+4..8h+7 in quarters 2 and 3. */
INLINE vi block32_join(const vi half[2])
{
    return vi_add(_mm512_shuffle_i32x4(half[0], half[1], 0x88),
                  _mm512_shuffle_i32x4(half[0], half[1], 0xdd));
}

/* From registers of two rows to registers of one dword (four elements) of all rows. */
INLINE void block32_transpose(vi x[8])
{
    vi_transpose4(x);
    vi_transpose4(x + 4);
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; i++) {
        const vi even = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
        x[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
        x[i] = even;
    }
}

/* Four rows, r, r + 4, r + 8, r + 12, of 16 bytes each. */
INLINE vi rows_every_fourth(struct rows rows, unsigned r)
{
    vi x = _mm512_castsi128_si512(load128(row_at(rows, r)));
    x = _mm512_mask_broadcast_i32x4(x, 0x00f0, load128(row_at(rows, r + 4)));
    x = _mm512_mask_broadcast_i32x4(x, 0x0f00, load128(row_at(rows, r + 8)));
    return _mm512_mask_broadcast_i32x4(x, 0xf000, load128(row_at(rows, r + 12)));
}

/* 16 bytes of every row as four dwords, each with the rows in its lanes. */
INLINE void rows_quad(struct rows rows, vi quad[4])
{
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; i++)
        quad[i] = rows_every_fourth(rows, i);
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
    const __m256i low = _mm256_inserti128_si256(
        _mm256_castsi128_si256(gather_words(rows, 0, offset)), gather_words(rows, 4, offset), 1);
    const __m256i high = _mm256_inserti128_si256(
        _mm256_castsi128_si256(gather_words(rows, 8, offset)), gather_words(rows, 12, offset), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

INLINE __m128i gather_halves(struct rows rows, unsigned r, size_t offset)
{
    __m128i x = _mm_cvtsi32_si128(load_u16(row_at(rows, r) + offset));
    x = _mm_insert_epi16(x, load_u16(row_at(rows, r + 1) + offset), 1);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, r + 2) + offset), 2);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, r + 3) + offset), 3);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, r + 4) + offset), 4);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, r + 5) + offset), 5);
    x = _mm_insert_epi16(x, load_u16(row_at(rows, r + 6) + offset), 6);
    return _mm_insert_epi16(x, load_u16(row_at(rows, r + 7) + offset), 7);
}
/* One half of each row, widened. */
INLINE vf rows_halves(struct rows rows, size_t offset)
{
    const __m128i low = gather_halves(rows, 0, offset);
    const __m128i high = gather_halves(rows, 8, offset);
    return _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
}

/* ---- 256-element blocks: spans of 64 elements ---- */

/* Codes of span g (0..3) of one row's block. */
INLINE vi span_codes(enum tern_type type, const uint8_t *block, unsigned g)
{
    const vi nibble = _mm512_set1_epi8(15);
    if (type == TERN_Q6_K) {
        const uint8_t *ql = block + 64 * (g / 2);
        const uint8_t *qh = block + 128 + 32 * (g / 2);
        const int shift = (int)(g % 2) * 4;
        const vi low = _mm512_and_si512(_mm512_srli_epi32(vi_load(ql), shift), nibble);
        vi high = shift_quarters(_mm512_broadcast_i64x4(load256(qh)), 2, shift, shift + 2);
        high = _mm512_slli_epi32(_mm512_and_si512(high, _mm512_set1_epi8(3)), 4);
        return _mm512_or_si512(low, high);
    }
    const uint8_t *q = block + (type == TERN_Q4_K ? 16 : 48) + 32 * g;
    const vi low = shift_quarters(_mm512_broadcast_i64x4(load256(q)), 2, 0, 4);
    const vi code = _mm512_and_si512(low, nibble);
    if (type == TERN_Q4_K)
        return code;
    const vi one = _mm512_set1_epi8((char)(1 << (2 * g)));
    const vi bit = _mm512_mask_add_epi8(one, 0xffffffff00000000u, one, one);
    const __mmask64 fifth = _mm512_test_epi8_mask(_mm512_broadcast_i64x4(load256(block + 16)), bit);
    return _mm512_mask_add_epi8(code, fifth, code, _mm512_set1_epi8(16));
}

/* u[q]: rows 4q..4q+3, with a sum of 16 elements in each quarter. To sums of 32 (two of them) or of
 * 16 elements (four), one row in each lane. */
INLINE void span_join(unsigned width, vi u[4], vi sum[4])
{
    vi_transpose_quarters(u);
    if (width == 32) {
        sum[0] = vi_add(u[0], u[1]);
        sum[1] = vi_add(u[2], u[3]);
        return;
    }
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; i++)
        sum[i] = u[i];
}

#endif
