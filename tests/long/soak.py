"""Soak: a real service, random clients, and things that go wrong; every completed answer must be the right one.

usage: soak.py [--minutes N] [--clients N] [--seed N] [--model GGUF] [--second GGUF] [--keep FILE]

Answers are computed first, on the undisturbed service (--keep FILE remembers them between runs): text, JSON with
log-probabilities, chats. Then clients send them at random: some are interrupted (Ctrl-C), killed, or stopped for a
while, and a stranger sends damaged messages. The CPU worker is killed and stopped, a second model is loaded and
unloaded, and its loader killed and stopped. At the end: a table of figures,
and exit 1 if an answer was wrong, memory kept growing, or a descriptor, process or file was left.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import REAL, Service, alive  # noqa: E402
from raw_client import RawClient, pack  # noqa: E402

REQUESTS = 60
WORDS = ("the river stone light winter map of a with quiet seven engine and letter green why how to count "
         "wind über naïve 日本 😀 {x} 3.14").split()
GROWTH_KIB, SLOPE_KIB_PER_MINUTE = 4096, 100  # of the coordinator's own memory after warm-up: both is a leak


class Request:
    """What a client asks: plain text, one JSON object with log-probabilities, or a chat of several turns."""

    def __init__(self, form, text, options):
        self.form, self.text, self.options = form, text, options

    def arguments(self, model):
        return {"text": ["run", model, "-"], "json": ["run", model, "-", "--json"],
                "chat": ["chat", model, "--json"]}[self.form] + self.options

    def pieces(self, out):
        """The output as a list whose beginning an ended client must have printed; without times, of whole turns."""
        if self.form == "text":
            return list(out)
        found = [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]
        return [{key: one.get(key) for key in ("text", "answer", "ids", "reason", "tokens", "logprobs")}
                for one in found if one["reason"] != "cancelled"]

    def __str__(self):
        return f"{self.form} {self.options} {self.text[:60]!r}"


def make_requests(chance):
    """Of every size and form, chat and raw, greedy and sampled, with and without texts that stop them."""
    found = []
    for i in range(REQUESTS):
        form = chance.choice(("text", "text", "json", "chat"))
        lines = chance.randint(2, 4) if form == "chat" else 1
        words = (1, 3, 10, 40, 150, 500) if lines == 1 else (2, 8, 30)
        text = "\n".join(" ".join(chance.choices(WORDS, k=chance.choice(words))) for _ in range(lines))
        options = ["-n", str(chance.choice((1, 5, 30, 120, 300) if lines == 1 else (5, 30, 60)))]
        if form != "chat" and chance.random() < 0.5:
            options.append("--raw")
        if form == "json":
            options += ["--logprobs", str(chance.choice((0, 1, 5)))]
        if chance.random() < 0.3:
            options += ["--stop", chance.choice((" the", "e", ".", "\n\n", "é"))]
        if chance.random() < 0.6:
            options += ["--temp", f"{chance.uniform(0.1, 1.5):.2f}", "--seed", str(chance.randrange(1 << 32))]
        if chance.random() < 0.5:
            options.append("--ignore-eos")
        found.append(Request(form, text, options))
    return found


def children(pid):
    """{pid: program} of a process's living children."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue
        state, parent = rest.split()[:2]
        if int(parent) == pid and state != "Z":
            found[int(path.parent.name)] = name
    return found


def gauge(pid):
    """KiB: resident, proportional, of these anonymous; and open descriptors. None once it is gone."""
    try:
        rows = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        fds = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    return {k: int(rows[k].split()[0]) for k in ("Rss", "Pss", "Pss_Anon")} | {"fds": fds}


def slope(points):
    """Of the least-squares line through (x, y)."""
    if len(points) < 2:
        return 0.0
    mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


