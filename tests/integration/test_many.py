"""Many requests at once: the queue and its limit, cancelling, and the bits that each has alone."""
import array
import contextlib
import json
import signal
import time
import unittest

from harness import Service, ServiceTest, kill, models, prompts, wait_until
from raw_client import RawClient, RawTest

LIMIT = 256  # requests in work
OF_ONE = 192  # of them, of one client
SEATS = 64  # sessions with pages at one time


class Queue(RawTest):
    def generate(self, client, request, n):
        client.ask("generate", request, model=self.model, tokens=self.packed, n=n, ignore_eos=True)

    def test_place_and_limit(self):
        """Nobody acknowledges, so that seats stay taken: places are told, one more is refused at once, and
        cancelling all leaves nothing behind."""
        with RawClient(self.service) as client, RawClient(self.service) as second, RawClient(self.service) as other:
            for request in range(OF_ONE):
                self.generate(client, request, 2000)
            client.ask("info", OF_ONE, model=self.model)
            seen = {}
            refused = None
            deadline = time.monotonic() + 20
            while refused is None or not any("place" in text for text in seen.values()):
                self.assertLess(time.monotonic(), deadline, seen)
                reply = client.receive()
                self.assertIsNotNone(reply)
                if reply["request"] == OF_ONE:
                    refused = reply
                elif reply["k"] == "progress":
                    seen[reply["request"]] = reply.get("text", "")
            self.assertEqual(refused["k"], "error", refused)
            self.assertIn(f"{OF_ONE} requests of this client", refused["text"])
            self.assertIn("try again", refused["text"])
            for request in range(LIMIT - OF_ONE):
                self.generate(second, request, 2000)
            second.ask("info", LIMIT, model=self.model)
            self.assertIn("the service is full", second.last(LIMIT)["text"])
            began = time.monotonic()
            other.ask("info", 1, model=self.model)
            self.assertIn(f"the service is full: {LIMIT} requests", other.last(1)["text"])
            for one in (client, second, other):
                one.ask("ping", LIMIT + 1)
                self.assertEqual(one.last(LIMIT + 1)["k"], "result")
            self.assertLess(time.monotonic() - began, 2)
            for one, count in ((client, OF_ONE), (second, LIMIT - OF_ONE)):
                for request in range(count):
                    one.ask("cancel", request)
                ended = set()
                while len(ended) < count:
                    reply = one.receive(20000)
                    self.assertIsNotNone(reply, f"{len(ended)} ended")
                    if reply["k"] == "done":
                        ended.add(reply["request"])
        wait_until(lambda: self.service.ps()["requests"] == 0, 5, "no request left")
        self.assertEqual(self.service.ps()["models"][0]["pages_used"], 0)
        self.assertEqual(self.service.ids(self.model, self.tokens, 8), self.want)

    def test_clients_take_turns(self):
        """One with a single request does not wait for the many of another, which takes what it is sent."""
        ids, ended = [], set()
        with RawClient(self.service) as client, RawClient(self.service) as other:
            for request in range(OF_ONE):
                self.generate(client, request, 200)
            asked = done = False
            while not done:
                reply = client.receive(0)
                if reply is not None and reply["k"] == "tokens":
                    client.ask("ack", reply["request"], count=1)
                    if not asked:
                        self.generate(other, 1, 8)
                    asked = True
                elif reply is not None and reply["k"] == "done":
                    ended.add(reply["request"])
                reply = other.receive(0)
                if reply is not None and reply["k"] == "tokens":
                    ids += array.array("I", reply["tokens"]).tolist()
                    other.ask("ack", 1, count=1)
                done = reply is not None and reply["k"] == "done"
            for request in range(OF_ONE):
                client.ask("cancel", request)
        self.assertEqual(ids, self.want)
        self.assertLess(len(ended), 64, "it waited for a whole round of the other's")

    def test_a_prompt_of_several_is_computed_once(self):
        prompt = (self.tokens * 40)[:480]
        want = self.service.ids(self.model, prompt, 8)
        self.service.good("unload", self.model)
        before = self.service.ps()["tokens"]["prompt"]
        with contextlib.ExitStack() as clients:
            asked = [clients.enter_context(RawClient(self.service)) for _ in range(6)]
            for client in asked:
                client.ask("generate", 1, model=self.model, tokens=array.array("I", prompt).tobytes(), n=8, ignore_eos=True)
            for client in asked:
                ids, reply = [], {"k": ""}
                while reply["k"] != "done":
                    reply = client.receive(20000)
                    if reply["k"] == "tokens":
                        ids += array.array("I", reply["tokens"]).tolist()
                        client.ask("ack", 1, count=1)
                self.assertEqual(ids, want)
        computed = self.service.ps()["tokens"]["prompt"] - before
        self.assertLessEqual(computed, len(prompt) + 5 * 64)  # each the page that it writes


