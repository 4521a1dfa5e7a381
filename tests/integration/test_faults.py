"""A worker that crashes, hangs, spins, exits or computes nonsense at a chosen operation of a chosen
step (the faulty build of the CPU worker): the answer is the same, or the request alone is given up.
"""
import time
import unittest

from harness import Service, models, prompts, wait_until

N = 12


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, cls.model, about = models()[0]
        cls.tokens = prompts(about)[1]
        with Service() as service:
            cls.want = service.ids(cls.model, cls.tokens, N)

    def serve(self, orders, **environment):
        service = Service(faulty=True, TERN_INJECT=orders, **environment)
        self.addCleanup(service.stop)
        return service

    def given(self, orders, restarts, **environment):
        service = self.serve(orders, **environment)
        # Longer than usual: where the machine is busy, a busy worker is given more time.
        self.assertEqual(service.ids(self.model, self.tokens, N, timeout=150), self.want)
        self.assertEqual(service.worker()["restarts"], restarts)
        self.assertEqual(service.ids(self.model, self.tokens, N), self.want)

    def test_one_crash(self):
        for step, instruction in ((1, 0), (1, 7), (2, 0), (3, 11), (N // 2, 5), (N, 1)):
            with self.subTest(step=step, instruction=instruction):
                self.given(f"crash:{step}:{instruction}", 1)

    def test_one_hang(self):
        self.given("hang:4:2", 1)

    def test_one_endless_loop(self):
        self.given("spin:3:6", 1)

    def test_one_exit(self):
        self.given("exit:5:4", 1)

    def test_every_stage_twice(self):
        self.given("crash:6:3", 1, TERN_RUN_TWICE=1)

    def test_nonsense_ends_its_request_only(self):
        service = self.serve("nan:3:2")
        result = service.tern("run", self.model, "--tokens", service.tokens_file(self.tokens), "--ids",
                              "-n", N, "--ignore-eos")
        self.assertEqual(result.code, 3, result)
        self.assertEqual(result.err.count("\n"), 1, result)
        self.assertIn("not finite", result.err)
        self.assertEqual(service.ids(self.model, self.tokens, N), self.want)

    def assert_given_up(self, service):
        began = time.monotonic()
        result = service.tern("run", self.model, "--tokens", service.tokens_file(self.tokens), "--ids",
                              "-n", N, "--ignore-eos", timeout=90)
        self.assertEqual(result.code, 6, result)
        self.assertEqual(result.err.count("\n"), 1, result)
        self.assertIn("given up", result.err)
        self.assertLess(time.monotonic() - began, 60)

    def test_a_step_that_always_crashes(self):
        service = self.serve("crash:*:5")
        self.assert_given_up(service)
        service.good("tokenize", self.model, stdin="hi")
        self.assert_given_up(service)
        wait_until(lambda: not any(m["requests"] for m in service.ps()["models"]), 5, "it is idle")

    def test_a_step_that_always_hangs(self):
        self.assert_given_up(self.serve("hang:*:5"))

    def test_a_crowd_around_crashes(self):
        # Farther apart than a run ahead is long (16 steps): the lost step comes again under a number that no
        # other order names, or two orders would be one step's two crashes.
        service = self.serve(",".join(f"crash:{step}:3" for step in range(2, 100, 19)))
        file = service.tokens_file(self.tokens)
        running = [service.start("run", self.model, "--tokens", file, "--ids", "-n", N,
                                 "--ignore-eos") for _ in range(8)]
        for process in running:
            out, err = process.communicate(timeout=90)
            self.assertEqual((process.returncode, err), (0, b""))
            self.assertEqual(out.decode().split(), str(self.want).split())


if __name__ == "__main__":
    unittest.main()
