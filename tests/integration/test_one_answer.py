"""One answer: logits and tokens are the same bytes for every tier, thread count, batch, neighbour
request, and for the fused and the unfused plan."""
import json
import unittest

from harness import ServiceTest, prompts, representative

TIERS = ("scalar", "avx2", "avx512", "avx512vnni")


class OneAnswer(ServiceTest):
    def available_tiers(self, path):
        tiers = []
        for tier in TIERS:
            result = self.service.tern("load", path, "--tier", tier)
            if result.code == 0:
                tiers.append(tier)
            else:
                self.assertEqual(result.code, 2, result)
        self.assertIn("scalar", tiers)
        return tiers

    def test_tiers_threads_batches_fusion(self):
        for name, path, about in representative():
            tokens = about["cases"][-1]["tokens"]
            for precision in ("fast", "high"):
                want = self.service.logits(path, tokens, "--precision", precision)
                for options in self.variations(path):
                    with self.subTest(model=name, precision=precision, options=options):
                        got = self.service.logits(path, tokens, "--precision", precision, *options)
                        self.assertTrue(got == want, "other bytes")

    def variations(self, path):
        for tier in self.available_tiers(path):
            yield ("--tier", tier, "--batch", 7)
        for threads in (1, 2, 3):
            yield ("--threads", threads)
        for batch in (1, 7, 64, 512):
            yield ("--batch", batch)
        yield ("--unfused",)
        yield ("--unfused", "--tier", "scalar", "--threads", 1, "--batch", 1)

    def test_the_tier_asked_for_is_the_one_that_runs(self):
        name, path, about = representative()[0]
        for tier in self.available_tiers(path):
            before = self.service.worker()["calls"]
            self.service.ids(path, about["cases"][0]["tokens"], 4, "--tier", tier)
            after = self.service.worker()["calls"]
            grown = {t for t in TIERS if after[t] > before.get(t, 0)}
            self.assertEqual(grown, {tier})

    def test_beside_three_others(self):
        for name, path, about in representative():
            want = [self.service.ids(path, tokens, 24) for tokens in prompts(about)]
            files = []
            for i, tokens in enumerate(prompts(about)):
                file = self.service.root / f"prompt{i}.json"
                file.write_text(json.dumps(tokens))
                files.append(file)
            for _ in range(3):
                running = [self.service.start("run", path, "--tokens", files[i % len(files)], "--ids",
                                              "-n", 24, "--ignore-eos") for i in range(4)]
                for i, process in enumerate(running):
                    out, err = process.communicate(timeout=60)
                    self.assertEqual(process.returncode, 0, err)
                    self.assertEqual(json.loads(out), want[i % len(want)], name)

    def test_after_a_restart(self):
        name, path, about = representative()[0]
        tokens = prompts(about)[1]
        before = self.service.logits(path, tokens)
        self.service.good("stop")
        self.assertEqual(self.service.tern("ps").code, 7)
        self.assertTrue(self.service.logits(path, tokens) == before)


if __name__ == "__main__":
    unittest.main()
