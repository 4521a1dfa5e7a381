/*
 * Attention over the cache in ordered blocks of 256 positions (NUMERICS section 3), for several
 * query heads that share a key head, of several rows. A block serves all of them while it is in the
 * cache, widened once if they are many. Compiled once per tier.
 *
 * Scores of a block lie at their position minus the block's first multiple of 16, so that their
 * place mod 16 is their chain. Places without a position weigh +0. Sums start from +0 instead of at
 * the first term: weights are not negative, and the value rule turns a -0 into +0 either way.
 */
#include "proto/numerics/product.h"
#include "workers/compute-cpu/kernels/functions_simd.h"
#include "workers/compute-cpu/kernels/kv_block.h"
#include "workers/compute-cpu/kernels/operations.h"

enum {
    QUERIES = LANES / 4,  /* at a time */
    COLUMN_REGISTERS = 4, /* registers of the value sum of one head at a time */
    MANY = 12,            /* queries for which a block is worth widening */
};

/* Where keys and values are read. */
enum source { STORED_F16, STORED_F32, WIDENED };

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

/* All scores of a stretch; what other places get does not count. */
INLINE void score_stretch(enum source source, unsigned n, const struct tern_attention *a,
                          const struct kv_block *block, const float *const q[QUERIES],
                          struct stretch s, struct scores *scores)
{
    const uint32_t size = a->kv->head_size;
    for (uint32_t p = s.origin; source == WIDENED && p < s.end; p += LANES) {
        vf score[QUERIES];
        score_places(n, size, block->key + p % BLOCK * size, q, score);
        for (unsigned i = 0; i < n; i++)
            vf_store(scores->at[i] + (p - s.origin), vf_mul(score[i], vf_set1(a->scale)));
    }
    for (uint32_t p = s.origin; source != WIDENED && p < s.end; p += 4) {
        const uint8_t *key[4];
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t from_begin = p + k > s.begin ? p + k : s.begin;
            key[k] = tern_kv_key(a, from_begin < s.end ? from_begin : s.end - 1);
        }
        __m128 score[QUERIES];
        score_four(source == STORED_F16 ? TERN_KV_F16 : TERN_KV_F32, n, a, q, key, score);
        for (unsigned i = 0; i < n; i++)
            _mm_storeu_ps(scores->at[i] + (p - s.origin), score[i]);
    }
}

/* Makes scores weights: exp(score - max) in place, their sum in 16 chains. False if a score is not
 * finite: then the query has failed, and its part means nothing. */
