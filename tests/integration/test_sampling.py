"""How tokens are chosen and how answers end, from the command line to the bytes."""
import json
import math
import unittest

import gguf_files
from harness import REAL, Service, ServiceTest, floats, models


class Sampling(ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.model, cls.about = next(m for m in models() if m[0] == "llama-q4_0")

    def answer(self, *options, n=24, model=None, **kwargs):
        return self.service.good("run", model or self.model, "--raw", "--json", "-n", n, "--ignore-eos",
                                 *options, "Hello world", **kwargs).json()

    def ids(self, *options, **kwargs):
        return self.answer(*options, **kwargs)["ids"]

    def test_tiny_temperatures_are_greedy(self):
        greedy = self.ids()
        for temperature in ("0", "1e-4", "1e-5", "1e-30", "1e-45", "1e-60", "1e-400"):
            self.assertEqual(self.ids("--temp", temperature, "--seed", 3), greedy, temperature)

    def test_off_values_cut_nothing(self):
        free = [self.ids("--temp", 1, "--seed", seed) for seed in range(1, 6)]
        self.assertEqual(len({tuple(ids) for ids in free}), 5)
        for options in (["--top-k", 0], ["--top-k", -1], ["--top-k", 100000], ["--top-k=-9"], ["--top-p", 1],
                        ["--min-p", 0], ["--repeat-penalty", 1],
                        ["--top-k", 0, "--top-p", 1, "--min-p", 0, "--repeat-penalty", 1, "--bias", "5=0"]):
            self.assertEqual(self.ids("--temp", 1, "--seed", 2, *options), free[1], options)

    def test_strictest_values_leave_the_best(self):
        greedy = self.ids()
        for options in (["--top-k", 1], ["--top-p", 0], ["--min-p", 1]):
            self.assertEqual(self.ids("--temp", 5, "--seed", 9, *options), greedy, options)

    def test_seeds_repeat_whatever_computes(self):
        options = ["--temp", 1.2, "--top-k", 50, "--top-p", 0.95, "--min-p", 0.01, "--repeat-penalty", 1.1,
                   "--bias", "100=2", "--bias", "7=-3", "--seed", 2**64 - 1, "--logprobs", 3]
        first = self.answer(*options)
        self.assertEqual(first["seed"], str(2**64 - 1))
        for more in (["--threads", 2], ["--threads", 1], ["--batch", 3], ["--tier", "scalar"], ["--unfused"]):
            again = self.answer(*options, *more)
            for key in ("text", "ids", "logprobs", "reason"):
                self.assertEqual(again[key], first[key], more)
        self.assertNotEqual(self.ids(*options, "--seed", 1), first["ids"])

    def test_bias_and_penalty_change_greedy_choices(self):
        greedy = self.ids()
        self.assertEqual(self.ids("--bias", "42=10000"), [42] * 24)
        self.assertNotIn(greedy[0], self.ids("--bias", f"{greedy[0]}=-10000"))
        # One token that always comes, until a penalty on it is stronger than its bias.
        punished = self.ids("--bias", "42=30", "--repeat-penalty", 1000)
        self.assertEqual(punished[0], 42)
        self.assertNotEqual(punished[1], 42)

    def test_refused_values_are_named(self):
        for options, word in ((["--temp", "-1"], "--temp"), (["--temp", "nan"], "--temp"), (["--temp", "inf"], "--temp"),
                              (["--top-p", "1.01"], "--top-p"), (["--top-p", "nan"], "--top-p"),
                              (["--min-p", "-0.1"], "--min-p"), (["--top-k", "x"], "--top-k"),
                              (["--repeat-penalty", "0"], "--repeat-penalty"), (["--bias", "520=1"], "ids 0 to 519"),
                              (["--bias", "1=nan"], "--bias"), (["--bias", "-1=1"], "--bias"), (["--bias", "1"], "--bias"),
                              (["--bias", "1=1e9"], "bias"), (["--seed", "-1"], "--seed"), (["--stop", ""], "stop text 1"),
                              (["--logprobs", "21", "--json"], "--logprobs"), (["--logprobs", "1"], "--json")):
            result = self.service.tern("run", self.model, "--raw", "-n", 1, *options, "hi")
            self.assertEqual((result.code, result.out), (2, b""), options)
            self.assertIn(word, result.err)
            self.assertEqual(result.err.count("\n"), 1)

    def test_logprobs_are_the_models_own(self):
        """Of the logits before temperature and filters, summing up to one."""
        tokens = self.about["cases"][0]["tokens"]
        row = floats(self.service.logits(self.model, tokens))[-520:]
        total = math.fsum(math.exp(x) for x in row)
        answer = self.service.good("run", self.model, "--tokens", self.service.tokens_file(tokens), "--json",
                                   "--logprobs", 20, "-n", 3, "--temp", 2, "--top-p", 0.3, "--seed", 5).json()
        first = answer["logprobs"][0]
        self.assertEqual([t["id"] for t in answer["logprobs"]], answer["ids"])
        best = sorted(range(520), key=lambda i: (-row[i], i))[:20]
        self.assertEqual([t["id"] for t in first["top"]], best)
        for token in [first, *first["top"]]:
            self.assertAlmostEqual(token["logprob"], row[token["id"]] - math.log(total), places=4)
            self.assertLessEqual(token["logprob"], 0)
        alone = self.answer("--logprobs", 0)
        self.assertEqual(alone["ids"], self.ids())
        self.assertTrue(all(t["top"] == [] for t in alone["logprobs"]))


class Endings(ServiceTest):
    """Stop texts and half characters, on answers that a bias makes predictable: the golden models have a
    token for each byte."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.model, _ = next(m for m in models() if m[0] == "llama-q4_0")
        cls.whole = cls.service.good("run", cls.model, "--raw", "-n", 60, "--ignore-eos", "Once").out

    def run_with(self, *options, n=60, **kwargs):
        return self.service.good("run", self.model, "--raw", "-n", n, "--ignore-eos", *options, "Once", **kwargs)

    def test_every_stop_cuts_at_its_first_place(self):
        text = self.whole.decode(errors="ignore")
        pieces = {text[i:i + n] for n in (1, 3, 6) for i in range(len(text) - n)}
        stops = [s for s in sorted(pieces) if s.isprintable() and s.encode() in self.whole][::4]
        self.assertGreater(len(stops), 3)
        for stop in stops:
            want = self.whole[:self.whole.index(stop.encode())]
            streamed = self.run_with("--stop", stop, "--stop", "never comes").out
            answer = self.run_with("--stop", stop, "--json").json()
            self.assertEqual(streamed, want)
            self.assertEqual(answer["text"], want.decode(errors="replace"))
            self.assertEqual((answer["reason"], answer["tokens"]), ("stop", len(answer["ids"])))

    def test_no_match_gives_all(self):
        many = [word for i in range(1000) for word in ("--stop", f"absent {i}")]
        last = self.whole.decode(errors="ignore")[-2:]
        self.assertEqual(self.run_with(*many).out, self.whole)
        self.assertEqual(self.run_with("--stop", last + "x").out, self.whole)  # held back to the end

    def test_a_stopped_answer_frees_its_seat(self):
        stop = self.whole.decode(errors="ignore")[4:6]
        for _ in range(3):
            self.run_with("--stop", stop, n=400)
        self.assertEqual(self.run_with().out, self.whole)

    def test_any_length_cuts_cleanly(self):
        """Raw bytes are what they are; JSON text is UTF-8, with one U+FFFD for a character cut by the end."""
        for n in range(1, 40):
            raw = self.run_with(n=n).out
            answer = self.run_with("--json", n=n).json()
            self.assertTrue(self.whole.startswith(raw))
            json.dumps(answer).encode()
            self.assertEqual(answer["text"].replace("\ufffd", ""), raw.decode(errors="ignore"))

    def test_hot_answers_are_always_json(self):
        for seed in range(8):
            answer = self.run_with("--json", "--temp", 1.5, "--seed", seed, "--logprobs", 5, "--top-p", 0.3)
            for token in answer.json()["logprobs"]:
                self.assertTrue(token["logprob"] is None or token["logprob"] <= 0)


class EndTokens(unittest.TestCase):
    def test_turns_end_though_the_file_names_another_end(self):
        """B40: an end-of-turn control token ends an answer and is not shown; as ordinary text it does not."""
        tokens, _, kinds = gguf_files.vocabulary()
        with Service() as service:
            path = service.root / "ends.gguf"
            for name in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|im_start|>"):
                for kind in (3, 1):
                    model = gguf_files.base()
                    for key, values in (("tokens", (gguf_files.STRING, tokens[:-1] + [name])),
                                        ("token_type", (gguf_files.I32, kinds[:-1] + [kind]))):
                        model.keys["tokenizer.ggml." + key] = (gguf_files.ARRAY, gguf_files.Array(*values))
                    path.write_bytes(gguf_files.encode(model)[0])
                    answer = service.good("run", path, "--raw", "--json", "-n", 5, "--bias",
                                          f"{len(tokens) - 1}=10000", "hi").json()
                    ends = kind == 3 and name != "<|im_start|>"
                    self.assertEqual(answer["reason"], "stop" if ends else "length", (name, kind))
                    if ends:
                        self.assertEqual(answer["text"], "")


@unittest.skipUnless((REAL / "smollm2-135m.gguf").exists(), "the demo model was not fetched")
class RealModel(unittest.TestCase):
    def test_emoji_and_scripts_come_whole(self):
        with Service() as service:
            model = REAL / "smollm2-135m.gguf"
            prompt = "Repeat: 😀🦙歪щ 😀🦙歪щ 😀🦙歪щ 😀🦙歪щ"
            whole = service.good("run", model, "--raw", "-n", 40, prompt).out.decode()
            answer = service.good("run", model, "--raw", "-n", 40, "--json", prompt).json()
            self.assertEqual(answer["text"], whole)
            self.assertNotIn("\ufffd", whole)
            ended = service.good("run", model, "--json", "-n", 200, "Say hi.").json()
            self.assertEqual(ended["reason"], "stop")


if __name__ == "__main__":
    unittest.main()
