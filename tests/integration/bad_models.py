"""Hostile models: files that the parser must let pass, because their bytes are in order, but whose
weights, hyperparameters, tensors or vocabulary are not; and harmless oddities that must work.
bad_files.py adds the files that the parser refuses.
"""

import collections
import struct

import gguf_files as g

BadFile = collections.namedtuple("BadFile", "name data part status text")

BAD, UNSUPPORTED, NO_MEMORY, FINE = (3,), (5,), (4,), (0,)


def refused(name, data, text, status=BAD, part="file"):
    return BadFile(name, bytes(data), part, status, text)


def of_model(name, model, text, status=BAD, part="model"):
    return refused(name, g.encode(model)[0], text, status, part)


def with_llama(key, kind, value):
    return g.with_key("llama." + key, kind, value)


# ---- weights ----

# Type, bytes of a block of how many elements, offsets of its half-precision scales.
SCALED = {
    "Q4_0": (g.T_Q4_0, 18, 32, (0,)), "Q4_1": (3, 20, 32, (0, 2)),
    "Q5_0": (6, 22, 32, (0,)), "Q5_1": (7, 24, 32, (0, 2)),
    "Q8_0": (g.T_Q8_0, 34, 32, (0,)), "Q4_K": (12, 144, 256, (0, 2)),
    "Q5_K": (13, 176, 256, (0, 2)), "Q6_K": (g.T_Q6_K, 210, 256, (208,)),
}
SPECIAL = {"nan": float("nan"), "inf": float("inf"), "minus-inf": -float("inf")}
HALF = {"nan": 0x7e01, "inf": 0x7c00, "minus-inf": 0xfc00, "minus-nan": 0xfc01}