class Soak:
    def __init__(self, options):
        self.options = options
        self.service = Service()
        self.requests = make_requests(random.Random(options.seed))
        self.expected = {}
        self.failures, self.counts, self.samples = [], {}, {}
        self.lock, self.over = threading.Lock(), threading.Event()
        self.loader_hit = 0.0  # when a loader was last killed or stopped

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def fail(self, text):
        with self.lock:
            self.failures.append(text)
        print("FAILURE:", text, file=sys.stderr, flush=True)

    def prepare(self):
        """The right answers."""
        keep = self.options.keep
        known = json.loads(keep.read_text()) if keep and keep.exists() else {}
        for request in self.requests:
            arguments = request.arguments(self.options.model)
            key = hashlib.sha256(json.dumps([*map(str, arguments), request.text]).encode()).hexdigest()
            if key not in known:
                known[key] = self.service.good(*arguments, stdin=request.text, timeout=120).out.hex()
            self.expected[request] = request.pieces(bytes.fromhex(known[key]))
        if keep:
            keep.write_text(json.dumps(known))
        self.service.good("load", self.options.model)
        self.coordinator = self.service.coordinator_pid()
        self.idle_fds = self.settled_fds()

    # ---- clients ----

    def one_request(self, chance):
        request = chance.choice(self.requests)
        want = self.expected[request]
        fate = chance.choices(("finish", "interrupt", "kill", "stop"), (70, 12, 10, 8))[0]
        process = self.service.start(*request.arguments(self.options.model), stdin=subprocess.PIPE)
        timers = []
        if fate != "finish":
            number = {"interrupt": signal.SIGINT, "kill": signal.SIGKILL, "stop": signal.SIGSTOP}[fate]
            moment = chance.uniform(0, 1.5)
            timers.append(threading.Timer(moment, process.send_signal, [number]))
            if fate == "stop":
                timers.append(threading.Timer(moment + chance.uniform(0.5, 3), process.send_signal, [signal.SIGCONT]))
        for timer in timers:
            timer.start()
        try:
            out, err = process.communicate(request.text.encode(), timeout=180)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail(f"no answer within 180 s ({fate}): {request}")
            return
        finally:
            for timer in timers:
                timer.cancel()
        code = process.returncode
        self.count(fate if code != 0 else "finish" if fate == "finish" else f"finish before {fate}")
        got = request.pieces(out)
        if code == 0 and got != want:
            self.fail(f"wrong answer: {request}: {out[:300]!r}")
        elif code != 0 and got != want[:len(got)]:
            self.fail(f"wrong beginning: {request}: {out[:300]!r}")
        elif code not in {"finish": (0,), "stop": (0,), "interrupt": (0, 130, -2), "kill": (0, -9)}[fate]:
            self.fail(f"exit {code} ({fate}): {err.decode(errors='replace')[-300:]}")

    def client(self, chance):
        while not self.over.is_set():
            self.one_request(chance)

    # ---- what goes wrong ----

    def stranger(self, chance):
        """Sends what no honest client sends, and goes away without listening."""
        while not self.over.wait(chance.uniform(0.2, 2)):
            with RawClient(self.service) as client:
                for _ in range(chance.randint(1, 20)):
                    whole = pack({"v": 1, "k": chance.choice(("generate", "tokenize", "ps", "info", "cancel", "ack")),
                                  "request": 1, "model": str(self.options.model), "tokens": bytes(40), "n": 50})
                    client.send(chance.choice((chance.randbytes(chance.randint(0, 300)), whole,
                                               whole[:chance.randrange(len(whole))])))
            self.count("stranger")

    def hit(self, program, chance):
        targets = [pid for pid, name in children(self.coordinator).items() if name == program]
        if not targets:
            return False
        number = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
        if program == "tern-loader":
            self.loader_hit = time.monotonic()
        try:
            os.kill(chance.choice(targets), number)
        except ProcessLookupError:
            return False
        self.count(f"{program} {signal.Signals(number).name}")
        return True

    def vandal(self, chance):
        while not self.over.wait(chance.uniform(2, 9)):
            self.hit("tern-cpu", chance)

    def loader_vandal(self, chance):
        """Loaders live for a moment only, so this one watches."""
        while not self.over.wait(chance.uniform(0.01, 0.05)):
            if chance.random() < 0.2 and self.hit("tern-loader", chance):
                self.over.wait(20)

    def second_model(self, chance):
        while not self.over.wait(chance.uniform(0, 4)):
            began = time.monotonic()
            result = self.service.tern("load", self.options.second, timeout=120)
            if result.code == 0:
                self.count("second model loaded")
                self.over.wait(chance.uniform(0, 3))
                result = self.service.tern("unload", self.options.second, timeout=120)
                if result.code != 0:
                    self.fail(f"unload: {result}")
            elif self.loader_hit >= began and "loader" in result.err:
                self.count("load failed with its loader")
            else:
                self.fail(f"load: {result}")

    # ---- figures ----

    def observer(self):
        began = time.monotonic()
        while not self.over.wait(2):
            for pid, name in [(self.coordinator, "ternd"), *children(self.coordinator).items()]:
                found = gauge(pid)
                if found and name in ("ternd", "tern-cpu"):
                    self.samples.setdefault(name, []).append((time.monotonic() - began, found))

    def report_memory(self):
        print(f"\n{'process':10} {'figure':9} {'first':>9} {'last':>9} {'largest':>9}  per minute after warm-up")
        for name, samples in self.samples.items():
            late = samples[len(samples) // 4:]
            for key in ("Rss", "Pss", "Pss_Anon", "fds"):
                values = [found[key] for _, found in late]
                per_minute = slope([(at / 60, found[key]) for at, found in late])
                print(f"{name:10} {key:9} {values[0]:9} {values[-1]:9} {max(values):9}  {per_minute:+.1f}")
                third = max(1, len(values) // 3)
                growth = sorted(values[-third:])[third // 2] - sorted(values[:third])[third // 2]
                if key == "Pss_Anon" and per_minute > SLOPE_KIB_PER_MINUTE and growth > GROWTH_KIB:
                    self.fail(f"{name}: own memory grew by {growth} KiB")

    def settled_fds(self):
        """Descriptors of the coordinator that stay once all clients are gone: the fewest within 2 s."""
        counts = []
        for _ in range(20):
            time.sleep(0.1)
            counts.append(gauge(self.coordinator)["fds"])
        return min(counts)

    def finish(self, shared_before):
        if self.options.second:
            self.service.tern("unload", self.options.second, timeout=60)
        fds = self.settled_fds()
        print(f"descriptors of the idle coordinator: {self.idle_fds} before, {fds} after")
        if fds > self.idle_fds:
            self.fail(f"{fds - self.idle_fds} descriptors are left open")
        ps = self.service.ps()
        if ps["requests"] != 0:
            self.fail(f"{ps['requests']} requests are left in the service")
        for model in ps["models"]:
            if model["pages_used"] != 0 or model["pages_kept"] + model["pages_free"] != model["pages"]:
                self.fail(f"pages left: {model}")
        family = [self.coordinator, *children(self.coordinator)]
        self.service.tern("stop", timeout=60)
        deadline = time.monotonic() + 10
        while any(map(alive, family)) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left := [pid for pid in family if alive(pid)]:
            self.fail(f"processes left: {left}")
        if left := set(os.listdir("/dev/shm")) - shared_before:
            left = {name for name in left if "tern" in name}
            if left:
                self.fail(f"shared memory left: {left}")

    def run(self):
        shared_before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        self.prepare()
        print(f"{REQUESTS} answers known; {self.options.minutes} minutes begin", flush=True)
        jobs = [self.client] * self.options.clients + [self.vandal, self.stranger]
        if self.options.second:
            jobs += [self.second_model, self.loader_vandal]
        threads = [threading.Thread(target=job, args=(random.Random(f"{self.options.seed} {i}"),))
                   for i, job in enumerate(jobs)] + [threading.Thread(target=self.observer)]
        for thread in threads:
            thread.start()
        self.over.wait(self.options.minutes * 60)
        self.over.set()
        for thread in threads:
            thread.join()
        restarts = self.service.worker()["restarts"]
        self.finish(shared_before)
        for what, number in sorted(self.counts.items()):
            print(f"{number:8} {what}")
        print(f"{restarts:8} restarts of the CPU worker")
        self.report_memory()
        if not self.counts.get("finish"):
            self.fail("no request was finished")
        print(f"\nseed {self.options.seed}: {len(self.failures)} failures")
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--model", type=pathlib.Path, default=REAL / "smollm2-135m.gguf")
    parser.add_argument("--second", type=pathlib.Path, default=REAL / "gemma3-270m.gguf",
                        help="loaded and unloaded meanwhile; left out if absent")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    if not options.model.exists():
        parser.error(f"no model {options.model}; scripts/fetch-models brings it")
    if not options.second.exists():
        print(f"skipped: loads of a second model (no {options.second})")
        options.second = None
    print(f"seed {options.seed}", flush=True)
    soak = Soak(options)
    try:
        return soak.run()
    finally:
        soak.over.set()
        soak.service.stop()


if __name__ == "__main__":
    sys.exit(main())
