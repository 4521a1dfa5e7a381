/*
 * Attention over the cache in ordered blocks of 256 positions (NUMERICS section 3), for several
 * query heads that share a key head, of several rows. A block serves all of them while it is in the
 * cache; each of its keys and values is loaded and widened once for up to QUERIES of them. Compiled
 * once per tier.
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
    QUERIES = LANES / 4,  /* at a time */
    COLUMN_REGISTERS = 4, /* registers of the value sum of one head at a time */
    COLUMNS = TERN_MAX_HEAD / LANES * LANES,
};

/* The softmax-weighted sum so far, or of a block alone. */
struct part {
    float max, weight;
    float sum[COLUMNS];
};

/* The positions of a block that a row sees: [begin, end), scores from `origin` on. */
struct stretch {
    uint32_t begin, end, origin;
    bool first; /* the row sees none before */
};

struct scores {
    float at[QUERIES][BLOCK];
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

/* Scores of four positions for `n` (a constant) queries. */
INLINE void score_four(enum tern_kv_type type, unsigned n, const struct tern_attention *a,
                       const float *const q[QUERIES], const uint8_t *const key[4],
                       __m128 score[QUERIES])
{
    const uint32_t size = a->kv->head_size;
    vf sum[QUERIES][4][PER16];
    for (unsigned i = 0; i < n; i++)
        for (unsigned p = 0; p < 4; p++)
            for (unsigned c = 0; c < PER16; c++)
                sum[i][p][c] = vf_zero();
    for (uint32_t j = 0; j < size; j += 16) {
        for (unsigned c = 0; c < PER16; c++) {
            const uint32_t at = j + c * LANES;
            if (at >= size)
                break;
            vf k[4];
            for (unsigned p = 0; p < 4; p++)
                k[p] = load_stored(type, key[p] + at * element_bytes(type), size - at);
            for (unsigned i = 0; i < n; i++) {
                const float *from = q[i] + at;
                const vf x = size - at >= LANES ? vf_load(from) : vf_load_first(from, size - at);
                for (unsigned p = 0; p < 4; p++)
                    sum[i][p][c] = vf_add(sum[i][p][c], vf_mul(x, k[p]));
            }
        }
    }
    for (unsigned i = 0; i < n; i++) {
        vf joined[PER16];
        for (unsigned c = 0; c < PER16; c++)
            joined[c] = vf_join4(sum[i][0][c], sum[i][1][c], sum[i][2][c], sum[i][3][c]);
        score[i] = _mm_mul_ps(join_quarters(joined), _mm_set1_ps(a->scale));
    }
}

/* All scores of a stretch; places without a position repeat a score. */
INLINE void score_stretch(enum tern_kv_type type, unsigned n, const struct tern_attention *a,
                          const float *const q[QUERIES], struct stretch s, struct scores *scores)
{
    for (uint32_t p = s.origin; p < s.end; p += 4) {
        const uint8_t *key[4];
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t from_begin = p + k > s.begin ? p + k : s.begin;
            key[k] = tern_kv_key(a, from_begin < s.end ? from_begin : s.end - 1);
        }
        __m128 score[QUERIES];
        score_four(type, n, a, q, key, score);
        for (unsigned i = 0; i < n; i++)
            _mm_storeu_ps(scores->at[i] + (p - s.origin), score[i]);
    }
}

/* Makes scores weights: exp(score - max) in place, their sum in 16 chains. False if a score is not
 * finite: then the query has failed, and its part means nothing. */
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
    if (!tracked_finite(largest)) {
        part->max = part->weight = 0.0f;
        return false;
    }
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

/* Sums of `registers` (a constant) registers of columns from `column` on; `last`:
 * columns of the last. */
INLINE void sum_columns(enum tern_kv_type type, unsigned n, unsigned registers, uint32_t last,
                        const struct tern_attention *a, struct stretch s, uint32_t column,
                        const struct scores *weights, struct part *part)
{
    vf sum[QUERIES][COLUMN_REGISTERS];
    for (unsigned i = 0; i < n; i++)
        for (unsigned r = 0; r < registers; r++)
            sum[i][r] = vf_zero();
    const size_t vector = a->kv->head_size * element_bytes(type);
    for (uint32_t p = s.begin; p < s.end;) {
        const uint32_t page_end = (p / TERN_PAGE_POSITIONS + 1) * TERN_PAGE_POSITIONS;
        const uint32_t end = page_end < s.end ? page_end : s.end;
        const uint8_t *value = tern_kv_value(a, p) + column * element_bytes(type);
        for (; p < end; p++, value += vector) {
            vf v[COLUMN_REGISTERS];
            for (unsigned r = 0; r < registers; r++)
                v[r] = load_stored(type, value + r * LANES * element_bytes(type),
                                   r + 1 < registers ? LANES : last);
            for (unsigned i = 0; i < n; i++) {
                const vf e = vf_set1(weights->at[i][p - s.origin]);
                for (unsigned r = 0; r < registers; r++)
                    sum[i][r] = vf_add(sum[i][r], vf_mul(e, v[r]));
            }
        }
    }
    for (unsigned i = 0; i < n; i++)
        for (unsigned r = 0; r < registers; r++)
            vf_store(part[i].sum + column + r * LANES, sum[i][r]);
}

