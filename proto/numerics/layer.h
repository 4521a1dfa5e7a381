/*
 * The remaining operations of a layer on one row or head (NUMERICS sections 1, 3, 4), as scalar C.
 * Each returns false if a value it stored (or a sum of squares, or a score) is not finite; inputs
 * are finite values. in and out may not overlap unless they are equal where said.
 */
#ifndef TERN_NUMERICS_LAYER_H
#define TERN_NUMERICS_LAYER_H

#include "proto/board.h"
#include "proto/plan.h"

/* out = (x*inv)*gain, inv = 1/sqrt(mean of squares + epsilon). out may be x. */
bool tern_norm(const float *x, const float *gain, uint32_t n, float epsilon, float *out);
/* out = a + b; out may be a or b. */
bool tern_add_rows(const float *a, const float *b, uint32_t n, float *out);
/* out = act(gate)*up; out may be gate or up. */
bool tern_glu(enum tern_activation act, const float *gate, const float *up, uint32_t n, float *out);
/* First largest; n >= 1. */
uint32_t tern_argmax(const float *x, uint32_t n);

/* ---- RoPE ---- */

/* Frequencies f_i = inv_i / factor_i, i < size/2: inv_i = base^(-2i/size) correctly rounded.
 * factors: size/2 floats or NULL; linear: the linear factor or 1.
 * A base that is not finite and positive gives NaN. */
void tern_rope_frequencies(double base, uint32_t size, const float *factors, double linear,
                           double *frequency);
/* The table's row of a position: count pairs {cos, sin}, correctly rounded, value rule applied. An
 * angle that is not finite or reaches 2^31 gives NaN, which the rotation then reports. */
void tern_rope_row(const double *frequency, uint32_t count, uint32_t position, float *pairs);
/* One head of head_size values; dimensions from rope_size on pass unchanged. out may be x. */
bool tern_rope(const float *x, const float *pairs, uint32_t head_size, uint32_t rope_size,
               enum tern_rope_pairs order, float *out);

/* ---- KV cache and attention ---- */

enum { TERN_MAX_HEAD = 256 }; /* largest head_size that tern_attend takes */

/* Stores n values as `type` at out. TERN_FAULT_NONE (0) or TERN_FAULT_KV_OVERFLOW. */
int tern_kv_store(enum tern_kv_type type, const float *x, uint32_t n, void *out);

struct tern_attention {
    const uint8_t *cache;  /* data of the KV segment */
    const uint32_t *pages; /* page table of the sequence */
    const struct tern_kv_layout *kv;
    uint32_t kv_layer, kv_head;
    uint32_t position, window; /* sees positions max(0, position-window+1) .. position */
    float scale;
};

/* Address of the key (value: also) vector of `position` in the cache. */
static inline const uint8_t *tern_kv_key(const struct tern_attention *a, uint32_t position)
{
    const uint64_t element = a->kv->type == TERN_KV_F16 ? 2 : 4;
    const uint64_t vector = a->kv->head_size * element;
    return a->cache + a->pages[position / TERN_PAGE_POSITIONS] * a->kv->page_bytes +
           a->kv_layer * a->kv->page_layer_bytes +
           (a->kv_head * (uint64_t)TERN_PAGE_POSITIONS + position % TERN_PAGE_POSITIONS) * vector;
}
static inline const uint8_t *tern_kv_value(const struct tern_attention *a, uint32_t position)
{
    return tern_kv_key(a, position) + a->kv->page_layer_bytes / 2;
}

/* `heads` neighbouring query heads that share kv_head: q and out are [heads][head_size]. */
bool tern_attend(const struct tern_attention *a, const float *q, uint32_t heads, float *out);

#endif
