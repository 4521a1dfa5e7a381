/*
 * Attention over the cache in ordered blocks of 256 positions (NUMERICS section 3), for several
 * query heads that share a key head: each key and value is loaded and widened once for HEADS of
 * them. Compiled once per tier.
 *
 * Scores of a block lie at their position minus the block's first multiple of 16, so that their
 * place mod 16 is their chain. Places without a position weigh +0. Sums start from +0 instead of at
 * the first term: weights are not negative, and the value rule turns a -0 into +0 either way.
 */
#include "proto/numerics/product.h"
#include "workers/compute-cpu/kernels/functions_simd.h"
#include "workers/compute-cpu/kernels/operations.h"

enum {
    BLOCK = 256,          /* positions */
    HEADS = LANES / 4,    /* query heads at a time */
    COLUMN_REGISTERS = 4, /* registers of the value sum of one head at a time */
    COLUMNS = TERN_MAX_HEAD / LANES * LANES,
};

/* The softmax-weighted sum so far, or of a block alone. */
struct part {
    float max, weight;
    float sum[COLUMNS];
};

/* The visible positions of a block: [begin, end), scores from `origin` on. */
struct stretch {
    uint32_t begin, end, origin;
};

struct scores {
    float at[HEADS][BLOCK];
};

INLINE size_t element_bytes(enum tern_kv_type type)
{
    return type == TERN_KV_F16 ? 2 : 4;
}

INLINE vf load_stored(enum tern_kv_type type, const uint8_t *p, uint32_t n)
{
    if (n >= LANES)
        return type == TERN_KV_F16 ? vf_load_half(p) : vf_load((const float *)(const void *)p);
    if (type == TERN_KV_F16)
        return vf_load_half_first(p, n);
    return vf_load_first((const float *)(const void *)p, n);
}

/* ---- Scores ---- */

/* Scores of four positions for `heads` (a constant) heads. */
INLINE void score_four(enum tern_kv_type type, unsigned heads, const struct tern_attention *a,
                       const float *q, const uint8_t *const key[4], __m128 score[HEADS])
{
    const uint32_t size = a->kv->head_size;
    vf sum[HEADS][4][PER16];
    for (unsigned h = 0; h < heads; h++)
        for (unsigned p = 0; p < 4; p++)
            for (unsigned c = 0; c < PER16; c++)
                sum[h][p][c] = vf_zero();
    for (uint32_t j = 0; j < size; j += 16) {
        for (unsigned c = 0; c < PER16; c++) {
            const uint32_t at = j + c * LANES;
            if (at >= size)
                break;
            vf k[4];
            for (unsigned p = 0; p < 4; p++)
                k[p] = load_stored(type, key[p] + at * element_bytes(type), size - at);
            for (unsigned h = 0; h < heads; h++) {
                const float *from = q + h * size + at;
                const vf x = size - at >= LANES ? vf_load(from) : vf_load_first(from, size - at);
                for (unsigned p = 0; p < 4; p++)
                    sum[h][p][c] = vf_add(sum[h][p][c], vf_mul(x, k[p]));
            }
        }
    }
    for (unsigned h = 0; h < heads; h++) {
        vf joined[PER16];
        for (unsigned c = 0; c < PER16; c++)
            joined[c] = vf_join4(sum[h][0][c], sum[h][1][c], sum[h][2][c], sum[h][3][c]);
        score[h] = _mm_mul_ps(join_quarters(joined), _mm_set1_ps(a->scale));
    }
}

/* All scores of a stretch; places without a position repeat a score. */
INLINE void score_stretch(enum tern_kv_type type, unsigned heads, const struct tern_attention *a,
                          const float *q, struct stretch s, struct scores *scores)
{
    for (uint32_t p = s.origin; p < s.end; p += 4) {
        const uint8_t *key[4];
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t from_begin = p + i > s.begin ? p + i : s.begin;
            key[i] = tern_kv_key(a, from_begin < s.end ? from_begin : s.end - 1);
        }
        __m128 score[HEADS];
        score_four(type, heads, a, q, key, score);
        for (unsigned h = 0; h < heads; h++)
            _mm_storeu_ps(scores->at[h] + (p - s.origin), score[h]);
    }
}

