"""How a token is chosen, written from the text of NUMERICS (section 4, exp: section 1) alone, for tests to hold
Tern's choices against. Slow and plain."""
import math
import struct

MASK = 0xFFFFFFFF


def f32(x):
    """Rounded to binary32. One operation on such numbers in double, rounded so, is rounded correctly."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def exp32(x):
    if x > f32(88.72283):
        return math.inf
    if x < -34:
        return 0.0
    if abs(x) < 2.0**-25:
        return 1.0
    k = f32(f32(x * f32(1.44269502163)) + 12582912)
    n = struct.unpack("<i", struct.pack("<f", k))[0] - 0x4B400000
    f = f32(k - 12582912)
    r = f32(f32(x - f32(f * f32(0.693359375))) - f32(f * f32(-2.12194440e-4)))
    z = f32(r * r)
    p = f32(1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = f32(f32(p * r) + f32(c))
    y = f32(f32(f32(p * z) + r) + 1)
    return y * 2.0**n


def philox(seed, position):
    """First word of Philox4x32-10."""
    a, b, c, d = position, 0, 0, 0
    low, high = seed & MASK, seed >> 32
    for _ in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (second >> 32) ^ b ^ low, second & MASK, (first >> 32) ^ d ^ high, first & MASK
        low, high = (low + 0x9E3779B9) & MASK, (high + 0xBB67AE85) & MASK
    return a


def adjusted(logits, ids, bias, penalty):
    x = list(logits)
    for token, value in bias:
        x[token] = f32(x[token] + f32(value))
    for token in set(ids[-64:]):
        x[token] = f32(x[token] / f32(penalty)) if x[token] > 0 else f32(x[token] * f32(penalty))
    return x


def choose(logits, ids, temp=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0, bias=(), penalty=1.0):
    """The token after `ids`."""
    x = adjusted(logits, ids, bias, penalty) if bias or penalty != 1 else logits
    best = max(x)
    if f32(temp) == 0:
        return x.index(best)
    values = [f32(f32(v - best) / f32(temp)) for v in x]
    order = sorted(range(len(x)), key=lambda i: (-values[i], i))
    if top_k > 0:
        order = order[:top_k]
    chances = [exp32(values[i]) for i in order]
    total = before = 0.0
    for chance in chances:
        total += chance
    kept = 0
    while kept < len(chances) and (top_p >= 1 or before < top_p * total):
        before += chances[kept]
        kept += 1
    chances = [c for c in chances[:max(1, kept)] if c >= min_p * chances[0]]
    total = running = 0.0
    for chance in chances:
        total += chance
    u = (philox(seed, len(ids)) >> 8) * 2.0**-24
    for token, chance in zip(order, chances):
        running += chance
        if running > u * total:
            return token
    raise AssertionError("nothing was drawn")
