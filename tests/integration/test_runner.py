"""tests/run.py itself: what cannot be built has not passed."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from harness import SOURCE


class Runner(unittest.TestCase):
    def test_a_failed_build_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "build.ninja").write_text("rule no\n  command = false\nbuild x: no\n")
            (build / "meson-logs").mkdir()  # of a run before
            (build / "meson-logs" / "testlog.json").write_text(json.dumps({"name": "a", "result": "OK"}) + "\n")
            for what in ("--unit", "test_completion"):
                done = subprocess.run([sys.executable, SOURCE / "tests" / "run.py", "--build", build, what],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 1, done)
                self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
