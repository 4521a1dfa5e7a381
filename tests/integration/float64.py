"""A one-layer llama model in double precision, straight from its formulas: what the integer kernels
and their fixed order of sums must come close to. Weights must be F32."""
import math
import struct


def matrix(model, name):
    tensor = model.tensor(name)
    values = struct.unpack("<%df" % (len(tensor.data) // 4), tensor.data)
    columns = tensor.sizes[0]
    return [values[i:i + columns] for i in range(0, len(values), columns)]


def times(rows, x):
    return [math.fsum(map(float.__mul__, row, x)) for row in rows]


class Float64:
    """`model` is one of gguf_files.base()'s form."""

    def __init__(self, model):
        self.model = model
        key = {name.split(".", 1)[1]: value for name, (_, value) in model.keys.items() if name.startswith("llama.")}
        self.heads, self.kv_heads = key["attention.head_count"], key["attention.head_count_kv"]
        self.head = key.get("attention.key_length", key["embedding_length"] // self.heads)
        self.epsilon = key["attention.layer_norm_rms_epsilon"]
        pairs = self.head // 2
        factors = [1.0] * pairs
        if any(t.name == "rope_freqs.weight" for t in model.tensors):
            factors = matrix(model, "rope_freqs.weight")[0]
        self.frequency = [key["rope.freq_base"] ** (-i / pairs) / factors[i] for i in range(pairs)]
        self.rows = {t.name: matrix(model, t.name) for t in model.tensors}
        self.hidden = []  # what went into the last projection of the feed-forward network

    def norm(self, x, name):
        scale = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + self.epsilon)
        return [v * scale * gain for v, gain in zip(x, self.rows[name][0])]

    def rotate(self, x, position):
        out = []
        for i, frequency in enumerate(self.frequency):
            c, s = math.cos(position * frequency), math.sin(position * frequency)
            out += [x[2 * i] * c - x[2 * i + 1] * s, x[2 * i] * s + x[2 * i + 1] * c]
        return out

    def attend(self, q, keys, values):
        scores = [math.fsum(map(float.__mul__, q, k)) / math.sqrt(self.head) for k in keys]
        weights = [math.exp(s - max(scores)) for s in scores]
        total = math.fsum(weights)
        return [math.fsum(w * v[i] for w, v in zip(weights, values)) / total for i in range(self.head)]

    def logits(self, tokens):
        """Of the last position."""
        size, distinct = self.head, {}
        for token in set(tokens):
            x = self.norm(self.rows["token_embd.weight"][token], "blk.0.attn_norm.weight")
            distinct[token] = [times(self.rows["blk.0.attn_%s.weight" % n], x) for n in "qkv"]
        attended = []
        for head in range(self.heads):
            kv = head // (self.heads // self.kv_heads) * size
            keys = [self.rotate(distinct[t][1][kv:kv + size], p) for p, t in enumerate(tokens)]
            values = [distinct[t][2][kv:kv + size] for t in tokens]
            q = self.rotate(distinct[tokens[-1]][0][head * size:(head + 1) * size], len(tokens) - 1)
            attended += self.attend(q, keys, values)
        x = [a + b for a, b in zip(self.rows["token_embd.weight"][tokens[-1]],
                                   times(self.rows["blk.0.attn_output.weight"], attended))]
        normed = self.norm(x, "blk.0.ffn_norm.weight")
        gate, up = (times(self.rows["blk.0.ffn_%s.weight" % n], normed) for n in ("gate", "up"))
        self.hidden = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
        x = [a + b for a, b in zip(x, times(self.rows["blk.0.ffn_down.weight"], self.hidden))]
        return times(self.rows["output.weight"], self.norm(x, "output_norm.weight"))
