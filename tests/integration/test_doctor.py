"""tern doctor: what it finds on this machine, in a bare container, and where something is wrong."""
import os
import resource
import shutil
import signal
import subprocess
import unittest

from harness import TERN, Service, models

SECTIONS = {
    "processors": {"online", "cores", "allowed", "quota_cores", "threads"},
    "tiers": {"available", "chosen"},
    "memory": {"total_bytes", "available_bytes", "usable_bytes"},
    "cgroup": {"version", "memory_limit_bytes", "memory_used_bytes", "quota_cores"},
    "huge_pages": {"shmem_enabled"},
    "bandwidth": {"buffer_bytes", "cache_bytes", "one_gb_per_s", "threads", "gb_per_s"},
    "clock": {"source", "read_ns"},
    "kernel": {"release", "machine", "pidfd"},
    "limits": {"open_files", "open_files_most", "locked_bytes", "address_bytes", "stack_bytes"},
    "seccomp": {"available"},
    "io_uring": {"available"},
    "cache": {"path", "writable", "free_bytes", "exists"},
    "runtime": {"path", "writable", "free_bytes"},
    "state": {"path", "writable", "free_bytes"},
    "service": {"running", "pid", "version"},
    "programs": {"ternd", "tern-loader", "tern-cpu"},
    "packages": {"missing"},
}


