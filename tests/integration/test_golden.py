"""Every golden model gives the reference's logits within its tolerance and its greedy tokens."""
import unittest

from harness import GOLDEN, ServiceTest, floats, models

EXACT = ("--precision", "high", "--kv", "f32")


class Golden(ServiceTest):
    def check_case(self, path, about, case, folder):
        got = floats(self.service.logits(path, case["tokens"], *EXACT))
        want = floats((folder / case["logits_f32"]).read_bytes())
        vocabulary = about["vocab"] if "vocab" in about else len(got) // len(case["tokens"])
        self.assertEqual(len(got), len(case["tokens"]) * vocabulary)
        got = got[case["rows_from"] * vocabulary:]
        self.assertEqual(len(got), len(want))
        worst = max(abs(a - b) for a, b in zip(got, want)) / case["max_abs"]
        self.assertLessEqual(worst, case["tol"])
        greedy = case["greedy"]
        self.assertEqual(self.service.ids(path, case["tokens"], len(greedy), *EXACT), greedy)


def add_test(name, path, about):
    def test(self):
        for number, case in enumerate(about["cases"]):
            with self.subTest(case=number):
                self.check_case(path, about, case, GOLDEN / "models")
    setattr(Golden, "test_" + name.replace("-", "_"), test)


for _name, _path, _about in models():
    add_test(_name, _path, _about)

if __name__ == "__main__":
    unittest.main()
