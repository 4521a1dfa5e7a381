"""Tern's logits have the bits of tests/reference, a second implementation of the arithmetic contract,
for every golden model, both precisions and both cache types (f16, f32)."""
import itertools
import json
import subprocess
import unittest

from harness import BUILD, ServiceTest, floats, models

REFERENCE = BUILD / "tests" / "reference" / "reference"
SETTINGS = list(itertools.product(("fast", "high"), ("f16", "f32")))
BEYOND = 300  # tokens that reach into a second block of 256 positions
CASES = 2  # short and medium; the long one adds minutes, and test_golden runs it


def first_difference(got, want, rows):
    """Where two byte strings of logits part, for a person to read."""
    if len(got) != len(want):
        return f"{len(got)} bytes, the reference has {len(want)}"
    at = next(i for i in range(0, len(want), 4) if got[i:i + 4] != want[i:i + 4]) // 4
    width = len(want) // 4 // rows
    wrong = sum(got[i:i + 4] != want[i:i + 4] for i in range(0, len(want), 4))
    return (f"{wrong} of {len(want) // 4} logits differ, first at position {at // width}, token "
            f"{at % width}: {floats(got)[at]!r}, the reference has {floats(want)[at]!r}")


class Reference(ServiceTest):
    def reference(self, path, tokens, *options):
        """The reference's logits as bytes."""
        file = self.service.root / "reference.json"
        out = self.service.root / "reference.f32"
        file.write_text(json.dumps(tokens))
        subprocess.run([REFERENCE, path, "--tokens", file, "-o", out, *options], check=True,
                       timeout=600)
        return out.read_bytes()

    def check(self, path, tokens, precision, kv):
        options = ("--precision", precision, "--kv", kv)
        want = self.reference(path, tokens, *options)
        self.assertGreater(len(want), 0)
        got = self.service.logits(path, tokens, *options)
        if got != want:
            self.fail(first_difference(got, want, len(tokens)))


def add_test(name, path, about):
    def test(self):
        for precision, kv in SETTINGS:
            for number, case in enumerate(about["cases"][:CASES]):
                with self.subTest(precision=precision, kv=kv, case=number):
                    self.check(path, case["tokens"], precision, kv)
    setattr(Reference, "test_" + name.replace("-", "_"), test)


def add_block_test(name, path, about):
    def test(self):
        tokens = (about["cases"][:2][-1]["tokens"] * BEYOND)[:BEYOND]
        self.check(path, tokens, "fast", "f16")
    setattr(Reference, "test_beyond_a_block_" + name.replace("-", "_"), test)


_seen = set()
for _name, _path, _about in models():
    add_test(_name, _path, _about)
    if _about["arch"] not in _seen:
        add_block_test(_name, _path, _about)
    _seen.add(_about["arch"])

if __name__ == "__main__":
    unittest.main()
