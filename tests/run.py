"""Builds, runs the unit tests (meson) and the integration tests (unittest) and prints one closing line:
`N passed, N failed` (and `, N skipped`). Exit code 1 if anything failed or nothing ran; what cannot be
built is not tested as it was before.

usage: run.py [--build FOLDER] [--unit [--suite SUITE]] [--integration] [NAME...]   NAME: test_golden, ...
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[1]


def run_unit(build, suite):
    """(passed, failed, skipped) of meson's tests; cases inside an executable are counted."""
    # Ten times the usual limits: they end what hangs, not what a sanitizer or a busy machine makes slow.
    command = ["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "10"]
    if suite:
        command += ["--suite", suite]
    log = pathlib.Path(build) / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)  # of an earlier run
    subprocess.run(command, stdout=sys.stderr, check=False)
    if not log.exists():
        return 0, 1, 0
    passed = failed = skipped = 0
    for line in log.read_text().splitlines():
        test = json.loads(line)
        output = test.get("stdout", "") + test.get("stderr", "")
        cases = [int(row.split("]")[1].split()[0]) for row in output.splitlines()
                 if row.startswith("[  PASSED  ]")]
        bad = [int(row.split("]")[1].split()[0]) for row in output.splitlines()
               if row.startswith("[  FAILED  ]") and row.split("]")[1].split()[0].isdigit()]
        skip = [int(row.split("]")[1].split()[0]) for row in output.splitlines()
                if row.startswith("[  SKIPPED ]") and row.split("]")[1].split()[0].isdigit()]
        for row in dict.fromkeys(output.splitlines()):
            if row.startswith("[  SKIPPED ] ") and not row.split()[3].isdigit():
                print(f"skipped: {test['name']}: {row.split()[3]}", file=sys.stderr)
        passed += sum(cases[:1])
        skipped += sum(skip[:1])
        if test["result"] == "OK":
            passed += 0 if cases else 1
        else:
            failed += sum(bad[:1]) or 1
    return passed, failed, skipped


class Runner(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.stream.writeln(f"    {time.monotonic() - self.began:.1f} s")


def run_integration(names, without):
    folder = SOURCE / "tests" / "integration"
    sys.path.insert(0, str(folder))
    names = names or sorted(p.stem for p in folder.glob("test_*.py") if p.stem not in without)
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2,
                                     resultclass=Runner).run(suite)
    bad = len({getattr(t, "test_case", t).id() for t, _ in result.failures + result.errors})
    skipped = len(result.skipped)
    for test, reason in result.skipped:
        print(f"skipped: {test.id()}: {reason}", file=sys.stderr)
    return max(0, result.testsRun - bad - skipped), bad, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(SOURCE / "build"))
    parser.add_argument("--unit", action="store_true")
    parser.add_argument("--suite", help="of the unit tests, e.g. concurrent")
    parser.add_argument("--integration", action="store_true")
    parser.add_argument("--without", action="append", default=[], help="an integration test file to leave out")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    both = not options.unit and not options.integration and not options.names
    os.environ["TERN_BUILD"] = str(pathlib.Path(options.build).resolve())
    total = [0, 0, 0]
    if subprocess.run(["ninja", "-C", options.build, "--quiet"], stdout=sys.stderr, check=False).returncode != 0:
        print("the build failed: nothing was tested\n0 passed, 1 failed")
        return 1
    if both or options.unit:
        total = [a + b for a, b in zip(total, run_unit(options.build, options.suite))]
    if both or options.integration or options.names:
        total = [a + b for a, b in zip(total, run_integration(options.names, options.without))]
    skipped = f", {total[2]} skipped" if total[2] else ""
    print(f"{total[0]} passed, {total[1]} failed{skipped}")
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
