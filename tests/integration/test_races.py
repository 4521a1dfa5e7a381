"""Many clients, reloads, and ends of everybody at the worst moment: each request is answered as if
it were alone, or refused with its documented code, and nothing is left behind."""
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import tempfile
import time
import unittest

from harness import CRASH, REAL, Service, alive, kill, models, prompts, wait_until

# A file that takes long enough to load to be met while it loads.
LARGE = REAL / "gemma3-270m.gguf"


def children(pid, name):
    """Process ids of this process's children that run this program."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if int(fields[1].split()[1]) == pid and fields[0].split("(", 1)[1] == name:
            found.append(int(entry.name))
    return found


class World(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        _, self.model, about = models()[0]
        self.tokens = prompts(about)[1]
        self.file = self.service.tokens_file(self.tokens)

    def start(self, *options, model=None, n=8):
        return self.service.start("run", model or self.model, "--tokens", self.file, "--ids", "-n", n,
                                  "--ignore-eos", *options)

    def ids(self, *options, n=8):
        return self.service.good("run", self.model, "--tokens", self.file, "--ids", "-n", n,
                                 "--ignore-eos", *options).json()

    def finish(self, process, want, seconds=120):
        """The right answer, and nothing but notes on the context beside it."""
        out, err = process.communicate(timeout=seconds)
        self.assertEqual(process.returncode, 0, err)
        self.assertRegex(err, rb"\A(tern: (context \d+: the model was trained on|the context of \d+ positions is full)"
                              rb"[^\n]*\n)*\Z")
        self.assertEqual(json.loads(out), want)

    def no_requests(self):
        return not any(m["requests"] for m in self.service.ps()["models"])


class Crowds(World):
    def test_reload_storm(self):
        """Clients that want the same model in different ways, all at once."""
        ways = [(), ("--threads", 1), ("--threads", 2), ("--ctx", 200), ("--kv", "f32"),
                ("--batch", 16), ("--precision", "fast"), ("--precision", "high"),
                ("--tier", "scalar"), ("--unfused",)]
        want = [self.ids(*way) for way in ways]
        chance = random.Random(5)
        running = []
        for _ in range(30):
            i = chance.randrange(len(ways))
            running.append((self.start(*ways[i]), want[i]))
        for process, answer in running:
            self.finish(process, answer)
        wait_until(lambda: len(self.service.ps()["models"]) == 1, 5, "one instance left")

    def test_load_and_unload_while_running(self):
        want = self.ids(n=40)
        running = [self.start(n=40) for _ in range(4)]
        for _ in range(10):
            self.assertEqual(self.service.tern("load", self.model).code, 0)
            # 2: somebody's run has not loaded it again yet.
            self.assertIn(self.service.tern("unload", self.model).code, (0, 2, 3))
        for process in running:
            self.finish(process, want)

    def test_long_prompts_beside_short_ones(self):
        longest = (self.tokens * 40)[:700]
        path = self.service.root / "long.json"
        path.write_text(json.dumps(longest))
        options = ("--ctx", 1024)
        want = self.ids(*options)
        args = ("run", self.model, "--tokens", path, "--ids", "-n", 4, "--ignore-eos", *options)
        long_want = self.service.good(*args).json()
        long_running = [self.service.start(*args) for _ in range(3)]
        short = [self.start(*options) for _ in range(6)]
        for process in short:
            self.finish(process, want)
        for process in long_running:
            self.finish(process, long_want)

    def test_more_sessions_than_places(self):
        """Some wait until others have finished; all are answered, each with its own text."""
        lengths = [5 + i % 20 for i in range(40)]
        full = self.ids(n=24)
        for process, n in [(self.start(n=n), n) for n in lengths]:
            self.finish(process, full[:n])
        self.assertTrue(self.no_requests())

    def test_contexts_that_fill_up_together(self):
        context = len(self.tokens) + 6
        want = self.ids("--ctx", context, n=1000)
        for process in [self.start("--ctx", context, n=1000) for _ in range(8)]:
            self.finish(process, want)

    def test_nothing_leaks(self):
        pid = None

        def figures():
            files = len(os.listdir(f"/proc/{pid}/fd"))
            for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    return files, int(line.split()[1])
            return None

        def round_of_requests():
            for options in ((), ("--threads", 1)):
                self.ids(*options)
                self.service.good("tokenize", self.model, stdin="hello")
                self.service.tern("run", "/dev/zero", "hi")
                self.service.tern("run", self.model, "--tokens", self.file, "--ctx", 2)
                process = self.start(n=500)
                time.sleep(0.02)
                process.send_signal(signal.SIGINT if options else signal.SIGKILL)
                process.communicate(timeout=20)
        def settle():
            """With the model loaded: whether the last request of a round, which is ended early, leaves it so is chance."""
            self.ids()
            wait_until(self.no_requests, 5, "requests ended")

        for _ in range(3):
            round_of_requests()
        pid = self.service.coordinator_pid()
        settle()
        files, kilobytes = figures()
        worker = self.service.worker()["pid"]
        worker_files = len(os.listdir(f"/proc/{worker}/fd"))
        for _ in range(15):
            round_of_requests()
        settle()
        wait_until(lambda: figures()[0] <= files + 4, 5, "descriptors came back")
        self.assertLess(figures()[1], kilobytes + 16384)
        self.assertEqual(self.service.worker()["pid"], worker)
        self.assertLessEqual(len(os.listdir(f"/proc/{worker}/fd")), worker_files + 4)
        self.assertEqual(children(pid, "tern-loader"), [])
        self.assertEqual(len(children(pid, "tern-cpu")), 1)


class Prompts(World):
    def test_no_tokens(self):
        self.assertEqual(self.ids(n=0), [])
        result = self.service.good("run", self.model, "--raw", "-n", 0, "hi")
        self.assertEqual(result.out.strip(), b"")

    def test_huge_prompts(self):
        """More than the context; more than one text may have; more than a message may hold."""
        for size, codes in ((7 << 20, (4,)), (30 << 20, (2,)), (40 << 20, (1, 2))):
            result = self.service.tern("run", self.model, "--raw", "-", stdin=b"word " * (size // 5),
                                       timeout=120)
            self.assertIn(result.code, codes, result)
            self.assertEqual(result.err.count("\n"), 1, result)
            self.assertEqual(result.out, b"")
        self.assertEqual(len(self.ids()), 8)


class Ends(World):
    def test_clients_that_vanish(self):
        """SIGINT, SIGKILL, and SIGSTOP first, in the prompt and while tokens come."""
        want = self.ids()
        path = self.service.root / "long.json"
        chance = random.Random(6)
        for i in range(18):
            path.write_text(json.dumps([i] + (self.tokens * 40)[:900]))  # nothing of it is kept
            process = self.service.start("run", self.model, "--tokens", path, "--ids", "-n", 7200,
                                         "--ignore-eos", "--ctx", 8192)
            time.sleep(chance.uniform(0, 0.4))
            if i % 3 == 0:
                process.send_signal(signal.SIGINT)
            elif i % 3 == 1:
                process.kill()
            else:
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.2)
                self.assertEqual(self.ids("--ctx", 8192), want)
                process.kill()
            process.communicate(timeout=20)
            self.assertIn(process.returncode, (130, -9))
        wait_until(self.no_requests, 5, "no request left")
        self.assertEqual(self.ids("--ctx", 8192), want)

    def test_stop_while_running(self):
        for delay in (0, 0.05, 0.2, 0.5):
            running = [self.start(n=3000) for _ in range(3)]
            wait_until(lambda: self.service.tern("ps").code == 0, 10, "the service runs")
            time.sleep(delay)
            ps = self.service.ps()
            pids = [ps["coordinator"]["pid"]] + [w["pid"] for w in ps["workers"] if w["pid"]]
            self.assertEqual(self.service.tern("stop").code, 0)
            for process in running:
                _, err = process.communicate(timeout=20)
                # 0: had finished; else it says that the service ended, or had not reached it yet
                # and started the next one.
                self.assertIn(process.returncode, (0, 7), err)
                self.assertLessEqual(err.count(b"\n"), 1, err)
            wait_until(lambda: not any(alive(p) for p in pids), 3, "all processes ended")
        self.assertNotIn("Sanitizer", self.service.log())

    def test_coordinator_killed_at_every_phase(self):
        want = self.ids()
        chance = random.Random(7)
        for _ in range(12):
            pids = [self.service.coordinator_pid()]
            pids += children(pids[0], "tern-cpu")
            process = self.start("--threads", chance.choice((1, 2)), n=200)
            time.sleep(chance.uniform(0, 0.3))
            kill(pids[0])
            process.communicate(timeout=30)
            self.assertIn(process.returncode, (0, 7))
            wait_until(lambda: not any(alive(p) for p in pids), 3, "its workers ended")
            self.assertEqual(self.ids(), want)

    def test_worker_killed_while_plans_are_bound(self):
        want = self.ids()
        chance = random.Random(8)
        for i in range(15):
            process = self.start("--threads", 1 + i % 2)
            time.sleep(chance.uniform(0, 0.08))
            for pid in children(self.service.coordinator_pid(), "tern-cpu"):
                kill(pid)
            self.finish(process, want)

    def test_two_services_at_one_moment(self):
        running = [self.service.start("serve") for _ in range(6)]
        running += [self.service.start("tokenize", self.model) for _ in range(6)]
        wait_until(lambda: self.service.tern("ps").code == 0, 20, "a service runs")
        for process in running[6:]:
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 0)
        self.assertEqual(len(self.ids()), 8)
        pid = self.service.coordinator_pid()
        self.service.good("stop")
        wait_until(lambda: not alive(pid), 5, "it ended")
        for process in running[:6]:
            process.communicate(timeout=10)


@unittest.skipUnless(LARGE.exists(), f"{LARGE.name} is missing: scripts/fetch-models --gemma")
class Loads(World):
    def setUp(self):
        super().setUp()
        self.large = self.service.root / "large.gguf"
        shutil.copyfile(LARGE, self.large)
        self.want = self.ids()
        self.pid = self.service.coordinator_pid()

    def load(self):
        """A load in the background, and its loader's process id."""
        process = self.service.start("run", self.large, "--raw", "-n", 2, "--ctx", 64, "hi")
        wait_until(lambda: children(self.pid, "tern-loader") or process.poll() is not None, 10,
                   "a loader")
        return process, children(self.pid, "tern-loader")

    def assert_ended(self, process, codes):
        out, err = process.communicate(timeout=40)
        self.assertIn(process.returncode, codes, err)
        if process.returncode:
            self.assertEqual((out, err.count(b"\n")), (b"", 1), err)
        self.service.tern("unload", self.large)
        self.assertEqual(self.ids(), self.want)

    def test_loader_killed(self):
        chance = random.Random(9)
        hits = 0
        for _ in range(6):
            process, loaders = self.load()
            time.sleep(chance.uniform(0, 0.1))
            for pid in loaders:
                with contextlib.suppress(ProcessLookupError):  # it was quicker
                    kill(pid)
                    hits += 1
            self.assert_ended(process, (0,))
        self.assertGreater(hits, 0)

    def test_loader_killed_each_time(self):
        process, _ = self.load()
        while process.poll() is None:
            for pid in children(self.pid, "tern-loader"):
                with contextlib.suppress(ProcessLookupError):
                    kill(pid)
        # 0: it was quicker than the kills.
        self.assert_ended(process, (0, 1))

    def test_loader_crashes(self):
        process, loaders = self.load()
        for pid in loaders:
            kill(pid, CRASH)
        self.assert_ended(process, (0, 3))

    def test_loader_stopped(self):
        process, loaders = self.load()
        for pid in loaders:
            kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        self.assertEqual(self.ids(), self.want)  # others are served meanwhile
        self.assert_ended(process, (0, 1))
        self.assertLess(time.monotonic() - began, 30)
        self.assertFalse(any(alive(p) for p in loaders))

    def test_worker_killed_while_a_model_loads(self):
        for delay in (0, 0.1, 0.3):
            process, _ = self.load()
            time.sleep(delay)
            for pid in children(self.pid, "tern-cpu"):
                kill(pid)
            self.assert_ended(process, (0,))

    def test_file_truncated_while_it_loads(self):
        for delay in (0, 0.05, 0.15):
            shutil.copyfile(LARGE, self.large)
            process, _ = self.load()
            time.sleep(delay)
            os.truncate(self.large, 1 << 20)
            self.assert_ended(process, (0, 3))
        self.assertNotIn("SIGBUS", self.service.log())

    def test_file_replaced_while_it_loads(self):
        other = self.service.root / "other.gguf"
        for delay in (0, 0.05, 0.15):
            process, _ = self.load()
            time.sleep(delay)
            shutil.copyfile(self.model, other)
            os.replace(other, self.large)
            self.assert_ended(process, (0, 3))
            shutil.copyfile(LARGE, self.large)

    def test_file_overwritten_while_it_loads(self):
        """Garbage in the middle: refused, or garbage text; never a crash."""
        process, _ = self.load()
        with open(self.large, "r+b") as file:
            file.seek(100 << 20)
            file.write(os.urandom(8 << 20))
        self.assert_ended(process, (0, 3))
        self.assertEqual(self.service.worker()["restarts"], 0)

    def test_client_gone_while_it_loads(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            process, _ = self.load()
            process.send_signal(number)
            process.communicate(timeout=10)
            wait_until(self.no_requests, 5, "no request left")
        self.assertEqual(self.ids(), self.want)
        wait_until(lambda: not children(self.pid, "tern-loader"), 5, "no loader left")


class Folders(unittest.TestCase):
    """A runtime or state folder that is not as it should be: exit 7 and one line."""

    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        self.runtime = pathlib.Path(self.service.env["XDG_RUNTIME_DIR"])
        _, self.model, _ = models()[0]

    def refused(self, mentions, **kwargs):
        result = self.service.tern("run", self.model, "--raw", "hi", **kwargs)
        self.assertEqual(result.code, 7, result)
        self.assertEqual(result.out, b"")
        self.assertEqual(result.err.count("\n"), 1, result)
        self.assertIn(mentions, result.err)

    def test_wrong_mode(self):
        (self.runtime / "tern").mkdir(mode=0o755)
        os.chmod(self.runtime / "tern", 0o755)
        self.refused("0700")

    def test_a_file_in_its_place(self):
        (self.runtime / "tern").touch()
        self.refused("runtime folder")

    def test_a_link_in_its_place(self):
        target = self.service.root / "elsewhere"
        target.mkdir(mode=0o700)
        (self.runtime / "tern").symlink_to(target)
        self.refused("runtime folder")

    @unittest.skipUnless(os.geteuid() == 0, "needs to give a folder away")
    def test_of_another_user(self):
        (self.runtime / "tern").mkdir(mode=0o700)
        os.chown(self.runtime / "tern", 65534, 65534)
        self.refused("runtime folder")

    @unittest.skipUnless(os.geteuid() == 0, "needs to give a folder away")
    def test_below_another_users_folder(self):
        """As su leaves it: that user must find nothing there that is root's."""
        os.chown(self.runtime, 65534, 65534)
        self.addCleanup(os.chown, self.runtime, 0, 0)
        self.service.good("tokenize", self.model, stdin="hi")
        self.assertEqual(list(self.runtime.iterdir()), [])
        self.service.good("stop")

    def test_no_runtime_folder(self):
        self.service.env["XDG_RUNTIME_DIR"] = str(self.runtime / "missing")
        self.refused("runtime folder")

    def test_lock_is_a_folder(self):
        (self.runtime / "tern").mkdir(mode=0o700)
        (self.runtime / "tern" / "lock").mkdir()
        self.refused("")

    def test_lock_is_a_link(self):
        (self.runtime / "tern").mkdir(mode=0o700)
        victim = self.service.root / "victim"
        victim.write_text("precious")
        (self.runtime / "tern" / "lock").symlink_to(victim)
        self.refused("")
        self.assertEqual(victim.read_text(), "precious")

    def test_state_folder_is_a_file(self):
        state = pathlib.Path(self.service.env["XDG_STATE_HOME"])
        (state / "tern").touch()  # the log then lies beside the socket
        self.service.good("info", self.model, "--json")
        self.assertTrue((self.runtime / "tern" / "ternd.log").exists())

    def test_socket_is_a_folder(self):
        (self.runtime / "tern").mkdir(mode=0o700)
        (self.runtime / "tern" / "tern.sock").mkdir()
        (self.runtime / "tern" / "tern.sock" / "full").touch()
        self.refused("")

    def test_long_runtime_path(self):
        with tempfile.TemporaryDirectory() as folder:
            deep = pathlib.Path(folder) / ("d" * 90) / ("e" * 90)
            deep.mkdir(parents=True, mode=0o700)
            self.service.env["XDG_RUNTIME_DIR"] = str(deep)
            self.assertEqual(self.service.tern("tokenize", self.model, stdin="hi").code, 0)
            self.service.good("stop")

    def test_folder_removed_while_it_runs(self):
        self.service.good("tokenize", self.model, stdin="hi")
        pid = self.service.coordinator_pid()
        shutil.rmtree(self.runtime / "tern")
        self.service.good("tokenize", self.model, stdin="hi")  # another service
        self.assertNotEqual(self.service.coordinator_pid(), pid)
        wait_until(lambda: not alive(pid), 5, "the old one ended, which nobody could reach")
        self.service.good("tokenize", self.model, stdin="hi")

    def test_files_of_no_size(self):
        """A disk that is full for the service's log and lock."""
        def none():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        result = self.service.tern("run", self.model, "--raw", "hi", preexec_fn=none)
        self.assertIn(result.code, (1, 4, 7), result)
        self.assertEqual(result.err.count("\n"), 1, result)

    def test_few_descriptors(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
        result = self.service.tern("run", self.model, "--raw", "hi", preexec_fn=few)
        self.assertIn(result.code, (0, 1, 4, 7), result)


if __name__ == "__main__":
    unittest.main()
