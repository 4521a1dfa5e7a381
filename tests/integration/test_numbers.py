"""Numbers that went wrong elsewhere (B41, B43, B45): scaled frequencies, heads that are not width /
heads, values beyond half precision. Held against formulas in double precision and, to the bit,
against tests/reference."""
import json
import math
import struct
import subprocess
import unittest

import gguf_files as g
from float64 import Float64
from harness import BUILD, ServiceTest, floats

REFERENCE = BUILD / "tests" / "reference" / "reference"
# Of the largest logit, with 16-bit activations: measured were 2e-4 and, with large values, 4e-4.
CLOSE, CLOSE_LARGE = 3e-4, 1e-3


def llama3_factors(pairs, base=500000.0, factor=8.0, low=1.0, high=4.0, original=8192.0):
    """What Llama 3.1 stores in rope_freqs.weight, from its published rule on wavelengths."""
    factors = []
    for i in range(pairs):
        length = 2 * math.pi * base ** (i / pairs)
        smooth = (original / length - low) / (high - low)
        share = min(1.0, max(0.0, smooth))
        factors.append(1 / ((1 - share) / factor + share))
    return factors


def scale(model, name, factor):
    tensor = model.tensor(name)
    values = struct.unpack("<%df" % (len(tensor.data) // 4), tensor.data)
    tensor.data = struct.pack("<%df" % len(values), *(v * factor for v in values))


class Numbers(ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.service.root / "numbers.gguf"

    def rows(self, model, tokens, *options):
        """Logits of every position, as bytes, and as rows of floats."""
        self.path.write_bytes(g.encode(model)[0])
        data = self.service.logits(self.path, tokens, *options)
        values, width = floats(data), len(data) // 4 // len(tokens)
        return data, [values[i:i + width] for i in range(0, len(values), width)]

    def reference(self, model, tokens, *options):
        self.path.write_bytes(g.encode(model)[0])
        file, out = self.service.tokens_file(tokens), self.service.root / "reference.f32"
        file.write_text(json.dumps(tokens))
        subprocess.run([REFERENCE, self.path, "--tokens", file, "-o", out, *options], check=True, timeout=120)
        return out.read_bytes()

    def difference(self, row, want):
        self.assertTrue(all(map(math.isfinite, row)))
        return max(abs(a - b) for a, b in zip(row, want)) / max(map(abs, want))

    # ---- B41 ----

    def llama3(self, factors):
        """Heads of 128, as Llama 3.1 has them, and its frequencies; 4096 positions."""
        model = g.base(heads=1, head_size=128)
        model.keys["llama.context_length"] = (g.U32, 4096)
        model.keys["llama.rope.freq_base"] = (g.F32, 500000.0)
        if factors is not None:
            model.tensors.append(g.Tensor("rope_freqs.weight", [64], g.T_F32, struct.pack("<64f", *factors)))
        # Strong enough that what is attended to shows in the logits.
        scale(model, "blk.0.attn_q.weight", 3)
        scale(model, "blk.0.attn_k.weight", 3)
        scale(model, "blk.0.attn_output.weight", 4)
        return model

    def test_scaled_frequencies(self):
        for factor in (8.0, 32.0):
            factors = llama3_factors(64, factor=factor)
            self.assertEqual(factors[:29], [1.0] * 29)
            self.assertEqual(factors[35:], [factor] * 29)
            self.assertTrue(all(a < b for a, b in zip(factors[28:35], factors[29:36])))
        tokens = [1] + [5 + i * i % 7 for i in range(3000)]
        options = ("--precision", "high", "--kv", "f32")
        _, scaled = self.rows(self.llama3(llama3_factors(64)), tokens, *options)
        ones_bytes, ones = self.rows(self.llama3([1.0] * 64), tokens, *options)
        plain_bytes, _ = self.rows(self.llama3(None), tokens, *options)
        self.assertTrue(ones_bytes == plain_bytes, "factors of one change something")
        self.assertEqual(scaled[0], ones[0])
        formulas = Float64(self.llama3(llama3_factors(64)))
        for position in (0, 1, 64, 700, 3000):
            want = formulas.logits(tokens[:position + 1])
            self.assertLess(self.difference(scaled[position], want), CLOSE, position)
            if position >= 700:
                self.assertGreater(self.difference(ones[position], want), 5 * CLOSE, position)
        # One factor for all pairs is linear scaling.
        model = self.llama3(None)
        model.keys["llama.rope.scaling.factor"] = (g.F32, 8.0)
        self.assertTrue(self.rows(model, tokens[:500])[0] == self.rows(self.llama3([8.0] * 64), tokens[:500])[0])
        self.assertNotIn("rope_freqs", self.service.log())

    # ---- B43 ----

    def test_heads_of_their_own_size(self):
        tokens = [1] + [3 + 7 * i % 200 for i in range(40)]
        for width, heads, kv_heads, size in ((160, 4, 1, 64), (96, 4, 2, 32), (64, 1, 1, 256), (128, 2, 2, 16)):
            with self.subTest(width=width, heads=heads, size=size):
                self.assertNotEqual(width // heads, size)
                model = g.base(width, heads, kv_heads, size)
                self.assertTrue(self.rows(model, tokens)[0] == self.reference(model, tokens), "other bits")
                _, rows = self.rows(model, tokens, "--precision", "high", "--kv", "f32")
                for position in (0, 40):
                    want = Float64(model).logits(tokens[:position + 1])
                    self.assertLess(self.difference(rows[position], want), CLOSE)
                # Without the key the sizes contradict the tensors.
                for key in ("key_length", "value_length"):
                    del model.keys["llama.attention." + key]
                del model.keys["llama.rope.dimension_count"]
                self.path.write_bytes(g.encode(model)[0])
                result = self.service.tern("run", self.path, "--raw", "hi")
                self.assertEqual((result.code, result.out, result.err.count("\n")), (3, b"", 1), result)

    # ---- B45 ----

    def large(self, kind):
        """A block whose feed-forward network works with values of 1e5 and more, its result ordinary.
        The last projection is F32 or quantized: scales of 2^-20, other codes pseudo-random."""
        model = g.base()
        model.keys["llama.context_length"] = (g.U32, 512)
        ffn = 64
        model.keys["llama.feed_forward_length"] = (g.U32, ffn)
        noise = g.Noise(45)
        for name in ("gate", "up"):
            tensor = model.tensor("blk.0.ffn_%s.weight" % name)
            tensor.sizes, tensor.data = [g.WIDTH, ffn], g.floats(noise, g.WIDTH * ffn, 0.5, 0.05)
        scale(model, "blk.0.ffn_up.weight", 3e5)
        down = model.tensor("blk.0.ffn_down.weight")
        down.sizes, down.kind = [ffn, g.WIDTH], kind
        if kind == g.T_F32:
            down.data = g.floats(noise, ffn * g.WIDTH, 2e-5)
        else:
            codes = {g.T_Q8_0: 32, g.T_Q4_0: 16}[kind]
            down.data = b"".join(struct.pack("<e", 2.0**-20) + bytes(int((noise.next() + 0.5) * 256) for _ in range(codes))
                                 for _ in range(ffn // 32 * g.WIDTH))
        return model

    def test_values_beyond_half_precision(self):
        tokens = [1] + [3 + 11 * i % 250 for i in range(511)]
        for kind in (g.T_F32, g.T_Q8_0, g.T_Q4_0):
            model = self.large(kind)
            for precision in ("fast", "high"):
                want = self.reference(model, tokens, "--precision", precision)
                for length in (1, 8, 63, 64, 65, 512):
                    with self.subTest(kind=kind, precision=precision, length=length):
                        data, rows = self.rows(model, tokens[:length], "--precision", precision)
                        self.assertTrue(all(map(math.isfinite, rows[-1])))
                        self.assertTrue(data == want[:len(data)], "other bits than the reference")
        model = self.large(g.T_F32)
        formulas = Float64(model)
        _, rows = self.rows(model, tokens, "--precision", "high")
        for position in (0, 64, 511):
            want = formulas.logits(tokens[:position + 1])
            self.assertGreater(max(map(abs, formulas.hidden)), 1e5)
            self.assertGreater(max(abs(sum(formulas.hidden[i:i + 32])) for i in (0, 32)), 2e5)
            self.assertLess(self.difference(rows[position], want), CLOSE_LARGE)

    def test_keys_and_values_that_the_cache_cannot_hold(self):
        tokens = [1] + [3 + 11 * i % 250 for i in range(69)]
        for name in ("k", "v"):
            model = g.base()
            model.keys["llama.context_length"] = (g.U32, 128)
            scale(model, "blk.0.attn_%s.weight" % name, 1e5)
            if name == "k":
                scale(model, "blk.0.attn_q.weight", 1e-5)
            else:
                scale(model, "blk.0.attn_output.weight", 1e-5)
            self.path.write_bytes(g.encode(model)[0])
            for length in (1, 8, 64, 70):
                result = self.service.tern("run", self.path, "--tokens", self.service.tokens_file(tokens[:length]),
                                           "--ids", "-n", 2)
                self.assertEqual((result.code, result.out, result.err.count("\n")), (3, b"", 1), result)
                self.assertIn("--kv f32", result.err)
            data, rows = self.rows(model, tokens, "--kv", "f32")
            self.assertTrue(data == self.reference(model, tokens, "--kv", "f32"), "other bits than the reference")
            _, rows = self.rows(model, tokens, "--kv", "f32", "--precision", "high")
            self.assertLess(self.difference(rows[69], Float64(model).logits(tokens)), CLOSE_LARGE)


if __name__ == "__main__":
    unittest.main()
