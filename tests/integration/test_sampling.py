"""How tokens are chosen and how answers end, from the command line to the bytes."""
import json
import math
import random
import struct
import unittest

import gguf_files
import plain_sampling
from harness import REAL, Service, ServiceTest, floats, models
from raw_client import RawClient


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


class Definition(ServiceTest):
    """Choices are those of plain_sampling, an implementation of its own of the written definition."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, path, about = next(m for m in models() if m[0] == "llama-q4_0")
        cls.model, cls.vocabulary = str(path), 520
        chance = random.Random(7)
        cls.ids = [chance.randrange(520) for _ in range(30)] * 4
        rows = floats(cls.service.logits(path, cls.ids))
        cls.rows = [rows[i * 520:(i + 1) * 520].tolist() for i in range(len(cls.ids))]

    def settings(self, chance):
        top = sorted(range(520), key=lambda i: -self.rows[20][i])
        ties = [(token, 1e4) for token in chance.sample(range(520), 60)]  # so large that many become equal
        spread = [(token, chance.uniform(-1e4, 1e4)) for token in chance.sample(range(520), 9)]
        return {
            "temp": chance.choice([0, 1e-60, 1e-45, 1e-30, 1e-3, 0.3, 0.8, 1, 1.7, 30, 1e6]),
            "top_k": chance.choice([0, 0, 1, 2, 7, 40, 519, 520, 521, 2**32 - 1]),
            "top_p": chance.choice([1, 1, 0, 1e-300, 0.05, 0.5, 0.9, 0.999999, 1 - 2**-53]),
            "min_p": chance.choice([0, 0, 1e-300, 1e-6, 0.03, 0.5, 1]),
            "repeat_penalty": chance.choice([1, 1, 1.1, 1.5, 0.6, 1e-3, 1e3]),
            "seed": chance.choice([0, 1, 2**32, 2**63, 2**64 - 1, chance.getrandbits(64)]),
            "bias": chance.choice([(), (), ties, spread, [(top[0], -1e4), (top[0], 1e4)], [(3, 0.0)]]),
        }

    def test_choices_are_those_of_the_definition(self):
        chance, seen = random.Random(8), set()
        with RawClient(self.service) as client:
            for number in range(1, 801):
                count, s = chance.randrange(1, len(self.ids) + 1), self.settings(chance)
                packed = b"".join(struct.pack("<If", *pair) for pair in s["bias"])
                fields = {**s, "temp": float(s["temp"]), "bias": packed} if packed else \
                    {k: v for k, v in s.items() if k != "bias"}
                for name in ("temp", "top_p", "min_p", "repeat_penalty"):
                    fields[name] = float(fields[name])
                client.ask("generate", number, model=self.model, raw=True, ignore_eos=True, n=1, **fields,
                           tokens=struct.pack(f"<{count}I", *self.ids[:count]))
                got, reply = [], {"k": ""}
                while reply["k"] != "done":
                    reply = client.receive()
                    self.assertNotIn(reply["k"], ("error",), reply)
                    if reply["k"] == "tokens":
                        got += struct.unpack(f"<{len(reply['tokens']) // 4}I", reply["tokens"])
                s["penalty"] = s.pop("repeat_penalty")
                want = plain_sampling.choose(self.rows[count - 1], self.ids[:count], **s)
                self.assertEqual(got, [want], (count, s))
                seen.add(want)
        self.assertGreater(len(seen), 100)

    def test_further_tokens_too(self):
        """Of the command line, where each answer's token is one of the ids of the next."""
        options = {"temp": 1.3, "top_k": 70, "top_p": 0.95, "min_p": 0.001, "seed": 2**64 - 3}
        args = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), value)]
        ids = self.ids[:40]
        for _ in range(12):
            row = floats(self.service.logits(self.model, ids))[-520:].tolist()
            ids.append(plain_sampling.choose(row, ids, penalty=1.2, bias=[(5, 2.5)], **options))
        self.assertEqual(self.service.ids(self.model, ids[:40], 12, *args, "--repeat-penalty", 1.2, "--bias", "5=2.5"),
                         ids[40:])

    def test_values_that_are_none_are_refused(self):
        with RawClient(self.service) as client:
            for number, (name, value) in enumerate((n, v) for n in ("temp", "top_p", "min_p", "repeat_penalty")
                                                   for v in (math.nan, math.inf, -math.inf, -1e-300)):
                client.ask("generate", number, model=self.model, raw=True, n=1, tokens=struct.pack("<I", 1),
                           **{name: value})
                reply = client.last(number)
                self.assertEqual((reply["k"], reply.get("status")), ("error", 2), (name, value))


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
        whole, cut = self.whole.decode(errors="replace"), 0
        for n in range(1, 40):
            raw = self.run_with(n=n).out
            text = raw.decode(errors="replace")
            answer = self.run_with("--json", n=n).json()
            self.assertTrue(self.whole.startswith(raw))
            json.dumps(answer).encode()
            self.assertEqual(answer["text"], text)
            cut += text.endswith("\ufffd") and not whole.startswith(text)
        self.assertGreater(cut, 0)  # some lengths do cut a character

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
            for name in ("<|im_end|>", "<|eot_id|>", "<|EOT|>", "<end_of_turn>", "<|im_start|>"):
                for kind in (3, 4, 1):  # 4: what older converters write
                    model = gguf_files.base()
                    for key, values in (("tokens", (gguf_files.STRING, tokens[:-1] + [name])),
                                        ("token_type", (gguf_files.I32, kinds[:-1] + [kind]))):
                        model.keys["tokenizer.ggml." + key] = (gguf_files.ARRAY, gguf_files.Array(*values))
                    path.write_bytes(gguf_files.encode(model)[0])
                    answer = service.good("run", path, "--raw", "--json", "-n", 5, "--bias",
                                          f"{len(tokens) - 1}=10000", "hi").json()
                    ends = kind != 1 and name != "<|im_start|>"
                    self.assertEqual(answer["reason"], "stop" if ends else "length", (name, kind))
                    if ends:
                        self.assertEqual(answer["text"], "")
                    elif kind != 1:  # a stop text may spell it, though the text never shows it
                        answer = service.good("run", path, "--raw", "--json", "-n", 5, "--stop", name, "--bias",
                                              f"{len(tokens) - 1}=10000", "hi").json()
                        self.assertEqual((answer["reason"], answer["text"], answer["tokens"]), ("stop", "", 1))


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