static bool weigh_scores(struct stretch s, float *score, struct part *part)
{
    const uint32_t from = s.begin - s.origin, to = s.end - s.origin;
    const uint32_t padded = (to + 15) / 16 * 16;
    for (uint32_t i = 0; i < from; i++)
        score[i] = score[from];
    for (uint32_t i = to; i < padded; i++)
        score[i] = score[from];
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
    for (uint32_t i = 0; i < from; i++)
        score[i] = 0.0f;
    for (uint32_t i = to; i < padded; i++)
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

/* Value vectors that lie one behind the other, from that of a position on. */
struct run {
    const uint8_t *value;
    size_t bytes; /* of one */
    uint32_t end;
};

INLINE struct run run_of(enum source source, const struct tern_attention *a,
                         const struct kv_block *block, uint32_t position, uint32_t end)
{
    const uint32_t size = a->kv->head_size, page = TERN_PAGE_POSITIONS;
    if (source == WIDENED)
        return (struct run){(const uint8_t *)(block->value + position % BLOCK * value_stride(size)),
                            value_stride(size) * sizeof(float), end};
    const uint32_t page_end = (position / page + 1) * page;
    return (struct run){tern_kv_value(a, position), size * (source == STORED_F16 ? 2 : 4),
                        page_end < end ? page_end : end};
}

/* Sums of `registers` (a constant) registers of columns from `column` on; `last`: columns of the
 * last. */
INLINE void sum_columns(enum source source, unsigned n, unsigned registers, uint32_t last,
                        const struct tern_attention *a, const struct kv_block *block,
                        struct stretch s, uint32_t column, const struct scores *weights,
                        struct part *part)
{
    const enum tern_kv_type type = source == STORED_F16 ? TERN_KV_F16 : TERN_KV_F32;
    vf sum[QUERIES][COLUMN_REGISTERS];
    for (unsigned i = 0; i < n; i++)
        for (unsigned r = 0; r < registers; r++)
            sum[i][r] = vf_zero();
    for (uint32_t p = s.begin; p < s.end;) {
        const struct run run = run_of(source, a, block, p, s.end);
        const uint8_t *value = run.value + column * element_bytes(type);
        for (; p < run.end; p++, value += run.bytes) {
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

INLINE void sum_values(enum source source, unsigned n, const struct tern_attention *a,
                       const struct kv_block *block, struct stretch s, const struct scores *weights,
                       struct part *part)
{
    const uint32_t size = a->kv->head_size;
    const uint32_t wide = COLUMN_REGISTERS * LANES;
    uint32_t column = 0;
    for (; column + wide <= size; column += wide)
        sum_columns(source, n, COLUMN_REGISTERS, LANES, a, block, s, column, weights, part);
    for (; column + LANES <= size; column += LANES)
        sum_columns(source, n, 1, LANES, a, block, s, column, weights, part);
    if (column < size)
        sum_columns(source, n, 1, size - column, a, block, s, column, weights, part);
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

/* A thread's scratch. */
struct workspace {
    struct kv_block block;
    struct part all[TERN_MAX_QUERIES]; /* of each query: what it has seen */
};
_Static_assert(sizeof(struct workspace) <= TERN_KERNEL_SCRATCH, "a thread's scratch holds it");

struct job {
    const struct tern_attention *a;
    const struct tern_queries *queries;
    struct workspace *space;
    uint32_t failed; /* a bit for each row */
};

/* A stretch for `n` (a constant) queries, row by row from number `query` on. */
INLINE void attend_stretch(enum source source, unsigned n, struct job *job, uint32_t query,
                           struct stretch s)
{
    const struct tern_queries *queries = job->queries;
    const uint32_t size = job->a->kv->head_size;
    struct part *all = job->space->all + query, alone[QUERIES], *part = s.first ? all : alone;
    struct scores scores;
    const float *q[QUERIES];
    for (unsigned i = 0; i < n; i++)
        q[i] = queries->q + (query + i) / queries->heads * queries->q_stride +
               (query + i) % queries->heads * size;
    score_stretch(source, n, job->a, &job->space->block, q, s, &scores);
    for (unsigned i = 0; i < n; i++)
        if (!weigh_scores(s, scores.at[i], &part[i]))
            job->failed |= 1u << (query + i) / queries->heads;
    sum_values(source, n, job->a, &job->space->block, s, &scores, part);
    for (unsigned i = 0; i < n && !s.first; i++)
        merge_block(&all[i], &alone[i], size);
}

typedef void (*attend_fn)(struct job *job, uint32_t query, struct stretch s);

#define ATTEND(source, n)                                                                          \
    static void attend_##source##_##n(struct job *job, uint32_t query, struct stretch s)           \
    {                                                                                              \
        attend_stretch(source, n, job, query, s);                                                  \
    }
#define ATTEND_SOME(source) ATTEND(source, 1) ATTEND(source, 2)
ATTEND_SOME(STORED_F16)
ATTEND_SOME(STORED_F32)
ATTEND_SOME(WIDENED)
#if defined(__AVX512BW__)
#define ATTEND_MORE(source) ATTEND(source, 3) ATTEND(source, 4)
ATTEND_MORE(STORED_F16)
ATTEND_MORE(STORED_F32)
ATTEND_MORE(WIDENED)
#define ALL(source)                                                                                \
    {                                                                                              \
        attend_##source##_1, attend_##source##_2, attend_##source##_3, attend_##source##_4         \
    }
#else
#define ALL(source)                                                                                \
    {                                                                                              \
        attend_##source##_1, attend_##source##_2                                                   \
    }
#endif

static const attend_fn attend_some[][QUERIES] = {
    [STORED_F16] = ALL(STORED_F16), [STORED_F32] = ALL(STORED_F32), [WIDENED] = ALL(WIDENED)};

/* Neighbouring queries that see the same of the block that begins at `start` go together. */
static void attend_to_block(struct job *job, enum source source, uint32_t start)
{
    const uint32_t heads = job->queries->heads, count = job->queries->rows * heads;
    for (uint32_t query = 0, n; query < count; query += n) {
        const struct stretch s = seen(job->a, query / heads, start);
        n = 1;
        if (s.begin >= s.end)
            continue;
        while (n < QUERIES && query + n < count &&
               alike(s, seen(job->a, (query + n) / heads, start)))
            n++;
        attend_some[source][n - 1](job, query, s);
    }
}

/* What any row sees of it. */
static void widen_block(enum source source, struct job *job, uint32_t start)
{
    const uint32_t begin = seen(job->a, 0, start).begin;
    const uint32_t end = seen(job->a, job->queries->rows - 1, start).end;
    if (source == STORED_F16)
        fill_kv_block(TERN_KV_F16, job->a, begin, end, &job->space->block);
    else
        fill_kv_block(TERN_KV_F32, job->a, begin, end, &job->space->block);
}

uint32_t TIER(attend)(const struct tern_attention *a, const struct tern_queries *queries,
                      uint8_t *scratch)
{
    const enum source stored = a->kv->type == TERN_KV_F16 ? STORED_F16 : STORED_F32;
    const bool many = queries->rows * queries->heads >= MANY;
    const uint32_t end = a->position + queries->rows;
    struct job job = {a, queries, (struct workspace *)(void *)scratch, 0};
    for (uint32_t start = seen(a, 0, 0).begin / BLOCK * BLOCK; start < end; start += BLOCK) {
        if (many)
            widen_block(stored, &job, start);
        attend_to_block(&job, many ? WIDENED : stored, start);
    }
    for (uint32_t row = 0; row < queries->rows; row++)
        for (uint32_t head = 0; head < queries->heads; head++)
            if (!store_result(&job.space->all[row * queries->heads + head], a->kv->head_size,
                              queries->out + row * queries->out_stride + head * a->kv->head_size))
                job.failed |= 1u << row;
    return job.failed;
}