class Doctor(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)

    def doctor(self, code=0, **kwargs):
        result = self.service.tern("doctor", "--json", **kwargs)
        self.assertEqual(result.code, code, result)
        report = result.json()
        states = [check["state"] for check in report["checks"].values()]
        self.assertEqual(report["problems"], states.count("problem"))
        self.assertEqual(report["notes"], states.count("note"))
        self.assertEqual(report["problems"] > 0, code == 1)
        for name, check in report["checks"].items():
            self.assertEqual(check["state"] == "ok", check["remedy"] is None, name)
            self.assertTrue(check["text"], name)
        return report["checks"]

    def one_problem(self, name, **kwargs):
        """The only check that finds a problem is this one."""
        checks = self.doctor(1, **kwargs)
        self.assertEqual([n for n, check in checks.items() if check["state"] == "problem"], [name])
        return checks[name]

    def test_every_section_with_its_figures(self):
        checks = self.doctor()
        self.assertEqual(list(checks), list(SECTIONS))
        for name, keys in SECTIONS.items():
            self.assertEqual(set(checks[name]) - {"state", "text", "remedy"}, keys, name)
        self.assertEqual(checks["processors"]["allowed"], len(os.sched_getaffinity(0)))
        self.assertIn(checks["tiers"]["chosen"], checks["tiers"]["available"])
        memory = checks["memory"]
        self.assertLess(0, memory["usable_bytes"])
        self.assertLess(memory["usable_bytes"], memory["available_bytes"])
        self.assertLess(memory["available_bytes"], memory["total_bytes"])
        self.assertEqual(checks["limits"]["open_files_most"], resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        self.assertEqual(checks["packages"]["missing"], [])

    def test_bandwidth_is_plausible(self):
        bandwidth = self.doctor()["bandwidth"]
        for key in ("one_gb_per_s", "gb_per_s"):
            self.assertGreater(bandwidth[key], 0.5)
            self.assertLess(bandwidth[key], 5000)
        self.assertGreater(bandwidth["buffer_bytes"], bandwidth["cache_bytes"])

    def test_affinity_counts(self):
        one = min(os.sched_getaffinity(0))
        checks = self.doctor(preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        self.assertEqual(checks["processors"]["allowed"], 1)
        self.assertEqual(checks["processors"]["threads"], 1)
        self.assertEqual(checks["bandwidth"]["threads"], 1)

    def test_a_person_reads_lines(self):
        result = self.service.good("doctor")
        lines = result.out.decode().splitlines()
        found = [line.split()[1] for line in lines if line.startswith(("ok ", "note ", "problem "))]
        self.assertEqual(found, list(SECTIONS))
        self.assertRegex(lines[-1], r"^0 problems, \d+ notes?$")

    def test_starts_no_service_and_tells_of_one(self):
        self.assertEqual(self.doctor()["service"]["running"], False)
        self.assertEqual(self.service.tern("ps").code, 7)
        self.service.good("load", models()[0][1])
        found = self.doctor()["service"]
        self.assertEqual(found["pid"], self.service.coordinator_pid())
        self.assertEqual(found["version"], self.service.ps()["coordinator"]["version"])

    def test_a_service_that_does_not_answer(self):
        self.service.good("load", models()[0][1])
        pid = self.service.coordinator_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            found = self.one_problem("service")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertIn(str(pid), found["remedy"])

    def test_state_folder_that_cannot_be_made(self):
        (self.service.root / "file").touch()
        self.service.env["XDG_STATE_HOME"] = str(self.service.root / "file" / "state")
        self.assertIn("XDG_STATE_HOME", self.one_problem("state")["remedy"])

    def test_runtime_folder_of_others(self):
        folder = self.service.root / "runtime_dir" / "tern"
        folder.mkdir(mode=0o755)
        found = self.one_problem("runtime")
        self.assertIn(str(folder), found["text"])
        self.assertIn("XDG_RUNTIME_DIR", found["remedy"])

    def test_few_open_files(self):
        found = self.one_problem(
            "limits", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        self.assertEqual(found["open_files_most"], 64)
        self.assertIn("ulimit", found["remedy"])

    def test_no_memory_left_for_models(self):
        self.service.env["TERN_RESERVE_MIB"] = str(10**7)
        found = self.one_problem("memory")
        self.assertEqual(found["usable_bytes"], 0)
        self.assertIn("TERN_RESERVE_MIB", found["remedy"])


class Programs(unittest.TestCase):
    """Programs that lack something: copies, damaged."""

    def setUp(self):
        self.service = Service(faulty=True)
        self.addCleanup(self.service.stop)
        self.folder = self.service.program.parent

    def problems(self):
        result = self.service.tern("doctor", "--json")
        self.assertEqual(result.code, 1, result)
        return {n: check for n, check in result.json()["checks"].items() if check["state"] == "problem"}

    def test_worker_is_missing(self):
        (self.folder / "tern-cpu").unlink()
        problems = self.problems()
        self.assertEqual(set(problems), {"programs"})
        self.assertIsNone(problems["programs"]["tern-cpu"])
        self.assertIn("tern-cpu", problems["programs"]["remedy"])

    def test_worker_of_another_version(self):
        worker = self.folder / "tern-cpu"
        worker.write_text("#!/bin/sh\necho tern-cpu 0.0.1\n")
        problems = self.problems()
        self.assertEqual(set(problems), {"programs"})
        self.assertIn("tern-cpu 0.0.1", problems["programs"]["text"])

    def test_library_is_missing(self):
        loader = self.folder / "tern-loader"
        code = loader.read_bytes()
        self.assertIn(b"libseccomp.so.2\0", code)
        loader.write_bytes(code.replace(b"libseccomp.so.2\0", b"libseccomp.so.9\0"))
        problems = self.problems()
        self.assertEqual(set(problems), {"programs", "packages"})
        self.assertEqual(problems["packages"]["missing"], ["libseccomp.so.9"])
        self.assertIn("apt-get install libseccomp-dev", problems["packages"]["remedy"])


class BareContainer(unittest.TestCase):
    HIDE = "mount -t tmpfs none /sys && mount --bind /dev/null /proc/$$/cgroup"

    def test_without_sys_and_cgroup(self):
        isolate = ["unshare", "-m", *([] if os.getuid() == 0 else ["-r"]), "sh", "-c"]
        if shutil.which("unshare") is None or \
                subprocess.run([*isolate, self.HIDE], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine lets nobody hide /sys in a mount namespace of its own")
        with Service() as service:
            service.program = isolate[0]
            result = service.tern(*isolate[1:], f"{self.HIDE} && exec {TERN} doctor --json")
            service.program = TERN
            self.assertEqual(result.code, 0, result)
            checks = result.json()["checks"]
            self.assertEqual(set(checks), set(SECTIONS))
            self.assertIsNone(checks["processors"]["cores"])
            self.assertEqual(checks["processors"]["online"], os.cpu_count())
            self.assertEqual(checks["cgroup"]["version"], 0)
            self.assertIsNone(checks["huge_pages"]["shmem_enabled"])
            self.assertIsNone(checks["clock"]["source"])
            self.assertGreater(checks["bandwidth"]["gb_per_s"], 0.5)


if __name__ == "__main__":
    unittest.main()
