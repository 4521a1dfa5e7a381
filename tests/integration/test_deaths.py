"""A dead worker costs time, never an answer; a dead coordinator leaves nothing behind."""
import json
import os
import pathlib
import random
import signal
import time
import unittest

from harness import Service, alive, kill, models, prompts, wait_until

KILLS, STOPS = 50, 10


class Deaths(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        _, self.model, about = models()[0]
        self.tokens = prompts(about)[1]

    def start_run(self, n):
        return self.service.start("run", self.model, "--tokens", self.service.tokens_file(self.tokens),
                                  "--ids", "-n", n, "--ignore-eos")

    def finish(self, process, want):
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(json.loads(out), want)

    def test_killed_at_random_moments(self):
        n = 200
        want = self.service.ids(self.model, self.tokens, n)
        start = time.monotonic()
        self.service.ids(self.model, self.tokens, n)
        usual = time.monotonic() - start
        chance = random.Random(20261130)
        for _ in range(KILLS):
            process = self.start_run(n)
            time.sleep(chance.uniform(0, usual))
            pid = self.service.worker()["pid"]
            if pid:
                kill(pid)
            self.finish(process, want)
        self.assertGreaterEqual(self.service.worker()["restarts"], KILLS // 2)

    def test_stopped_worker_is_found_by_the_deadline(self):
        n = 100
        want = self.service.ids(self.model, self.tokens, n)
        chance = random.Random(7)
        restarts = self.service.worker()["restarts"]
        for _ in range(STOPS):
            pid = self.service.worker()["pid"]
            process = self.start_run(n)
            time.sleep(chance.uniform(0, 0.05))
            kill(pid, signal.SIGSTOP)
            start = time.monotonic()
            self.finish(process, want)
            # The answer may have been ready before the signal; the next request meets it then.
            self.assertLess(time.monotonic() - start, 10)
            if self.service.worker()["pid"] == pid:
                self.finish(self.start_run(n), want)
            self.assertFalse(alive(pid))
        self.assertEqual(self.service.worker()["restarts"] - restarts, STOPS)

    def test_killed_coordinator_leaves_nothing(self):
        want = self.service.ids(self.model, self.tokens, 8)
        ps = self.service.ps()
        pids = [w["pid"] for w in ps["workers"] if w["pid"]]
        self.assertTrue(pids)
        shared = set(os.listdir("/dev/shm"))
        # The slowest way to compute, so that the answer is still under way after its first bytes.
        process = self.service.start("run", self.model, "--raw", "-n", 400, "--ignore-eos", "--tier",
                                     "scalar", "--threads", 1, "--ctx", 2048, "hello")
        self.assertTrue(process.stdout.read(1))
        kill(ps["coordinator"]["pid"])
        wait_until(lambda: not any(alive(p) for p in pids), 1, "workers ended")
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 7)
        self.assertLessEqual(set(os.listdir("/dev/shm")), shared)
        self.assertEqual(self.service.ids(self.model, self.tokens, 8), want)

    def test_stop_leaves_no_process(self):
        self.service.ids(self.model, self.tokens, 2)
        ps = self.service.ps()
        pids = [ps["coordinator"]["pid"]] + [w["pid"] for w in ps["workers"] if w["pid"]]
        self.service.good("stop")
        wait_until(lambda: not any(alive(p) for p in pids), 2, "all processes ended")

    def test_idle_uses_no_cpu(self):
        self.service.ids(self.model, self.tokens, 2)
        ps = self.service.ps()
        pids = [ps["coordinator"]["pid"]] + [w["pid"] for w in ps["workers"] if w["pid"]]

        def ticks():
            return [sum(map(int, pathlib.Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1]
                            .split()[11:13])) for p in pids]
        time.sleep(0.5)
        before = ticks()
        time.sleep(5)
        self.assertEqual([b - a for a, b in zip(before, ticks())], [0] * len(pids))


if __name__ == "__main__":
    unittest.main()
