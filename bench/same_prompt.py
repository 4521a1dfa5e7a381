"""Seconds until each of several sessions that begin at once has its first token: all with the same
prompt, and each with one of its own.

usage: same_prompt.py MODEL [--sessions 8] [-t 2] [-p 1024] [--rounds 5] [--tern BUILD[,BUILD...]]

Each round runs every build, one right after the other; the table shows medians of the rounds.
"""
import argparse
import array
import statistics
import time

from batched import SOURCE, Tern


class Prompts(Tern):
    def seconds(self, same):
        """Prompts whose first id is new, so that no earlier one is taken over."""
        options, begin = self.options, time.monotonic()
        waiting = set()
        for session in range(options.sessions):
            self.number += session == 0 or not same
            ids = array.array("I", [100 + self.number % 20000] + list(range(1000, 999 + options.p)))
            waiting.add(session)
            self.client.ask("generate", session, model=options.model, tokens=ids.tobytes(), n=1,
                            ignore_eos=True, threads=options.t)
        while waiting:
            reply = self.client.receive(60000)
            assert reply is not None and reply["k"] != "error", reply
            if reply["k"] == "done":
                waiting.discard(reply["request"])
            else:
                self.client.ask("ack", reply["request"], count=1)
        return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("-t", type=int, default=2)
    parser.add_argument("-p", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tern", default=str(SOURCE / "build"))
    options = parser.parse_args()
    programs = {build: Prompts(build, options) for build in options.tern.split(",")}
    found = {(build, same): [] for build in programs for same in (True, False)}
    try:
        for _ in range(options.rounds):
            for build, same in found:
                found[build, same].append(programs[build].seconds(same))
    finally:
        for program in programs.values():
            program.close()
    print("| build | same prompt | own prompts |\n|---|---|---|")
    for build in programs:
        same, own = (statistics.median(found[build, kind]) for kind in (True, False))
        print(f"| {build} | {same:.2f} | {own:.2f} |")


if __name__ == "__main__":
    main()
