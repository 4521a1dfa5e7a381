"""Real control groups: threads under a CPU quota. What this machine does not let a test make is skipped, by name."""
import contextlib
import os
import pathlib
import time
import unittest

from harness import Service, models

PERIOD = 100000


def own_group(controller):
    """The folder of this process's group: version 1's, or version 2's (controller None)."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(",") if controller else names == "":
            top = pathlib.Path("/sys/fs/cgroup") / (controller or "")
            return top / path.lstrip("/")
    return None


@contextlib.contextmanager
def quota(microseconds):
    """A group with so much CPU time in each period; removed once its processes are gone."""
    made = None
    for controller, files in (("cpu", {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": microseconds}),
                              (None, {"cpu.max": f"{microseconds} {PERIOD}"})):
        with contextlib.suppress(OSError):
            above = own_group(controller)
            if above is None:
                continue
            made = above / f"tern-test-{os.getpid()}"
            made.mkdir()
            for name, value in files.items():
                (made / name).write_text(str(value))
            break
        if made is not None and made.is_dir():
            made.rmdir()
    if made is None or not made.is_dir():
        raise unittest.SkipTest("this machine lets nobody make a control group with a CPU quota here")
    try:
        yield made
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                made.rmdir()
                break
            time.sleep(0.05)


class Quota(unittest.TestCase):
    def setUp(self):
        _, self.model, self.about = models()[0]

    def load(self, group, service, *options):
        """Loads in the group: the service that this starts is then in it too."""
        service.good("load", self.model, *options,
                     preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
        return service.ps()["models"][0]["threads"]

    def test_half_a_core_is_one_thread(self):
        with quota(PERIOD // 2) as group, Service() as service:
            self.assertEqual(self.load(group, service), 1)

    def test_the_groups_above_count(self):
        with quota(PERIOD // 2) as group, Service() as service:
            inner = group / "inner"
            inner.mkdir()
            try:
                self.assertEqual(self.load(inner, service), 1)
            finally:
                service.tern("stop")
                inner.rmdir()

    def test_too_many_threads_keep_half_the_speed(self):
        def speed(group, *options):
            with Service() as service:
                self.load(group, service, *options)
                rows = service.good("bench", self.model, "-o", "json", "-p", 0, "-n", 100, "-r", 3, *options).json()
                return max(rows[0]["samples_ts"])

        with quota(PERIOD) as group:
            best = speed(group)
            self.assertGreaterEqual(speed(group, "--threads", 16), best / 2)


if __name__ == "__main__":
    unittest.main()
