"""Speed of a model in Tern, alternated with llama.cpp's llama-bench when it is on the PATH.

usage: compare.py MODEL [-p 512] [-n 64] [-r 5] [--threads 1,2] [--rounds 3]

Each round runs both programs one after the other, so that both see the same machine; the table
shows medians over all samples of all rounds, and the ratio Tern / llama.cpp of the medians.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

TERN = pathlib.Path(__file__).resolve().parents[1] / "build" / "cmd" / "tern" / "tern"


def samples(command):
    """{"prompt": [...], "decode": [...]} in tokens/s; both programs print the same fields."""
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL).stdout
    found = {"prompt": [], "decode": [], "overhead": []}
    for line in json.loads(out):
        found["decode" if line["n_gen"] else "prompt"] += line["samples_ts"]
        if "overhead_us" in line:
            found["overhead"].append(line["overhead_us"])
    return found


def measure(programs, options, threads):
    total = {name: {"prompt": [], "decode": [], "overhead": []} for name in programs}
    for _ in range(options.rounds):
        for name, program in programs.items():
            command = program + ["-p", str(options.p), "-n", str(options.n), "-r", str(options.r),
                                 "-t", str(threads), "-o", "json"]
            for kind, values in samples(command).items():
                total[name][kind] += values
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("-r", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    programs = {"tern": [str(TERN), "bench", options.model]}
    if shutil.which("llama-bench"):
        programs["llama.cpp"] = ["llama-bench", "-m", options.model]
    else:
        print("llama-bench is not on the PATH: Tern alone", file=sys.stderr)
    print(f"| threads | test | {' | '.join(programs)} | ratio |")
    print("|---|---|" + "---|" * (len(programs) + 1))
    for threads in map(int, options.threads.split(",")):
        total = measure(programs, options, threads)
        for kind in ("prompt", "decode"):
            medians = [statistics.median(total[name][kind]) for name in programs]
            ratio = f"{medians[0] / medians[1]:.2f}" if len(medians) == 2 else "-"
            print(f"| {threads} | {kind} | " + " | ".join(f"{m:.1f}" for m in medians)
                  + f" | {ratio} |")
        print(f"| {threads} | overhead us/token | "
              f"{statistics.median(total['tern']['overhead']):.0f} |"
              + " - |" * len(programs))


if __name__ == "__main__":
    main()