/* Makes scores weights: exp(score - max) in place, their sum in 16 chains. False if a score is not
 * finite. */
static bool weigh_scores(struct stretch s, float *score, struct part *part)
{
    const uint32_t scored = (s.end - s.origin + 3) / 4 * 4;
    const uint32_t padded = (s.end - s.origin + 15) / 16 * 16;
    for (uint32_t i = scored; i < padded; i++)
        score[i] = score[0];
    vf max = vf_load(score);
    vi largest = vi_zero();
    for (uint32_t i = 0; i < padded; i += LANES) {
        const vf v = vf_load(score + i);
        largest = track_magnitude(largest, v);
        max = vf_max(v, max);
    }
    if (!tracked_finite(largest))
        return false;
    float lane[LANES];
    vf_store(lane, max);
    part->max = lane[0];
    for (unsigned i = 1; i < LANES; i++)
        part->max = lane[i] > part->max ? lane[i] : part->max;
    for (uint32_t i = 0; i < padded; i += LANES)
        vf_store(score + i, vf_exp(vf_sub(vf_load(score + i), vf_set1(part->max))));
    for (uint32_t i = 0; i < s.begin - s.origin; i++)
        score[i] = 0.0f;
    for (uint32_t i = s.end - s.origin; i < padded; i++)
        score[i] = 0.0f;
    float chain[16] = {0};
    for (unsigned c = 0; c < PER16; c++) {
        vf sum = vf_load(score + c * LANES);
        for (uint32_t i = 16 + c * LANES; i < padded; i += 16)
            sum = vf_add(sum, vf_load(score + i));
        vf_store(chain + c * LANES, sum);
    }
    part->weight = tern_join16(chain);
    return true;
}

/* ---- Values ---- */

/* Sums of `registers` (a constant) registers of columns from `column` on; n: columns of the last.
 */
INLINE void sum_columns(enum tern_kv_type type, unsigned heads, unsigned registers, uint32_t n,
                        const struct tern_attention *a, struct stretch s, uint32_t column,
                        const struct scores *weights, struct part *part)
{
    vf sum[HEADS][COLUMN_REGISTERS];
    for (unsigned h = 0; h < heads; h++)
        for (unsigned r = 0; r < registers; r++)
            sum[h][r] = vf_zero();
    const size_t vector = a->kv->head_size * element_bytes(type);
    for (uint32_t p = s.begin; p < s.end;) {
        const uint32_t page_end = (p / TERN_PAGE_POSITIONS + 1) * TERN_PAGE_POSITIONS;
        const uint32_t end = page_end < s.end ? page_end : s.end;
        const uint8_t *value = tern_kv_value(a, p) + column * element_bytes(type);
        for (; p < end; p++, value += vector) {
            vf v[COLUMN_REGISTERS];
            for (unsigned r = 0; r < registers; r++)
                v[r] = load_stored(type, value + r * LANES * element_bytes(type),
                                   r + 1 < registers ? LANES : n);
            for (unsigned h = 0; h < heads; h++) {
                const vf e = vf_set1(weights->at[h][p - s.origin]);
                for (unsigned r = 0; r < registers; r++)
                    sum[h][r] = vf_add(sum[h][r], vf_mul(e, v[r]));
            }
        }
    }
    for (unsigned h = 0; h < heads; h++)
        for (unsigned r = 0; r < registers; r++)
            vf_store(part[h].sum + column + r * LANES, sum[h][r]);
}

INLINE void sum_values(enum tern_kv_type type, unsigned heads, const struct tern_attention *a,
                       struct stretch s, const struct scores *weights, struct part *part)
{
    const uint32_t size = a->kv->head_size;
    const uint32_t wide = COLUMN_REGISTERS * LANES;
    uint32_t column = 0;
    for (; column + wide <= size; column += wide)
        sum_columns(type, heads, COLUMN_REGISTERS, LANES, a, s, column, weights, part);
    for (; column + LANES <= size; column += LANES)
        sum_columns(type, heads, 1, LANES, a, s, column, weights, part);
    if (column < size)
        sum_columns(type, heads, 1, size - column, a, s, column, weights, part);
}

/* ---- Blocks ---- */

INLINE vf merge_values(vf old, vf by_old, vf new, vf by_new)
{
    return vf_value(vf_add(vf_value(vf_mul(old, by_old)), vf_value(vf_mul(new, by_new))));
}