def quantized_model(name, columns):
    """A model whose attn_q and token_embd are zeros of a quantized type; as wide as its blocks."""
    kind, size, block, _ = SCALED[name]
    model = g.base(width=columns)
    for tensor in (model.tensor("blk.0.attn_q.weight"), model.tensor("token_embd.weight")):
        tensor.kind = kind
        tensor.data = bytes(size * (tensor.sizes[0] // block) * tensor.sizes[1])
    return model


def weights():
    """Numbers that are not finite, in every type and at every place of a block."""
    for label, value in SPECIAL.items():
        for name in ("blk.0.ffn_norm.weight", "output_norm.weight", "token_embd.weight",
                     "blk.0.ffn_down.weight"):
            data, places = g.encode(g.base())
            data = g.patch(data, places[name + ".data"] + 4 * 5, struct.pack("<f", value))
            yield refused("weight-%s-%s" % (label, name.split(".")[-2]), data,
                          "tensor '%s' (F32): element 5" % name, part="weights")
    for label, bits in HALF.items():
        for kind, kind_name in ((g.T_F16, "F16"), (g.T_BF16, "BF16")):
            model = g.base()
            tensor = model.tensor("blk.0.attn_v.weight")
            tensor.kind, tensor.data = kind, bytes(len(tensor.data) // 2)
            data, places = g.encode(model)
            if kind == g.T_BF16:
                bits = bits & 0x8000 | 0x7f80 | bits & 1
            yield refused("weight-%s-%s" % (label, kind_name), g.patch(
                data, places["blk.0.attn_v.weight.data"] + 2 * 7, struct.pack("<H", bits)),
                "tensor 'blk.0.attn_v.weight' (%s): element 7" % kind_name, part="weights")
    for name, (_, size, block, scales) in SCALED.items():
        data, places = g.encode(quantized_model(name, block))
        yield refused("zeros-%s" % name, data, "", FINE, part="model")
        for offset in scales:
            for label, bits in HALF.items():
                at = places["blk.0.attn_q.weight.data"] + 7 * size + offset
                yield refused("scale-%s-%d-%s" % (name, offset, label),
                              g.patch(data, at, struct.pack("<H", bits)),
                              "tensor 'blk.0.attn_q.weight' (%s): a scale of block 7" % name,
                              part="weights")
    # B45: large, but finite weights drive values beyond a 16-bit cache or beyond all numbers.
    for name, factor in (("blk.0.attn_k.weight", 1e6), ("blk.0.ffn_up.weight", 1e37)):
        model = g.base()
        tensor = model.tensor(name)
        values = struct.unpack("<%df" % (len(tensor.data) // 4), tensor.data)
        tensor.data = struct.pack("<%df" % len(values), *(v * factor for v in values))
        yield of_model("b45-%s" % name.split(".")[-2], model, "layer 0")
    model = g.base()
    model.tensor("blk.0.ffn_up.weight").data = struct.pack("<f", 3e3) * (g.WIDTH * g.FFN)
    yield of_model("b45-large-but-fine", model, "", FINE)


# ---- hyperparameters ----

def hyperparameters():
    """B13, B43, B50."""
    nan, inf = float("nan"), float("inf")
    cases = [
        ("attention.head_count", g.U32, (0, 3, 64, 2**32 - 1)),
        ("attention.head_count_kv", g.U32, (0, 3, 8, 2**32 - 1)),
        ("embedding_length", g.U32, (0, 31, 64, 2**31)),
        ("rope.dimension_count", g.U32, (0, 7, 18, 2**32 - 1)),
        ("feed_forward_length", g.U32, (0, 47, 2**32 - 1)),
        ("context_length", g.U32, (0,)),
        ("block_count", g.U32, (0, 2, 512, 2**32 - 1)),
        ("block_count", g.U64, (2**63, 2**64 - 1)),
        ("block_count", g.I32, (-1,)),
        ("embedding_length", g.F32, (32.0,)),
        ("context_length", g.STRING, ("64",)),
        ("attention.layer_norm_rms_epsilon", g.F32, (-1e-5, 0.0, nan, inf, -inf)),
        ("attention.layer_norm_rms_epsilon", g.F64, (1e300,)),
        ("attention.layer_norm_rms_epsilon", g.STRING, ("small",)),
        ("rope.freq_base", g.F32, (0.0, -1.0, nan, inf, 1e-30)),
        ("rope.scaling.factor", g.F32, (0.0, nan)),
        ("attention.key_length", g.U32, (0, 15, 32, 2**32 - 1)),
    ]
    for key, kind, values in cases:
        for value in values:
            # Some are possible numbers, but contradict the tensors.
            text = "" if value in (2, 32, 47, 64, 512) else "llama." + key
            yield of_model("b13-%s-%s" % (key, value), with_llama(key, kind, value), text, (3, 5))
    for key in ("attention.head_count", "attention.head_count_kv", "feed_forward_length", "block_count"):
        for values in ([], [1], [2**32 - 1] * 3):
            yield of_model("b13-%s-list-%d" % (key, len(values)), with_llama(key, g.ARRAY, g.Array(g.U32, values)),
                           "llama.%s is a list" % key, UNSUPPORTED)
    for value in (1, 63, 163840, 2**31, 2**32 - 1):
        yield of_model("b50-context-%d" % value, with_llama("context_length", g.U32, value), "",
                       FINE if value > 1 else (0, 4))
    for key in ("rope.freq_base", "attention.layer_norm_rms_epsilon"):
        yield of_model("whole-number-" + key, with_llama(key, g.U32, 1), "", FINE)
    for heads, size in ((4, 8), (16, 2), (2, 8)):
        model = g.base()
        del model.keys["llama.rope.dimension_count"]
        model.keys["llama.attention.head_count"] = (g.U32, heads)
        model.keys["llama.attention.key_length"] = (g.U32, size)
        yield of_model("b43-heads-%d-of-%d" % (heads, size), model, "llama.attention.key_length",
                       (3, 5))
    model = with_llama("attention.value_length", g.U32, 8)
    yield of_model("b43-value-length", model, "value_length", UNSUPPORTED)
    yield of_model("b43-narrow-heads", g.base(heads=2, head_size=32), "", FINE)
    for key in ("general.architecture", "llama.block_count", "llama.embedding_length",
                "llama.attention.head_count", "llama.feed_forward_length", "llama.context_length",
                "llama.attention.layer_norm_rms_epsilon"):
        model = g.base()
        del model.keys[key]
        yield of_model("b13-without-" + key, model, key)
    for value in ("nosuch", "", "LLAMA", "llama\u0007", "llama\0x", "x" * 10000):
        yield of_model("architecture-%d-%s" % (len(value), value[:6].strip("\u0007\0")),
                       g.with_key("general.architecture", g.STRING, value), "architecture",
                       (3, 5))
    yield of_model("architecture-number", g.with_key("general.architecture", g.U32, 7),
                   "general.architecture")
    for key, kind, value in (("expert_count", g.U32, 8), ("rope.scaling.type", g.STRING, "yarn"),
                             ("final_logit_softcapping", g.F32, 30.0),
                             ("attention.causal", g.BOOL, 0),
                             ("attention.sliding_window_pattern", g.U32, 4),
                             ("rope.freq_base_swa", g.F32, 500.0),
                             ("rope.scaling.alpha", g.F32, 1000.0)):
        yield of_model("unsupported-" + key, with_llama(key, kind, value), "llama." + key,
                       UNSUPPORTED)


# ---- tensors ----

def tensors():
    """Missing, misshapen, of another type, unknown."""
    for tensor in g.base().tensors:
        short = tensor.name.replace(".weight", "").replace("blk.0.", "")
        model = g.base()
        model.tensors = [t for t in model.tensors if t.name != tensor.name]
        # Without a head the embedding is the head.
        yield of_model("missing-" + short, model, "" if short == "output" else tensor.name,
                       FINE if short == "output" else BAD)
        changes = [("narrow", [tensor.sizes[0] // 2] + tensor.sizes[1:]), ("flat", [
            len(tensor.data) // 4])]
        if len(tensor.sizes) == 2:
            changes.append(("turned", tensor.sizes[::-1]))
            changes.append(("fewer-rows", [tensor.sizes[0], tensor.sizes[1] - 1]))
        changes.append(("deep", tensor.sizes + [1] * (3 - len(tensor.sizes)) + [2]))
        for how, sizes in changes:
            if sizes == tensor.sizes:
                continue
            model = g.base()
            changed = model.tensor(tensor.name)
            count = 1
            for size in sizes:
                count *= size
            changed.sizes, changed.data = sizes, bytes(4 * count)
            yield of_model("shape-%s-%s" % (short, how), model, "tok" if short == "token_embd"
                           else tensor.name)
    model = g.base()
    tensor = model.tensor("output_norm.weight")
    tensor.kind, tensor.data = g.T_F16, bytes(len(tensor.data) // 2)
    yield of_model("type-norm-f16", model, "output_norm.weight", UNSUPPORTED)
    for kind, label, size in ((20, "IQ4_NL", 18), (24, "I8", 32), (26, "I32", 128)):
        model = g.base()
        tensor = model.tensor("blk.0.attn_q.weight")
        tensor.kind, tensor.data = kind, bytes(size * tensor.sizes[1])
        yield of_model("type-" + label, model, label, UNSUPPORTED)
    model = g.base()
    model.tensors.append(g.Tensor("blk.0.surprise.weight", [4], g.T_F32, bytes(16)))
    yield of_model("tensor-unknown", model, "blk.0.surprise.weight", UNSUPPORTED)
    model = g.base()
    model.tensors = []
    yield of_model("no-tensors", model, "token_embd.weight")


def rope_factors():
    """B41."""
    def factors(values):
        model = g.base()
        model.tensors.append(g.Tensor("rope_freqs.weight", [len(values)], g.T_F32,
                                      struct.pack("<%df" % len(values), *values)))
        return model
    pairs = g.WIDTH // g.HEADS // 2
    yield of_model("b41-ones", factors([1.0] * pairs), "", FINE)
    yield of_model("b41-rising", factors([1.0 + i for i in range(pairs)]), "", FINE)
    yield of_model("b41-one-too-many", factors([1.0] * (pairs + 1)), "rope_freqs.weight")
    yield of_model("b41-zero", factors([0.0] * pairs), "rope_freqs.weight")
    yield of_model("b41-negative", factors([-1.0] * pairs), "rope_freqs.weight")
    yield of_model("b41-nan", factors([float("nan")] * pairs), "rope_freqs.weight", part="weights")
    yield of_model("b41-tiny", factors([1e-14] * pairs), "", (0, 3))
    yield of_model("b41-huge", factors([3e38] * pairs), "", (0, 3))


# ---- tokenizers ----

def special_tokens():
    """B15: refused, or loaded with that token marked absent."""
    count = len(g.vocabulary()[0])
    for value in (count, 2**31, 2**32 - 1):
        for key in ("bos_token_id", "eos_token_id", "unknown_token_id", "eot_token_id",
                    "padding_token_id"):
            yield of_model("b15-%s-%d" % (key, value),
                           g.with_key("tokenizer.ggml." + key, g.U32, value), "", FINE)
    for kind, value in ((g.STRING, "2"), (g.F32, 2.0), (g.BOOL, 1), (g.ARRAY, g.Array(g.U32, [2]))):
        yield of_model("b15-eos-of-type-%d" % kind, g.with_key("tokenizer.ggml.eos_token_id", kind, value), "",
                       FINE)
    yield of_model("b15-eos-negative", g.with_key("tokenizer.ggml.eos_token_id", g.I32, -1), "",
                   FINE)
    model = g.base(tokens=1)
    for key in ("bos_token_id", "eos_token_id", "unknown_token_id"):
        model.keys.pop("tokenizer.ggml." + key, None)
    # The text has no token then; the prompt may be refused as such (2), never crash.
    yield of_model("b15-one-token", model, "", (0, 2, 3))


def byte_level(pre="gpt-2", tokens=("a", "b", "ab"), merges=("a b",)):
    """The base model with a byte-level vocabulary; the other rows have no token."""
    model = g.base()
    for key in ("scores", "unknown_token_id", "bos_token_id", "eos_token_id", "add_bos_token"):
        del model.keys["tokenizer.ggml." + key]
    model.keys["tokenizer.ggml.model"] = (g.STRING, "gpt2")
    if pre is None:
        del model.keys["tokenizer.ggml.pre"]
    else:
        model.keys["tokenizer.ggml.pre"] = (g.STRING, pre)
    model.keys["tokenizer.ggml.tokens"] = (g.ARRAY, g.Array(g.STRING, list(tokens)))
    model.keys["tokenizer.ggml.token_type"] = (g.ARRAY, g.Array(g.I32, [1] * len(tokens)))
    if merges is not None:
        model.keys["tokenizer.ggml.merges"] = (g.ARRAY, g.Array(g.STRING, list(merges)))
    return model


def tokenizers():
    """B29 and vocabularies that contradict themselves."""
    def array(key, kind, values):
        return g.with_key("tokenizer.ggml." + key, g.ARRAY, g.Array(kind, values))
    tokens, scores, kinds = g.vocabulary()
    nan = float("nan")
    yield of_model("b29-pre-unknown", byte_level("no-such-pre"), "no-such-pre", UNSUPPORTED)
    yield of_model("b29-pre-absent", byte_level(None), "tokenizer.ggml.pre", UNSUPPORTED)
    yield of_model("merge-of-strangers", byte_level(merges=["a c"]), "merges")
    yield of_model("merge-without-space", byte_level(merges=["ab"]), "merges")
    yield of_model("merge-empty", byte_level(merges=[""]), "merges")
    yield of_model("merges-absent", byte_level(merges=None), "merges", (0, 2, 3))
    yield of_model("merge-long", byte_level(merges=["a" * 9000 + " b"]), "merges")
    yield of_model("merges-numbers", g.Model({**byte_level().keys, "tokenizer.ggml.merges": (
        g.ARRAY, g.Array(g.U32, [1, 2]))}, byte_level().tensors), "merges")
    for value in ("bert", "", "rwkv", "t5", "none", "LLAMA", "gpt2\n"):
        yield of_model("tokenizer-model-%s" % (value.strip() or "empty"),
                       g.with_key("tokenizer.ggml.model", g.STRING, value), "tokenizer",
                       UNSUPPORTED)
    for key in ("model", "tokens", "scores", "token_type"):
        model = g.base()
        del model.keys["tokenizer.ggml." + key]
        yield of_model("tokenizer-without-" + key, model, "" if key == "token_type" else
                       "tokenizer.ggml." + key, {"token_type": (0,)}.get(key, (0, 3, 5)))
    yield of_model("tokens-none", array("tokens", g.STRING, []), "tokens", (3, 5))
    yield of_model("tokens-numbers", array("tokens", g.U32, [1] * len(tokens)), "tokens", (3, 5))
    yield of_model("tokens-too-many", array("tokens", g.STRING, tokens + ["more"]), "token")
    yield of_model("tokens-all-equal", array("tokens", g.STRING, ["x"] * len(tokens)), "",
                   (0, 2, 3))
    yield of_model("tokens-empty", array("tokens", g.STRING, [""] * len(tokens)), "", (0, 2, 3))
    yield of_model("token-huge", array("tokens", g.STRING, ["x" * (1 << 20)] + tokens[1:]), "",
                   (0, 2, 3))
    yield of_model("scores-short", array("scores", g.F32, scores[:-1]), "scores")
    yield of_model("scores-nan", array("scores", g.F32, [nan] * len(scores)), "score", (0, 3))
    yield of_model("scores-inf", array("scores", g.F32, [float("inf")] * len(scores)), "score",
                   (0, 3))
    yield of_model("types-short", array("token_type", g.I32, kinds[:-1]), "token_type")
    yield of_model("types-texts", array("token_type", g.STRING, ["1"] * len(kinds)), "token_type")
    yield of_model("types-narrow", array("token_type", g.U8, kinds), "", FINE)
    yield of_model("scores-narrow", array("scores", g.U8, [1] * len(scores)), "", FINE)
    yield of_model("scores-texts", array("scores", g.STRING, ["1"] * len(scores)), "scores")
    # Bytes that are none, among those by name.
    for name in ("<0x-1>", "<0xZZ>", "<0x+1>", "<0x 1>", "<0x>", "<0x100>"):
        yield of_model("byte-" + name.strip("<>"), array("tokens", g.STRING, tokens[:258] + [name] + tokens[259:]),
                       "", FINE)
    yield of_model("token-with-nul", array("tokens", g.STRING, tokens[:-1] + ["a\0b"]), "", FINE)
    yield of_model("token-not-utf8", array("tokens", g.STRING, tokens[:-1] + [b"\xff\xfe"]), "", FINE)
    yield of_model("types-absurd", array("token_type", g.I32, [77] * len(kinds)), "type 77")
    yield of_model("types-negative", array("token_type", g.I32, [-1] * len(kinds)), "type -1")
    yield of_model("types-all-control", array("token_type", g.I32, [3] * len(kinds)), "",
                   (0, 2, 3))
    for label, template in (("endless", "{% for i in range(1000000000) %}{% endfor %}"),
                            ("open", "(" * 60000), ("long", "x" * (2 << 20))):
        yield of_model("b31-template-" + label,
                       g.with_key("tokenizer.chat_template", g.STRING, template), "", FINE)


def splits():
    yield of_model("split", g.with_key("split.count", g.U16, 3), "split.count", UNSUPPORTED,
                   part="file")
    for kind, value in ((g.I32, 3), (g.STRING, "3"), (g.ARRAY, g.Array(g.U16, [3]))):
        yield of_model("split-of-type-%d" % kind, g.with_key("split.count", kind, value), "split.count", part="file")
    yield of_model("split-one-of-one", g.with_key("split.count", g.U16, 1), "", FINE)


def models():
    yield from weights()
    yield from hyperparameters()
    yield from tensors()
    yield from rope_factors()
    yield from special_tokens()
    yield from tokenizers()
    yield from splits()
