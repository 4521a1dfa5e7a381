/*
 * Operations on one row: norm, residual add, gated activation, argmax (NUMERICS section 4).
 */
#include "proto/numerics/chains.h"
#include "proto/numerics/functions.h"
#include "proto/numerics/layer.h"
#include "proto/numerics/value.h"
#include <math.h>

bool tern_norm(const float *x, const float *gain, uint32_t n, float epsilon, float *out)
{
    const float squares = tern_chain_dot(x, x, n);
    if (!tern_finite(squares))
        return false;
    const float mean = squares / (float)n;
    const float inverse = 1.0f / sqrtf(mean + epsilon);
    bool finite = true;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = tern_value((x[i] * inverse) * gain[i]);
        finite &= tern_finite(out[i]);
    }
    return finite;
}

bool tern_add_rows(const float *a, const float *b, uint32_t n, float *out)
{
    bool finite = true;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = tern_value(a[i] + b[i]);
        finite &= tern_finite(out[i]);
    }
    return finite;
}

bool tern_glu(enum tern_activation act, const float *gate, const float *up, uint32_t n, float *out)
{
    bool finite = true;
    for (uint32_t i = 0; i < n; i++) {
        if (!tern_finite(gate[i]))
            return false;
        const float activated = act == TERN_GELU ? tern_gelu(gate[i]) : tern_silu(gate[i]);
        out[i] = tern_value(activated * up[i]);
        finite &= tern_finite(out[i]);
    }
    return finite;
}

uint32_t tern_argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}
