#!/usr/bin/env python3
"""Builds the libFuzzer targets of this folder with clang, AddressSanitizer and UBSan in build-fuzz/ and runs
each for some time from its kept inputs (corpus/NAME/, written by hand, and corpus/NAME.tar.xz, found by earlier
runs). What ends a target (a crash, a leak, more than
--memory MiB, more than 10 s on one input) is kept in build-fuzz/found/ and named. The last line is
`N passed, M failed`.

usage: fuzz.py [--seconds N] [--jobs N] [--keep] [NAME...]

    --seconds N   for each target (default 60)
    --jobs N      targets at a time (default 2)
    --memory N    MiB that a target may use (default 1024)
    --keep        afterwards write the smallest inputs that cover the most to corpus/NAME.tar.xz
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BUILD = SOURCE / "build-fuzz"
FOUND = BUILD / "found"
KEPT_BYTES = 64000  # of one target's corpus in the repository
INPUT_SECONDS = 10  # a slower input is a hang
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=16",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}


def targets():
    return sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.c"))


def build(names):
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["meson", "setup", BUILD, "-Dfuzz=true", "-Db_sanitize=address,undefined",
                        "-Db_lundef=false", "-Dc_args=-fsanitize=fuzzer-no-link"], cwd=SOURCE, check=True,
                       env={**os.environ, "CC": "clang"}, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", BUILD, "--quiet", *(f"tests/long/fuzz_{name}" for name in names)],
                   check=True, stdout=sys.stderr)


def program(name):
    return BUILD / "tests" / "long" / f"fuzz_{name}"


def kept(name):
    """Folders with the inputs to start from."""
    packed, folder = HERE / "corpus" / f"{name}.tar.xz", BUILD / "kept" / name
    shutil.rmtree(folder, ignore_errors=True)
    if packed.exists():
        with tarfile.open(packed) as archive:
            for member in archive.getmembers():
                member.name = os.path.basename(member.name)
                archive.extract(member, folder)
    return [path for path in (HERE / "corpus" / name, folder) if path.is_dir()]


def run(name, options):
    """(name, exit status, last lines): inputs that reach something new go to build-fuzz/corpus/NAME."""
    grown = BUILD / "corpus" / name
    grown.mkdir(parents=True, exist_ok=True)
    command = [program(name), f"-max_total_time={options.seconds}", f"-timeout={INPUT_SECONDS}",
               f"-rss_limit_mb={options.memory}", f"-artifact_prefix={FOUND}/{name}-", "-print_final_stats=1",
               "-verbosity=1", "-reload=0"]
    words = HERE / "corpus" / f"{name}.dict"
    if words.exists():
        command.append(f"-dict={words}")
    folders = [grown, *kept(name)]
    log = BUILD / f"fuzz_{name}.log"
    with open(log, "wb") as out:
        done = subprocess.run([*command, *folders], stdout=out, stderr=out, check=False,
                              env={**os.environ, **OPTIONS})
    return name, done.returncode, log.read_text(errors="replace")


def report(name, code, log):
    runs = re.search(r"number_of_executed_units: (\d+)", log)
    covered = re.findall(r"cov: (\d+)", log)
    print(f"fuzz_{name}: {'FAILED' if code else 'ok'}, {runs[1] if runs else '?'} inputs, "
          f"{covered[-1] if covered else '?'} edges", file=sys.stderr)
    if code:
        print(f"{log[-6000:]}\nfuzz_{name}: the input is in {FOUND}; the log is {BUILD}/fuzz_{name}.log",
              file=sys.stderr)


def keep(name):
    """The corpus that covers the same with the fewest and smallest inputs, cut to KEPT_BYTES."""
    merged = BUILD / "merged" / name
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    subprocess.run([program(name), "-merge=1", merged, *kept(name), BUILD / "corpus" / name], check=True,
                   env={**os.environ, **OPTIONS}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    used = 0
    with tarfile.open(HERE / "corpus" / f"{name}.tar.xz", "w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(merged.iterdir(), key=lambda p: (p.stat().st_size, p.name)):
            used += path.stat().st_size
            if used > KEPT_BYTES:
                break
            entry = tarfile.TarInfo(path.name[:12])
            entry.size = path.stat().st_size
            with open(path, "rb") as data:
                archive.addfile(entry, data)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--memory", type=int, default=1024)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or targets()
    build(names)
    FOUND.mkdir(exist_ok=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, code, log in pool.map(lambda n: run(n, options), names):
            report(name, code, log)
            failed += code != 0
            if options.keep:
                keep(name)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
