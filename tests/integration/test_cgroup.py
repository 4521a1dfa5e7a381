"""Real control groups: threads under a CPU quota, models under a memory limit. What this machine does not let a test make is skipped, by name."""
import contextlib
import os
import pathlib
import subprocess
import time
import unittest

import gguf_files
from harness import SANITIZED, Service, models

PERIOD = 100000
MIB = 1 << 20


def own_group(controller):
    """The folder of this process's group: version 1's, or version 2's (controller None)."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(",") if controller else names == "":
            top = pathlib.Path("/sys/fs/cgroup") / (controller or "")
            return top / path.lstrip("/")
    return None


def remove(group):
    """Once its processes are gone: what has ended its work may take a while to end."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


@contextlib.contextmanager
def control_group(*ways):
    """A group made in the first of these ways, (controller, {file: value}), that works here; removed once its
    processes are gone."""
    made = None
    for controller, files in ways:
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
        raise unittest.SkipTest(f"this machine lets nobody make a control group with {list(ways[-1][1])[0]} here")
    try:
        yield made
    finally:
        remove(made)


def quota(microseconds):
    """So much CPU time in each period."""
    return control_group(("cpu", {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": microseconds}),
                         (None, {"cpu.max": f"{microseconds} {PERIOD}"}))


def memory_limit(size):
    return control_group(("memory", {"memory.limit_in_bytes": size}), (None, {"memory.max": size}))


def joining(group):
    """For preexec_fn: the command, and the service that it starts, are then in the group."""
    return lambda: (group / "cgroup.procs").write_text(str(os.getpid()))


class Quota(unittest.TestCase):
    def setUp(self):
        _, self.model, self.about = models()[0]

    def load(self, group, service, *options):
        service.good("load", self.model, *options, preexec_fn=joining(group))
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
                remove(inner)

    def test_too_many_threads_keep_half_the_speed(self):
        def speed(group, *options):
            with Service() as service:
                self.load(group, service, *options)
                rows = service.good("bench", self.model, "-o", "json", "-p", 0, "-n", 100, "-r", 3, *options).json()
                return max(rows[0]["samples_ts"])

        # Alternated, the best of up to three each: others work on this machine too.
        usual = many = 0
        with quota(PERIOD) as group:
            for _ in range(3):
                usual = max(usual, speed(group))
                many = max(many, speed(group, "--threads", 16))
                if many >= usual / 2:
                    return
        self.assertGreaterEqual(many, usual / 2)


@unittest.skipIf(SANITIZED, "looking for leaks at the end needs one more")
class Tasks(unittest.TestCase):
    def test_few_threads_and_processes(self):
        """One after the other cannot start something; each says so in a line, and none aborts."""
        for most in range(1, 16):
            with self.subTest(most), control_group(("pids", {"pids.max": most}), (None, {"pids.max": most})) as group, \
                    Service() as service:
                model = service.root / "model.gguf"
                model.write_bytes(gguf_files.encode(gguf_files.base())[0])
                result = service.tern("run", model, "--raw", "-n", 2, "--ignore-eos", "--threads", 2, "hi",
                                      preexec_fn=joining(group))
                self.assertIn(result.code, (0, 1, 4, 7), result)
                self.assertEqual(result.err.count("\n"), result.code != 0, result)
                for word in ("SIGABRT", "thread.cpp", "Sanitizer"):
                    self.assertNotIn(word, service.log())


class Memory(unittest.TestCase):
    """Of the machine's memory, only what the group may have; Service keeps 256 MiB of it in reserve."""
    LIMIT = 640 * MIB

    def usable(self, service):
        return service.good("info", self.model, "--json").json()["memory"]["available_bytes"]

    def test_page_cache_counts_as_free(self):
        _, self.model, _ = models()[0]
        with memory_limit(self.LIMIT) as group, Service() as service:
            service.good("load", self.model, preexec_fn=joining(group))
            before = self.usable(service)
            self.assertLessEqual(before, self.LIMIT - 256 * MIB)
            self.assertGreater(before, self.LIMIT - 256 * MIB - 100 * MIB)
            file = service.root / "read"
            with file.open("wb") as out:
                out.truncate(2 * self.LIMIT)
            subprocess.run(["cat", file], stdout=subprocess.DEVNULL, check=True, preexec_fn=joining(group))
            self.assertGreater(self.usable(service), before - 64 * MIB)

    def test_the_limit_bounds_the_context(self):
        with memory_limit(self.LIMIT) as group, Service() as service:
            self.model = service.root / "wide.gguf"
            model = gguf_files.base(width=64, heads=8, kv_heads=8, head_size=128)  # 4 KiB for each position
            model.keys["llama.context_length"] = (gguf_files.U32, 1 << 20)
            self.model.write_bytes(gguf_files.encode(model)[0])
            result = service.good("load", self.model, preexec_fn=joining(group))
            self.assertIn("memory does not allow the 1048576 trained", result.err + result.out.decode())
            self.assertLess(service.ps()["models"][0]["context"] * 4096, self.LIMIT)
            refused = service.tern("load", self.model, "--ctx", 1 << 18)
            self.assertEqual(refused.code, 4, refused)
            self.assertIn("MiB may be used", refused.err)

    @unittest.skipIf(SANITIZED, "the sanitizer's memory does not fit the limit")
    def test_memory_that_others_take(self):
        """What a load could count on may be gone later. The kernel then ends a process: one that can be replaced."""
        with memory_limit(self.LIMIT) as group, Service() as service:
            self.model = service.root / "wide.gguf"
            model = gguf_files.base(width=64, heads=8, kv_heads=8, head_size=128)
            model.keys["llama.context_length"] = (gguf_files.U32, 1 << 16)
            self.model.write_bytes(gguf_files.encode(model)[0])
            service.good("load", self.model, "--ctx", 50000, preexec_fn=joining(group))
            pid, want = service.coordinator_pid(), service.ids(self.model, [5, 6, 7], 8)
            self.assertEqual(self.victim(service.worker()["pid"]), 1000)
            self.assertEqual(self.victim(pid), self.victim(os.getpid()))
            limit = next(path for name in ("memory.limit_in_bytes", "memory.max") if (path := group / name).exists())
            usage = next(path for name in ("memory.usage_in_bytes", "memory.current") if (path := group / name).exists())
            limit.write_text(str(int(usage.read_text()) + 24 * MIB))
            result = service.tern("run", self.model, "--tokens", service.tokens_file([5] * 20000), "--ids", "-n", 1,
                                  timeout=120)
            self.assertIn(result.code, (1, 6), result)  # 1: killed again and again before it could try
            self.assertEqual(service.ids(self.model, [5, 6, 7], 8), want)
            self.assertEqual(service.coordinator_pid(), pid)

    def victim(self, pid):
        """How much sooner than others it is taken."""
        return int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text())


if __name__ == "__main__":
    unittest.main()
