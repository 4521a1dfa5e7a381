"""A CPU worker that runs every stage twice gives the same answers, for every family; one that dies at any
instruction too. A request that kills it again and again is given up, and the others go on; one whose
values are not finite is told where. (Every kind of fault by itself: test_faults.)"""
import json
import random
import unittest

from harness import Service, prompts, representative

N = 24  # tokens of an answer: steps 1 .. N of a fresh service, the prompt's first


def with_faults(test, **environment):
    """A service whose worker obeys the environment; it ends with the test."""
    service = Service(faulty=True, **environment)
    test.addCleanup(service.stop)
    return service


def instructions(service, path):
    return service.good("plan", path, "--json").json()["instructions"]


class RunTwice(unittest.TestCase):
    def test_stages_run_twice_change_nothing(self):
        once, twice = Service(), with_faults(self, TERN_RUN_TWICE=1)
        self.addCleanup(once.stop)
        for name, path, about in representative():
            tokens = about["cases"][-1]["tokens"]
            for options in ((), ("--unfused", "--precision", "high", "--kv", "f32")):
                with self.subTest(model=name, options=options):
                    self.assertTrue(once.logits(path, tokens, *options) ==
                                    twice.logits(path, tokens, *options), "other bytes")
                    self.assertEqual(twice.ids(path, tokens, N, *options),
                                     once.ids(path, tokens, N, *options))
        self.assertEqual(twice.worker()["restarts"], 0, twice.log())
        calls = [sum(s.worker()["calls"].values()) for s in (once, twice)]
        # More, where the slower worker was given smaller steps.
        self.assertGreaterEqual(calls[1], 2 * calls[0])


class Injected(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service()  # never disturbed
        cls.addClassCleanup(cls.service.stop)
        cls.models = sorted(((len(instructions(cls.service, path)), path, about)
                             for _, path, about in representative()), key=lambda m: m[0])
        cls.count, cls.path, about = cls.models[0]
        cls.tokens = prompts(about)[1]
        cls.want = cls.service.ids(cls.path, cls.tokens, N)

    def test_crash_at_random_instructions(self):
        chance = random.Random(20261130)
        for _ in range(6):
            step, instruction = chance.randint(1, N), chance.randrange(self.count)
            with self.subTest(step=step, instruction=instruction):
                service = with_faults(self, TERN_INJECT=f"crash:{step}:{instruction}")
                self.assertEqual(service.ids(self.path, self.tokens, N), self.want)
                self.assertEqual(service.worker()["restarts"], 1, service.log())

    def check_guilty(self, fault, word):
        """The largest model always dies, at an instruction that the smallest one's plan has not."""
        count, guilty, about = self.models[-1]
        self.assertGreater(count, self.count)
        service = with_faults(self, TERN_INJECT=f"{fault}:*:{count - 1}")
        self.assertEqual(service.ids(self.path, self.tokens, N), self.want)
        tokens = service.root / "guilty.json"
        tokens.write_text(json.dumps(prompts(about)[1]))
        doomed = service.start("run", guilty, "--tokens", tokens, "--ids", "-n", N)
        tokens = service.tokens_file(self.tokens)
        others = [service.start("run", self.path, "--tokens", tokens, "--ids", "-n", N, "--ignore-eos")
                  for _ in range(3)]
        for process in others:
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            self.assertEqual(json.loads(out), self.want)
        out, err = doomed.communicate(timeout=60)
        self.assertEqual((doomed.returncode, out), (6, b""), err)
        self.assertIn(f"{word} 2 times on the same step".encode(), err)
        self.assertEqual(service.worker()["restarts"], 2, service.log())
        self.assertEqual(service.ids(self.path, self.tokens, N), self.want)

    def test_crash_always_on_the_same_step(self):
        self.check_guilty("crash", "crashed")

    def test_hang_always_on_the_same_step(self):
        self.check_guilty("hang", "hung")

    def test_two_in_one_step_are_tried_alone(self):
        """Every step dies: both requests are given up, each after two deaths alone."""
        service = with_faults(self, TERN_INJECT="crash:*:0")
        service.good("load", self.path)
        tokens = service.tokens_file(self.tokens)
        running = [service.start("run", self.path, "--tokens", tokens, "-n", N) for _ in range(2)]
        for process in running:
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out), (6, b""), err)
        # Both began in one step, or one was given up before the other came.
        self.assertIn(service.worker()["restarts"], range(4, 7))

    def test_nan_names_layer_and_operation(self):
        plan = instructions(self.service, self.path)
        add = next(i for i in plan if i["layer"] == 0 and i["operation"].startswith("add"))
        service = with_faults(self, TERN_INJECT=f"nan:1:{add['index']}")
        result = service.tern("run", self.path, "--tokens", service.tokens_file(self.tokens), "-n", N)
        self.assertEqual((result.code, result.out), (3, b""), result)
        self.assertEqual(result.err.count("\n"), 1, result)
        self.assertIn("layer 0", result.err)
        self.assertTrue(any(i["name"] in result.err for i in plan[add["index"] + 1:]), result)
        self.assertEqual(service.ids(self.path, self.tokens, N), self.want)
        self.assertEqual(service.worker()["restarts"], 0)


if __name__ == "__main__":
    unittest.main()