INLINE void sum_values(enum tern_kv_type type, unsigned n, const struct tern_attention *a,
                       struct stretch s, const struct scores *weights, struct part *part)
{
    const uint32_t size = a->kv->head_size;
    const uint32_t wide = COLUMN_REGISTERS * LANES;
    uint32_t column = 0;
    for (; column + wide <= size; column += wide)
        sum_columns(type, n, COLUMN_REGISTERS, LANES, a, s, column, weights, part);
    for (; column + LANES <= size; column += LANES)
        sum_columns(type, n, 1, LANES, a, s, column, weights, part);
    if (column < size)
        sum_columns(type, n, 1, size - column, a, s, column, weights, part);
}

/* ---- Blocks and rows ---- */

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

/* What row `row` sees of the block that begins at `block`; nothing if begin >= end. */
static struct stretch seen(const struct tern_attention *a, uint32_t row, uint32_t block)
{
    const uint32_t end = a->position + row + 1;
    const uint32_t first = a->window != 0 && end > a->window ? end - a->window : 0;
    const uint32_t begin = first > block ? first : block;
    return (struct stretch){.begin = begin,
                            .end = end < block + BLOCK ? end : block + BLOCK,
                            .origin = begin / 16 * 16,
                            .first = begin == first};
}

static bool alike(struct stretch s, struct stretch t)
{
    return s.begin == t.begin && s.end == t.end && s.first == t.first;
}

/* A stretch for `n` (a constant) queries, row by row from number `query` on; `all`: what each of
 * them has seen. */
INLINE void attend_stretch(enum tern_kv_type type, unsigned n, const struct tern_attention *a,
                           const struct tern_queries *queries, uint32_t query, struct stretch s,
                           struct part *all, uint32_t *failed)
{
    const uint32_t size = a->kv->head_size;
    struct part block[QUERIES], *part = s.first ? all : block;
    struct scores scores;
    const float *q[QUERIES];
    for (unsigned i = 0; i < n; i++)
        q[i] = queries->q + (query + i) / queries->heads * queries->q_stride +
               (query + i) % queries->heads * size;
    score_stretch(type, n, a, q, s, &scores);
    for (unsigned i = 0; i < n; i++)
        if (!weigh_scores(s, scores.at[i], &part[i]))
            *failed |= 1u << (query + i) / queries->heads;
    sum_values(type, n, a, s, &scores, part);
    for (unsigned i = 0; i < n && !s.first; i++)
        merge_block(&all[i], &block[i], size);
}

typedef void (*attend_fn)(const struct tern_attention *a, const struct tern_queries *queries,
                          uint32_t query, struct stretch s, struct part *all, uint32_t *failed);

#define ATTEND(type, n)                                                                            \
    static void attend_##type##_##n(const struct tern_attention *a,                                \
                                    const struct tern_queries *queries, uint32_t query,            \
                                    struct stretch s, struct part *all, uint32_t *failed)          \
    {                                                                                              \
        attend_stretch(TERN_KV_##type, n, a, queries, query, s, all, failed);                      \
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

static const attend_fn attend_some[2][QUERIES] = {
#if defined(__AVX512BW__)
    {attend_F16_1, attend_F16_2, attend_F16_3, attend_F16_4},
    {attend_F32_1, attend_F32_2, attend_F32_3, attend_F32_4},
#else
    {attend_F16_1, attend_F16_2},
    {attend_F32_1, attend_F32_2},
#endif
};

/* Neighbouring queries that see the same of a block go together. */
static void attend_to_block(const struct tern_attention *a, const struct tern_queries *queries,
                            uint32_t block, struct part *all, uint32_t *failed)
{
    const attend_fn *some = attend_some[a->kv->type == TERN_KV_F32];
    const uint32_t count = queries->rows * queries->heads;
    for (uint32_t query = 0, n; query < count; query += n) {
        const struct stretch s = seen(a, query / queries->heads, block);
        n = 1;
        if (s.begin >= s.end)
            continue;
        while (n < QUERIES && query + n < count &&
               alike(s, seen(a, (query + n) / queries->heads, block)))
            n++;
        some[n - 1](a, queries, query, s, &all[query], failed);
    }
}

uint32_t TIER(attend)(const struct tern_attention *a, const struct tern_queries *queries)
{
    struct part all[TERN_MAX_QUERIES];
    uint32_t failed = 0;
    const uint32_t end = a->position + queries->rows;
    for (uint32_t block = seen(a, 0, 0).begin / BLOCK * BLOCK; block < end; block += BLOCK)
        attend_to_block(a, queries, block, all, &failed);
    for (uint32_t row = 0; row < queries->rows; row++)
        for (uint32_t head = 0; head < queries->heads; head++)
            if (!store_result(&all[row * queries->heads + head], a->kv->head_size,
                              queries->out + row * queries->out_stride + head * a->kv->head_size))
                failed |= 1u << row;
    return failed;
}