static void merge_block(struct part *all, const struct part *block, uint32_t head_size)
{
    const float max = block->max > all->max ? block->max : all->max;
    float e[LANES] = {all->max - max, block->max - max};
    vf_store(e, vf_exp(vf_load(e)));
    const vf by_all = vf_set1(e[0]);
    const vf by_block = vf_set1(e[1]);
    const vf weight = merge_values(vf_set1(all->weight), by_all, vf_set1(block->weight), by_block);
    vf_store(e, weight);
    all->weight = e[0];
    all->max = max;
    for (uint32_t j = 0; j < head_size; j += LANES)
        vf_store(all->sum + j,
                 merge_values(vf_load(all->sum + j), by_all, vf_load(block->sum + j), by_block));
}

/* sum / weight. Columns past head_size hold +0. */
static bool store_result(const struct part *all, uint32_t head_size, float *out)
{
    const vf weight = vf_set1(all->weight);
    vi largest = vi_zero();
    for (uint32_t j = 0; j < head_size; j += LANES) {
        const vf sum = vf_load(all->sum + j);
        const vf y = vf_value(vf_div(sum, weight));
        largest = track_magnitude(track_magnitude(largest, sum), y);
        if (head_size - j >= LANES)
            vf_store(out + j, y);
        else
            vf_store_first(out + j, head_size - j, y);
    }
    return tracked_finite(largest);
}

INLINE bool attend_heads(enum tern_kv_type type, unsigned heads, const struct tern_attention *a,
                         const float *q, float *out)
{
    const uint32_t size = a->kv->head_size;
    const uint32_t end = a->position + 1;
    const uint32_t first = a->window != 0 && end > a->window ? end - a->window : 0;
    struct part all[HEADS], block[HEADS];
    struct scores scores;
    for (uint32_t begin = first, next; begin < end; begin = next) {
        const uint32_t block_end = (begin / BLOCK + 1) * BLOCK;
        next = block_end < end ? block_end : end;
        const struct stretch s = {begin, next, begin / 16 * 16};
        struct part *part = begin == first ? all : block;
        score_stretch(type, heads, a, q, s, &scores);
        for (unsigned h = 0; h < heads; h++)
            if (!weigh_scores(s, scores.at[h], &part[h]))
                return false;
        sum_values(type, heads, a, s, &scores, part);
        for (unsigned h = 0; h < heads && begin != first; h++)
            merge_block(&all[h], &block[h], size);
    }
    bool finite = true;
    for (unsigned h = 0; h < heads; h++)
        finite &= store_result(&all[h], size, out + h * size);
    return finite;
}

#define ATTEND(type, heads)                                                                        \
    static bool attend_##type##_##heads(const struct tern_attention *a, const float *q,            \
                                        float *out)                                                \
    {                                                                                              \
        return attend_heads(TERN_KV_##type, heads, a, q, out);                                     \
    }
ATTEND(F16, 1)
ATTEND(F16, 2)
ATTEND(F32, 1)
ATTEND(F32, 2)
#if defined(__AVX512BW__)
ATTEND(F16, 3)
ATTEND(F16, 4)
ATTEND(F32, 3)
ATTEND(F32, 4)
#endif

typedef bool (*attend_fn)(const struct tern_attention *a, const float *q, float *out);
static const attend_fn attend_some[2][HEADS] = {
#if defined(__AVX512BW__)
    {attend_F16_1, attend_F16_2, attend_F16_3, attend_F16_4},
    {attend_F32_1, attend_F32_2, attend_F32_3, attend_F32_4},
#else
    {attend_F16_1, attend_F16_2},
    {attend_F32_1, attend_F32_2},
#endif
};

bool TIER(attend)(const struct tern_attention *a, const float *q, uint32_t heads, float *out)
{
    const attend_fn *some = attend_some[a->kv->type == TERN_KV_F32];
    const size_t size = a->kv->head_size;
    bool finite = true;
    for (uint32_t h = 0; h < heads; h += HEADS) {
        const uint32_t n = heads - h < HEADS ? heads - h : HEADS;
        finite &= some[n - 1](a, q + h * size, out + h * size);
    }
    return finite;
}
