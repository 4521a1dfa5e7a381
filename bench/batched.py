"""Tokens a second of several sessions together, in Tern and in llama.cpp's llama-batched-bench.

usage: batched.py MODEL [--sessions 1,2,4,8] [-t 2] [-p 16] [-n 128] [--rounds 5]
                  [--temp X] [--top-p X] [--llama PATH] [--tern BUILD[,BUILD...]]

Each round runs every program at every number of sessions, one program right after the other, so
that all see the same machine; the table shows medians of the rounds in tokens/s in all and the
ratio of the first program to the last. Tern's figure is taken at a client of its service, from
the moment when each session has its first token to the first end of a session; that client uses
the same processors. llama-batched-bench samples nothing and has no client.
"""
import argparse
import array
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "integration"))


class Tern:
    def __init__(self, build, options):
        from harness import Service
        from raw_client import RawClient
        self.options = options
        self.sampling = {name: getattr(options, name) for name in ("temp", "top_p")
                         if getattr(options, name, None) is not None}
        self.service = Service()
        self.service.program = pathlib.Path(build) / "cmd" / "tern" / "tern"
        self.service.good("load", options.model, "--threads", options.t, timeout=120)
        self.client = RawClient(self.service)
        self.number = 0

    def ask(self):
        """A session whose first id is its own, so that none takes over what another computed."""
        self.number += 1
        ids = array.array("I", [100 + self.number % 20000] + list(range(1000, 999 + self.options.p)))
        self.client.ask("generate", self.number, model=os.path.abspath(self.options.model),
                        tokens=ids.tobytes(), n=self.options.n, ignore_eos=True,
                        threads=self.options.t, seed=self.number, **self.sampling)
        return self.number

    def measure(self, sessions):
        tokens = {self.ask(): 0 for _ in range(sessions)}
        begin = before = 0
        rate = None
        running = set(tokens)
        while running:
            reply = self.client.receive(60000)
            assert reply is not None, "no reply within a minute"
            number = reply["request"]
            if reply["k"] == "error":
                sys.exit(f"tern: {reply['text']}")
            if reply["k"] == "done":
                running.discard(number)
                continue
            self.client.ask("ack", number, count=1)
            if reply["k"] != "tokens":
                continue
            tokens[number] += len(reply["tokens"]) // 4
            now = time.monotonic()
            if not begin and all(tokens.values()):
                begin, before = now, sum(tokens.values())
            elif begin and rate is None and tokens[number] >= self.options.n:
                rate = (sum(tokens.values()) - before) / (now - begin)
        return rate

    def close(self):
        self.client.close()
        self.service.stop()


class Llama:
    def __init__(self, program, options):
        self.program, self.options = program, options

    def measure(self, sessions):
        o = self.options
        out = subprocess.run(
            [self.program, "-m", o.model, "-npp", str(o.p), "-ntg", str(o.n), "-npl", str(sessions),
             "-c", str(sessions * (o.p + o.n) + 256), "-t", str(o.t), "--output-format", "jsonl"],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
        return next(json.loads(line)["speed_tg"] for line in out.splitlines()
                    if line.startswith("{"))

    def close(self):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--sessions", default="1,2,4,8")
    parser.add_argument("-t", type=int, default=2)
    parser.add_argument("-p", type=int, default=16)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--temp", type=float)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--llama", default=shutil.which("llama-batched-bench"))
    parser.add_argument("--tern", default=str(SOURCE / "build"))
    options = parser.parse_args()
    programs = {}
    for build in options.tern.split(","):
        programs["tern" if "," not in options.tern else f"tern {build}"] = Tern(build, options)
    if options.llama:
        programs["llama.cpp"] = Llama(options.llama, options)
    else:
        print("llama-batched-bench is not on the PATH: Tern alone", file=sys.stderr)
    counts = [int(n) for n in options.sessions.split(",")]
    found = {(name, n): [] for name in programs for n in counts}
    try:
        for _ in range(options.rounds):
            for n in counts:
                for name, program in programs.items():
                    found[name, n].append(program.measure(n))
    finally:
        for program in programs.values():
            program.close()
    print(f"| sessions | {' | '.join(programs)} | ratio |")
    print("|---|" + "---|" * (len(programs) + 1))
    for n in counts:
        medians = [statistics.median(found[name, n]) for name in programs]
        ratio = f"{medians[0] / medians[-1]:.2f}" if len(medians) > 1 else "-"
        print(f"| {n} | " + " | ".join(f"{m:.1f}" for m in medians) + f" | {ratio} |")


if __name__ == "__main__":
    main()
