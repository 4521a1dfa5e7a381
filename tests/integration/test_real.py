"""The two real models give the reference's logits and greedy tokens. They are large, so they are
used if scripts/fetch-models --gemma has brought them into the cache, and skipped, by name, if not."""
import json
import unittest

from harness import GOLDEN, REAL, ServiceTest, floats

EXACT = ("--precision", "high", "--kv", "f32")


class Real(ServiceTest):
    def check(self, name, file):
        model = REAL / file
        about = GOLDEN / "real" / f"{name}.json"
        for path in (model, about):
            if not path.exists():
                self.skipTest(f"{path.name} is missing")
        for case in json.loads(about.read_text())["cases"]:
            with self.subTest(case=case["name"]):
                self.check_case(model, case)

    def check_case(self, model, case):
        rows = len(case["tokens"]) - case["rows_from"]
        got = floats(self.service.logits(model, case["tokens"], *EXACT, timeout=600))
        vocabulary = len(got) // len(case["tokens"])
        got = got[-rows * vocabulary:]
        want = floats((GOLDEN / "real" / case["logits_f32"]).read_bytes())
        self.assertEqual(len(got), len(want))
        worst = max(map(abs, map(float.__sub__, got, want))) / case["max_abs"]
        self.assertLessEqual(worst, 2e-3)
        greedy = case["greedy"]
        self.assertEqual(
            self.service.ids(model, case["tokens"], len(greedy), *EXACT, timeout=600), greedy)

    def test_smollm2(self):
        self.check("smollm2", "smollm2-135m.gguf")

    def test_gemma3(self):
        self.check("gemma3-270m", "gemma3-270m.gguf")


if __name__ == "__main__":
    unittest.main()