class Eight(ServiceTest):
    """Eight sessions of every kind in the same steps."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.model, about = next(m for m in models() if m[0] == "gemma3-mix32")
        cls.file = cls.service.tokens_file((prompts(about)[0] * 10)[:1100])
        whole = cls.alone(["--raw", "-n", 1700, "Hello world"])["text"]
        cls.stop_text = whole[len(whole) // 2:][:4]
        cls.requests = cls.kinds()
        cls.want = [cls.alone(request) for request in cls.requests]

    @classmethod
    def kinds(cls):
        system = ["--system", "You answer in one word, and then say why. " * 4]
        drawn = ["--temp", 1.1, "--seed", 11]
        return [
            ["--raw", "-n", 1700, "The quick brown fox"],
            ["--raw", "-n", 1600, *drawn, "--top-k", 60, "--top-p", 0.95, "Hello world"],
            ["-n", 1500, *system, "What is the sky?"],
            ["-n", 1650, *system, *drawn, "What is the sea?"],
            ["--raw", "-n", 1700, "--stop", cls.stop_text, "--stop", "zzzzzzzz", "Hello world"],
            ["--raw", "-n", 1450, "--logprobs", 4, "12345"],
            ["--raw", "-n", 1550, *drawn, "--min-p", 0.02, "--repeat-penalty", 1.2, "--bias", "42=2", "def f(x):"],
            ["--tokens", cls.file, "-n", 900, "--logprobs", 1],
        ]

    @staticmethod
    def told(answer):
        return {key: answer[key] for key in ("text", "ids", "reason", "logprobs") if key in answer}

    @classmethod
    def options(cls, request):
        return ["run", cls.model, "--json", "--ignore-eos", "--ctx", 2048, *request]

    @classmethod
    def alone(cls, request):
        """By an instance that has computed nothing before."""
        cls.service.tern("unload", cls.model)
        return cls.told(cls.service.good(*cls.options(request)).json())

    def together(self, disturb):
        """The answers of all, which begin at one moment: the worker is held until all are there."""
        self.service.good("unload", self.model)
        self.service.good("load", self.model, "--ctx", 2048)
        worker = self.service.worker()["pid"]
        kill(worker, signal.SIGSTOP)
        running = [self.service.start(*self.options(request)) for request in self.requests]
        wait_until(lambda: self.service.ps()["requests"] == 8, 10, "all are there")
        decoded = self.service.ps()["tokens"]["decode"]
        kill(worker, signal.SIGCONT)
        if disturb:
            wait_until(lambda: self.service.ps()["tokens"]["decode"] > decoded, 10, "tokens come")
            kill(worker)
            self.assertGreater(self.service.ps()["requests"], 4)
        answers = []
        for process in running:
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            self.assertRegex(err, rb"\Atern: context 2048: the model was trained on 512 [^\n]*\n\Z")
            answers.append(self.told(json.loads(out)))
        if disturb:
            self.assertNotEqual(self.service.worker()["pid"], worker)
        return answers

    def check(self, disturb):
        self.assertEqual([w["reason"] for w in self.want], ["length"] * 4 + ["stop"] + ["length"] * 3)
        for request, got, want in zip(self.requests, self.together(disturb), self.want):
            self.assertEqual(got, want, request)
        busy = self.service.ps()
        self.assertEqual((busy["requests"], busy["models"][0]["pages_used"]), (0, 0))

    def test_undisturbed(self):
        self.check(disturb=False)

    def test_worker_killed(self):
        self.check(disturb=True)


class Cancel(unittest.TestCase):
    """Clients that stop wanting their answer, or cannot take it."""

    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        _, self.model, about = next(m for m in models() if m[0] == "gemma3-mix32")
        self.tokens = prompts(about)[0]
        self.slow = ["--ctx", 8192, "--tier", "scalar", "--threads", 1]  # so that it can be met at work
        self.want = self.ids()
        self.running = []
        self.addCleanup(lambda: [process.communicate() for process in self.running if process.kill() is None])

    def ids(self):
        return self.service.ids(self.model, self.tokens, 24, *self.slow)

    def start(self, length, n):
        """A client whose prompt begins like no other's, as a process."""
        path = self.service.root / f"{len(self.running)}.json"
        path.write_text(json.dumps([len(self.running) + 5] + (self.tokens * 60)[:length - 1]))
        self.running.append(self.service.start("run", self.model, "--tokens", path, "--json", "-n", n,
                                               "--ignore-eos", *self.slow))
        return self.running[-1]

    def figure(self, name):
        return self.service.ps()["tokens"][name]

    def in_prompt(self):
        before = self.figure("prompt"), self.figure("decode")
        process = self.start(8000, 100)
        wait_until(lambda: self.figure("prompt") > before[0], 10, "the prompt is being read")
        self.assertEqual(self.figure("decode"), before[1])
        return process

    def in_decode(self):
        before = self.figure("decode")
        process = self.start(20, 8000)
        wait_until(lambda: self.figure("decode") > before + 20, 10, "tokens come")
        return process

    def idle(self):
        busy = self.service.ps()
        return (busy["requests"], busy["running"], busy["models"][0]["pages_used"]) == (0, 0, 0)

    def still(self):
        steps = self.figure("steps")
        time.sleep(0.2)
        return self.figure("steps") == steps

    def check(self, phase, number, code):
        process = phase()
        self.assertEqual(self.service.ps()["running"], 1)
        process.send_signal(number)
        wait_until(self.idle, 1, "nothing is left of it")
        steps = self.figure("steps")
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, code)
        self.assertEqual(self.figure("steps"), steps, "the worker goes on")
        self.assertEqual(self.ids(), self.want)

    def test_interrupted_in_the_prompt(self):
        self.check(self.in_prompt, signal.SIGINT, 130)

    def test_interrupted_while_tokens_come(self):
        self.check(self.in_decode, signal.SIGINT, 130)

    def test_killed_in_the_prompt(self):
        self.check(self.in_prompt, signal.SIGKILL, -signal.SIGKILL)

    def test_killed_while_tokens_come(self):
        self.check(self.in_decode, signal.SIGKILL, -signal.SIGKILL)

    def test_clients_that_stop_reading(self):
        """As many as there are seats, stopped while tokens come: when they are owed all they can be, nobody
        computes for them, and others have their seats. One that reads again has its whole answer."""
        self.slow = ["--ctx", 1024]
        want = json.loads(self.start(40, 900).communicate(timeout=30)[0])["ids"]
        self.running.clear()
        for _ in range(SEATS + 1):
            self.start(40, 900).send_signal(signal.SIGSTOP)
        for process in self.running:
            process.send_signal(signal.SIGCONT)
        # On a busy machine the first may have ended before the last has come.
        wait_until(lambda: self.service.ps()["requests"] > SEATS * 3 / 4, 20, "nearly all are there")
        for process in self.running:
            process.send_signal(signal.SIGSTOP)
        wait_until(self.still, 20, "nobody computes")
        self.assertGreater(self.service.ps()["requests"], SEATS / 2)
        began = time.monotonic()
        self.assertEqual(self.ids(), self.want)
        self.assertLess(time.monotonic() - began, 2, "it waited for those that do not read")
        self.running[0].send_signal(signal.SIGCONT)
        self.assertEqual(json.loads(self.running[0].communicate(timeout=30)[0])["ids"], want)
        for process in self.running[1:]:
            process.kill()
        wait_until(self.idle, 5, "nothing is left of them")
        self.assertEqual(self.ids(), self.want)

    def test_stopped_in_the_prompt(self):
        """Beside it others have their answers; killed then, it leaves at once."""
        process = self.in_prompt()
        process.send_signal(signal.SIGSTOP)
        self.assertEqual(self.ids(), self.want)
        process.kill()
        wait_until(self.idle, 1, "nothing is left of it")
        self.assertEqual(self.ids(), self.want)


if __name__ == "__main__":
    unittest.main()
