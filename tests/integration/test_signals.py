"""Thread counts, cancelled clients and signals to the worker (B53, B55, B57, B61): the same tokens
whatever the count, an idle worker within a second, and a true answer after any signal."""
import json
import os
import pathlib
import signal
import time
import unittest

from harness import CRASH, Service, alive, kill, models, prompts, wait_until


class Threads(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        _, self.model, about = next(m for m in models() if m[0] == "llama-q4_0")
        self.tokens = prompts(about)[0]

    def answers(self, *options):
        """Logits, 50 greedy ids and 50 drawn ones."""
        draw = ("--temp", 1.2, "--seed", 7)
        return (self.service.logits(self.model, self.tokens, *options), self.service.ids(self.model, self.tokens, 50, *options),
                self.service.ids(self.model, self.tokens, 50, *draw, *options))

    def test_every_count_gives_the_same(self):
        want = self.answers()
        self.assertNotEqual(want[1], want[2])
        cores = os.cpu_count()
        for threads in sorted({*range(17), cores, cores + 1}):
            for _ in range(3 if threads in (1, 6, 15) else 1):
                with self.subTest(threads=threads):
                    self.assertTrue(self.answers("--threads", threads) == want, "another answer")

    def test_counts_that_make_no_sense(self):
        for threads in ("-1", "513", "100000", "4294967297", "4x", "", " 2", "2.0", "nan"):
            result = self.service.tern("run", self.model, "--raw", "--threads", threads, "hi")
            self.assertEqual((result.code, result.out, result.err.count("\n")), (2, b"", 1), result)
            self.assertIn("threads", result.err)

    def test_other_libraries_variables_change_nothing(self):
        want = self.answers("--threads", 2)
        threads = len(os.listdir(f"/proc/{self.service.worker()['pid']}/task"))
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOMP_SPINCOUNT")
        with Service(**{name: 7 for name in names}) as other:
            self.service, mine = other, self.service
            try:
                self.assertTrue(self.answers("--threads", 2) == want)
                self.assertEqual(len(os.listdir(f"/proc/{other.worker()['pid']}/task")), threads)
            finally:
                self.service = mine


class Signals(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        _, self.model, about = next(m for m in models() if m[0] == "llama-q4_0")
        self.long = self.service.root / "long.json"
        self.long.write_text(json.dumps((prompts(about)[0] * 4000)[:8000]))
        self.slow = ("--ctx", 16384, "--tier", "scalar", "--threads", 1)
        self.want = self.ids()

    def ids(self):
        file = self.service.root / "short.json"
        file.write_text(json.dumps([1, 5, 6, 7]))
        return self.service.good("run", self.model, "--tokens", file, "--ids", "-n", 12, "--ignore-eos", *self.slow).json()

    def requests(self):
        return sum(m["requests"] for m in self.service.ps()["models"])

    def begin(self, phase, *options):
        """A client in that phase: reading a prompt of 8000 tokens, or generating."""
        prompt = ("--tokens", self.long) if phase == "prompt" else ("--raw", "hello")
        process = self.service.start("run", self.model, *prompt, "-n", 8000, "--ignore-eos", *self.slow, *options)
        wait_until(self.requests, 10, "the request runs")
        time.sleep(0.2)
        return process

    def ticks(self):
        stat = pathlib.Path(f"/proc/{self.service.worker()['pid']}/stat").read_text()
        return sum(map(int, stat.rsplit(")", 1)[1].split()[11:13]))

    def end(self, process):
        process.kill()
        process.communicate(timeout=20)

    def test_a_client_that_is_gone_frees_the_worker(self):
        for phase in ("prompt", "decode"):
            for options in ((), ("--json",)):
                for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
                    with self.subTest(phase=phase, options=options, number=number):
                        process = self.begin(phase, *options)
                        self.assertIsNone(process.poll(), "too quick to be met")
                        process.send_signal(number)
                        wait_until(lambda: not self.requests(), 1, "the request is over")
                        process.communicate(timeout=20)
                        before = self.ticks()
                        time.sleep(0.1)
                        self.assertLessEqual(self.ticks() - before, 1)
        self.assertEqual(self.ids(), self.want)

    def test_a_reader_that_stops_holds_up_nobody(self):
        process = self.begin("decode")
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        self.assertEqual(self.ids(), self.want)
        self.assertLess(time.monotonic() - began, 5)
        self.end(process)
        wait_until(lambda: not self.requests(), 1, "the request is over")

    def test_worker_gets_signals_in_every_phase(self):
        for number in (signal.SIGKILL, CRASH, signal.SIGTERM):
            for phase in ("idle", "prompt", "decode") if number == signal.SIGKILL else ("prompt", "decode"):
                with self.subTest(phase=phase, number=number):
                    process = None if phase == "idle" else self.begin(phase)
                    restarts, pid = self.service.worker()["restarts"], self.service.worker()["pid"]
                    kill(pid, number)
                    self.assertEqual(self.ids(), self.want)
                    wait_until(lambda: self.service.worker()["restarts"] == restarts + 1, 5, "ps tells of it")
                    self.assertFalse(alive(pid))
                    if process is not None:
                        self.assertIsNone(process.poll(), "its request was lost")
                        self.end(process)
                        wait_until(lambda: not self.requests(), 2, "the request is over")

    def test_stopped_worker(self):
        """Found when it has work, replaced, and dead: continuing it brings no stale answer."""
        for phase in ("idle", "decode"):
            with self.subTest(phase):
                process = None if phase == "idle" else self.begin(phase)
                pid = self.service.worker()["pid"]
                kill(pid, signal.SIGSTOP)
                began = time.monotonic()
                for command in (("ps", "--json"), ("info", self.model), ("tokenize", self.model)):
                    self.service.good(*command, timeout=2)  # nothing else waits for it
                self.assertEqual(self.ids(), self.want)
                self.assertLess(time.monotonic() - began, 15)
                self.assertFalse(alive(pid))
                self.assertNotEqual(self.service.worker()["pid"], pid)
                if process is not None:
                    self.end(process)
        # Stopped for a moment only: nobody notices.
        pid = self.service.worker()["pid"]
        kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        kill(pid, signal.SIGCONT)
        self.assertEqual(self.ids(), self.want)


if __name__ == "__main__":
    unittest.main()
