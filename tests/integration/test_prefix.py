"""Prefix reuse: whatever is in the cache, a prompt has the tokens that a fresh service gives it."""
import random
import threading
import time
import unittest

from harness import Service, kill, models, representative


class Prefixes(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)

    def fresh(self, model, cases, *options):
        """The answers of an instance that has computed nothing before."""
        found = []
        for tokens, n in cases:
            found.append(self.service.ids(model, tokens, n, "--ctx", 1024, *options))
            self.service.good("unload", model)
        return found

    def warm(self, model, cases, *options):
        return [self.service.ids(model, tokens, n, "--ctx", 1024, *options) for tokens, n in cases]

    def cases(self, about):
        """A long prompt three times, its last token changed, one token, strict prefixes, and more."""
        base = about["cases"][-1]["tokens"]
        text = (base * (400 // len(base) + 1))[:333]
        other = text[:-1] + [base[0] if text[-1] != base[0] else base[1]]
        return [(text, 12)] * 3 + [(other, 12), (text[:1], 12), (text[:200], 70), (text[:64], 5),
                                   (text[:65], 5), (text + base[:9], 12), (text, 12)]

    def test_equal_to_a_fresh_service(self):
        for name, path, about in representative():
            for kv in ("f32", "f16"):
                with self.subTest(name, kv=kv):
                    cases = self.cases(about)
                    want = self.fresh(path, cases, "--kv", kv)
                    self.assertEqual(self.warm(path, cases, "--kv", kv), want)
                    self.service.good("unload", path)

    def test_other_settings_take_nothing_over(self):
        """The model is loaded anew for them, and what was computed before has other bits."""
        _, path, about = models()[0]
        tokens = (about["cases"][-1]["tokens"] * 100)[:200]
        settings = [("--precision", precision, "--kv", kv) for precision in ("fast", "high") for kv in ("f16", "f32")]
        want = {}
        for options in settings:
            want[options], = self.fresh(path, [(tokens, 12)], *options)
        for options in random.Random(5).choices(settings, k=16):
            self.assertEqual(self.warm(path, [(tokens, 12)], *options), [want[options]])

    def test_what_a_request_asks_for_is_its_own(self):
        """Bias, penalties, seed, ends and log-probabilities of one request never show in the next, which takes over
        its keys and values."""
        _, path, about = models()[0]
        tokens = (about["cases"][-1]["tokens"] * 100)[:200]
        plain = self.service.ids(path, tokens, 12)
        seeded = self.service.ids(path, tokens, 12, "--temp", 1, "--seed", 7)
        first = plain[0]
        for options in (["--bias", f"{first}=-1000"], ["--bias", "42=1000"], ["--temp", 2, "--seed", 1],
                        ["--repeat-penalty", 5], ["--top-k", 1], ["--temp", 1, "--min-p", 1]):
            with self.subTest(" ".join(map(str, options))):
                asked = self.service.ids(path, tokens, 12, *options)
                self.assertEqual(self.service.ids(path, tokens, 12), plain)
                self.assertEqual(self.service.ids(path, tokens, 12, *options), asked)
                self.assertEqual(self.service.ids(path, tokens, 12, "--temp", 1, "--seed", 7), seeded)
        self.service.good("run", path, "--tokens", self.service.tokens_file(tokens), "--json", "--logprobs", 5, "-n", 3)
        self.assertEqual(self.service.ids(path, tokens, 12), plain)

    def chat(self, path, about):
        """Growing prompts, each the last one, its answer and something new."""
        turns, prompt = [], about["cases"][-1]["tokens"][:5] * 8
        for turn in range(6):
            answer = self.service.ids(path, prompt, 20, "--ctx", 1024)
            turns.append((prompt, answer))
            prompt = prompt + answer + about["cases"][-1]["tokens"][:3 + turn]
        return turns

    def test_chats_that_grow(self):
        _, path, about = models()[0]
        turns = self.chat(path, about)
        self.service.good("unload", path)
        for prompt, answer in turns:
            self.assertEqual(self.fresh(path, [(prompt, 20)]), [answer])

    def test_what_was_reused_is_told(self):
        _, path, about = models()[0]
        prompt = (about["cases"][-1]["tokens"] * 100)[:300]
        for length, reused in ((300, 0), (300, 299), (300, 299), (150, 128)):
            result = self.service.good("run", path, "--tokens", self.service.tokens_file(prompt[:length]),
                                       "--ids", "-n", 4, "--ignore-eos", "--ctx", 1024, "--stats")
            self.assertIn(f"reused: {reused} tokens", result.err)

    def test_with_workers_that_die(self):
        _, path, about = models()[0]
        cases = self.cases(about)
        want = self.fresh(path, cases)
        self.warm(path, cases[:1])
        over, kills, chance = threading.Event(), [], random.Random(3)

        def killer():
            while not over.is_set():
                pid = self.service.worker()["pid"]
                if pid:
                    kill(pid)
                    kills.append(pid)
                time.sleep(chance.uniform(0.05, 0.3))
        thread = threading.Thread(target=killer)
        thread.start()
        try:
            self.assertEqual(self.warm(path, cases), want)
        finally:
            over.set()
            thread.join()
        self.assertGreater(len(kills), 0)
        self.assertEqual(self.warm(path, cases), want)


if __name__ == "__main__":
    unittest.main()
