"""Writes GGUF files for tests: small valid models, and variants with chosen bytes changed.

base() is the smallest model of the llama family that works: one block, a SentencePiece-style
vocabulary of all bytes and a few letters. encode() also tells where every field of the file lies, so
that a test can change exactly the bytes it means.

    python3 gguf_files.py OUT.gguf      writes the base model
"""

import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
NUMBER = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
          U64: "Q", I64: "q", F64: "d"}

T_F32, T_F16, T_Q4_0, T_Q8_0, T_Q6_K, T_BF16 = 0, 1, 2, 8, 14, 30


class Array:
    """A metadata array: element type and values."""

    def __init__(self, kind, values):
        self.kind = kind
        self.values = values


class Tensor:
    """A tensor: name, sizes (columns first), type id and the bytes of its data."""

    def __init__(self, name, sizes, kind, data):
        self.name = name
        self.sizes = sizes
        self.kind = kind
        self.data = data


class Model:
    """Keys as a dict of name to (type, value), in order; tensors as a list."""

    def __init__(self, keys, tensors):
        self.keys = dict(keys)
        self.tensors = list(tensors)

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)


def pack_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def pack_value(kind, value):
    if kind == STRING:
        return pack_string(value)
    if kind != ARRAY:
        return struct.pack("<" + NUMBER[kind], value)
    head = struct.pack("<IQ", value.kind, len(value.values))
    if value.kind == STRING:
        return head + b"".join(pack_string(v) for v in value.values)
    return head + struct.pack("<%d%s" % (len(value.values), NUMBER[value.kind]), *value.values)


def encode(model, version=3, alignment=None):
    """Returns (bytes, places): places maps the name of a field to its offset in the file.

    Fields: "magic", "version", "tensors", "keys"; for each key "KEY" (name length), "KEY.type",
    "KEY.value"; for each tensor "NAME" (name length), "NAME.dimensions", "NAME.size0"...,
    "NAME.type", "NAME.offset", "NAME.data"; "directory.end".
    """
    alignment = alignment or model.keys.get("general.alignment", (U32, 32))[1]
    places = {"magic": 0, "version": 4, "tensors": 8, "keys": 16}
    out = bytearray(b"GGUF" + struct.pack("<IQQ", version, len(model.tensors), len(model.keys)))
    for name, (kind, value) in model.keys.items():
        places[name] = len(out)
        out += pack_string(name)
        places[name + ".type"] = len(out)
        out += struct.pack("<I", kind)
        places[name + ".value"] = len(out)
        out += pack_value(kind, value)
    offset = 0
    for tensor in model.tensors:
        places[tensor.name] = len(out)
        out += pack_string(tensor.name)
        places[tensor.name + ".dimensions"] = len(out)
        out += struct.pack("<I", len(tensor.sizes))
        for i, size in enumerate(tensor.sizes):
            places["%s.size%d" % (tensor.name, i)] = len(out)
            out += struct.pack("<Q", size)
        places[tensor.name + ".type"] = len(out)
        out += struct.pack("<I", tensor.kind)
        places[tensor.name + ".offset"] = len(out)
        out += struct.pack("<Q", offset)
        offset += -(-len(tensor.data) // alignment) * alignment
    places["directory.end"] = len(out)
    for tensor in model.tensors:
        out += bytes(-len(out) % alignment)
        places[tensor.name + ".data"] = len(out)
        out += tensor.data
    return bytes(out), places


def read_value(data, at, kind):
    """(value, offset behind it); arrays as lists."""
    if kind == STRING:
        length = struct.unpack_from("<Q", data, at)[0]
        return data[at + 8:at + 8 + length].decode(errors="surrogateescape"), at + 8 + length
    if kind != ARRAY:
        return struct.unpack_from("<" + NUMBER[kind], data, at)[0], at + struct.calcsize(NUMBER[kind])
    element, count = struct.unpack_from("<IQ", data, at)
    at, values = at + 12, []
    for _ in range(count):
        value, at = read_value(data, at, element)
        values.append(value)
    return values, at


def read_keys(data):
    """The metadata of a good file, as a dict."""
    keys, at = {}, 24
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        name, at = read_value(data, at, STRING)
        keys[name], at = read_value(data, at + 4, struct.unpack_from("<I", data, at)[0])
    return keys


def patch(data, offset, new):
    """The bytes with `new` over those at `offset`."""
    return data[:offset] + new + data[offset + len(new):]


# ---- the base model ----

WIDTH, HEADS, KV_HEADS, FFN, CONTEXT = 32, 2, 1, 48, 64
LETTERS = ["\u2581", "e", "t", "a", "o", "\u2581t", "he", "\u2581a", "\u2581the", "ll", "hello"]


class Noise:
    """Reproducible small numbers, the same on every machine (a 64-bit linear congruence)."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 40) / 2.0**24 - 0.5


def floats(noise, count, scale=1.0, around=0.0):
    return struct.pack("<%df" % count, *(around + scale * noise.next() for _ in range(count)))


def vocabulary():
    """Tokens, scores and token types (normal 1, unknown 2, control 3, byte 6)."""
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + LETTERS
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(LETTERS)
    scores = [0.0] * 259 + [-float(i + 1) for i in range(len(LETTERS))]
    return tokens, scores, kinds


def base_tensors(vocabulary_size, noise, width, heads, kv_heads, head):
    shapes = [
        ("token_embd.weight", [width, vocabulary_size]),
        ("blk.0.attn_norm.weight", [width]),
        ("blk.0.attn_q.weight", [width, heads * head]),
        ("blk.0.attn_k.weight", [width, kv_heads * head]),
        ("blk.0.attn_v.weight", [width, kv_heads * head]),
        ("blk.0.attn_output.weight", [heads * head, width]),
        ("blk.0.ffn_norm.weight", [width]),
        ("blk.0.ffn_gate.weight", [width, FFN]),
        ("blk.0.ffn_up.weight", [width, FFN]),
        ("blk.0.ffn_down.weight", [FFN, width]),
        ("output_norm.weight", [width]),
        ("output.weight", [width, vocabulary_size]),
    ]
    for name, sizes in shapes:
        count = sizes[0] * (sizes[1] if len(sizes) > 1 else 1)
        around = 1.0 if "norm" in name else 0.0
        yield Tensor(name, sizes, T_F32, floats(noise, count, 0.5, around))


def base(width=WIDTH, heads=HEADS, kv_heads=KV_HEADS, head_size=None, tokens=None):
    """The smallest valid model. head_size: other than width/heads; tokens: that many of its
    vocabulary and no more."""
    words, scores, kinds = (values[:tokens] for values in vocabulary())
    keys = {
        "general.architecture": (STRING, "llama"),
        "general.name": (STRING, "base"),
        "general.alignment": (U32, 32),
        "llama.block_count": (U32, 1),
        "llama.context_length": (U32, CONTEXT),
        "llama.embedding_length": (U32, width),
        "llama.feed_forward_length": (U32, FFN),
        "llama.attention.head_count": (U32, heads),
        "llama.attention.head_count_kv": (U32, kv_heads),
        "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
        "llama.rope.freq_base": (F32, 10000.0),
        "llama.rope.dimension_count": (U32, head_size or width // heads),
        "tokenizer.ggml.model": (STRING, "llama"),
        "tokenizer.ggml.pre": (STRING, "default"),
        "tokenizer.ggml.tokens": (ARRAY, Array(STRING, words)),
        "tokenizer.ggml.scores": (ARRAY, Array(F32, scores)),
        "tokenizer.ggml.token_type": (ARRAY, Array(I32, kinds)),
        "tokenizer.ggml.bos_token_id": (U32, 1),
        "tokenizer.ggml.eos_token_id": (U32, 2),
        "tokenizer.ggml.unknown_token_id": (U32, 0),
        "tokenizer.ggml.add_bos_token": (BOOL, 1),
        "tokenizer.ggml.add_eos_token": (BOOL, 0),
    }
    if head_size is not None:
        keys["llama.attention.key_length"] = (U32, head_size)
        keys["llama.attention.value_length"] = (U32, head_size)
    return Model(keys, base_tensors(len(words), Noise(1), width, heads, kv_heads,
                                    head_size or width // heads))


def with_key(name, kind, value):
    """The base model with one key set."""
    model = base()
    model.keys[name] = (kind, value)
    return model


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "wb") as out:
        out.write(encode(base())[0])


if __name__ == "__main__":
    main()
