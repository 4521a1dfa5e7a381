"""The command line: exit codes, messages, streams, and what happens around a request."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from harness import TERN, Service, ServiceTest, alive, kill, models, wait_until


class CommandLine(ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.model, about = next(m for m in models() if m[0] == "llama-q4_0")
        cls.about = about
        cls.tokens = about["cases"][-1]["tokens"]

    def refused(self, code, *args, mentions="", stdin=b""):
        result = self.service.tern(*args, stdin=stdin)
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.out, b"", result)
        self.assertEqual(result.err.count("\n"), 1, result)
        self.assertTrue(result.err.startswith("tern: "), result)
        self.assertIn(mentions, result.err)

    def test_usage_errors(self):
        model = self.model
        for option, value in (("--threads", "4x"), ("--threads", ""), ("--threads", "513"),
                              ("--threads", "-1"), ("--batch", "1025"), ("--tier", "sse9"),
                              ("--precision", "low"), ("--kv", "q9"), ("--temp", "nan"),
                              ("--temp", "-1"), ("-n", "1e3"), ("--seed", "x")):
            with self.subTest(option=option, value=value):
                self.refused(2, "run", model, "hi", option, value, mentions=option.lstrip("-"))
        self.refused(2, "run", model, "hi", "--no-such")
        self.refused(2, "run")
        self.refused(2, "fly")
        self.refused(2, "run", "", "hi")
        self.refused(2, "run", model, "")
        self.refused(2, "run", model, "--raw", "-", stdin=b"\xff\xfe")
        self.refused(2, "tokenize", model, stdin=b"\xc3\x28")
        self.refused(2, "logits", model)

    def test_what_was_meant_is_suggested(self):
        for word, meant in (("lsit", "ls"), ("list", "ls"), ("chta", "chat"), ("delete", "rm"), ("Run", "run")):
            self.refused(2, word, mentions=f"unknown verb '{word}'; did you mean '{meant}'?")
        for word in ("fly", "", "x" * 300):
            self.assertNotIn("did you mean", self.service.tern(word).err)
        for word, meant in (("--sytem", "--system"), ("-temp", "--temp"), ("--stopp=x", "--stop")):
            self.refused(2, "run", self.model, word, "x", mentions=f"did you mean '{meant}'")
        self.refused(2, "run", self.model, "-5 degrees", mentions="goes behind --")
        for word in ("--quite-another", "-q", "--" + "x" * 300):
            self.assertNotIn("did you mean", self.service.tern("run", self.model, word).err)

    def test_help_of_a_verb(self):
        for args in (("help", "run"), ("--help", "run")):
            self.assertEqual(self.service.good(*args).out, self.service.good("run", "--help").out)
        self.refused(2, "help", "rnu", mentions="did you mean 'run'?")

    def test_ids_out_of_range(self):
        tokens = self.service.root / "bad.json"
        for text in ("[1, 100000]", "[-1]", "[1.5]", "{}", "[", '["a"]', "[4294967296]"):
            tokens.write_text(text)
            with self.subTest(text=text):
                self.refused(2, "run", self.model, "--tokens", tokens)
        tokens.write_text("[]")
        self.refused(2, "run", self.model, "--tokens", tokens)
        self.refused(2, "run", self.model, "--tokens", self.service.root / "missing.json")
        self.refused(2, "detokenize", self.model, stdin=b"[1", mentions="standard input")

    def test_paths_that_are_no_models(self):
        root = self.service.root
        (root / "empty.gguf").touch()
        (root / "dangling.gguf").symlink_to(root / "nowhere")
        os.mkfifo(root / "fifo.gguf")
        (root / "folder.gguf").mkdir()
        for path in ("/dev/zero", "/dev/random", root / "empty.gguf", root / "dangling.gguf",
                     root / "fifo.gguf", root / "folder.gguf", "/" + "x" * 300, "no-such-model"):
            with self.subTest(path=str(path)):
                began = time.monotonic()
                self.refused(3, "run", path, "hi")
                self.assertLess(time.monotonic() - began, 2)
        (root / "m-00001-of-00002.gguf").write_bytes(b"GGUF")
        self.refused(5, "run", root / "m-00001-of-00002.gguf", "hi")

    def test_greedy_is_the_default_and_n_counts(self):
        ids = self.service.ids(self.model, self.tokens, 5)
        self.assertEqual(ids, self.about["cases"][-1]["greedy"][:5])
        self.assertEqual(self.service.ids(self.model, self.tokens, 0), [])

    def test_context_overflow(self):
        self.refused(4, "run", self.model, "--tokens", self.service.tokens_file(self.tokens), "--ctx",
                     len(self.tokens) - 1)
        got = self.service.ids(self.model, self.tokens, 1000, "--ctx", len(self.tokens) + 3)
        self.assertIn(len(got), (3, 4))

    def test_absurd_contexts_are_refused_with_numbers(self):
        for context in ("1099511627776", "4294967296", "9000000000000000"):
            self.refused(4, "run", self.model, "hi", "--raw", "--ctx", context, mentions="MiB")

    def test_a_refused_request_unloads_nothing(self):
        self.service.good("load", self.model)
        self.addCleanup(self.service.tern, "unload", self.model)

        def loaded():
            models = self.service.ps()["models"]
            for model in models:
                del model["tokens"]["per_s"]  # of the last seconds: it fades
            return models
        before = loaded()
        self.assertTrue(before[0]["pinned"])
        self.refused(4, "run", self.model, "hi", "--raw", "--ctx", "4294967296")
        self.assertEqual(loaded(), before)

    def test_what_load_said_holds_for_those_who_say_nothing(self):
        self.addCleanup(self.service.tern, "unload", self.model)
        want = self.service.ids(self.model, self.tokens, 8, "--precision", "high")

        def loaded():
            model, = self.service.ps()["models"]
            return model["context"], model["precision"], model["threads"], model["pinned"]
        self.service.good("load", self.model, "--ctx", 256, "--precision", "high", "--threads", 1)
        self.assertEqual(loaded(), (256, "high", 1, True))
        self.assertEqual(self.service.ids(self.model, self.tokens, 8), want)
        self.assertEqual(loaded(), (256, "high", 1, True))
        self.service.good("logits", self.model, "--tokens", self.service.tokens_file(self.tokens), "-o", "/dev/null",
                          "--ctx", 200)
        self.assertEqual(loaded(), (200, "high", 1, True))
        self.service.good("load", self.model, "--ctx", 64)  # says all: what it does not name is the default
        self.assertEqual(loaded()[:2], (64, "fast"))

    def test_contexts_that_are_full_or_longer_than_trained_are_told(self):
        full = self.service.good("run", self.model, "a b c", "--raw", "--ctx", 16, "--ignore-eos")
        self.assertIn("context of 16 positions is full", full.err)
        cut = self.service.good("run", self.model, "a b c", "--raw", "-n", 3, "--ignore-eos")
        self.assertEqual(cut.err, "")
        trained = self.service.good("info", self.model, "--json").json()["context"]
        long = self.service.good("run", self.model, "a b c", "--raw", "-n", 1, "--ctx", 2 * trained)
        self.assertIn(f"trained on {trained} positions", long.err)

    def test_input_beside_a_prompt_is_told(self):
        for data, told in (("some text", True), ("", False)):
            result = self.service.good("run", self.model, "a b c", "--raw", "-n", 3, stdin=data)
            self.assertEqual("standard input was not read" in result.err, told, result)

    def test_seed_is_reproducible(self):
        args = ("run", self.model, "--tokens", self.service.tokens_file(self.tokens), "--ids", "-n",
                30, "--temp", 1.5, "--ignore-eos")
        first = self.service.good(*args, "--seed", 7).out
        self.assertEqual(first, self.service.good(*args, "--seed", 7).out)
        self.assertNotEqual(first, self.service.good(*args, "--seed", 8).out)
        drawn = {self.service.good(*args).out for _ in range(3)}
        self.assertGreater(len(drawn), 1)

    def test_stats_tell_the_seed(self):
        result = self.service.good("run", self.model, "--raw", "-n", 3, "--stats", "--seed", 5, "hi")
        self.assertIn("seed: 5", result.err)
        self.assertIn("tokens/s", result.err)

    def test_text_is_utf8_and_prompt_forms_agree(self):
        args = ("--raw", "-n", "20", "--ignore-eos")
        by_word = self.service.good("run", self.model, *args, "Hello", "world").out
        by_pipe = self.service.good("run", self.model, *args, stdin="Hello world").out
        by_dash = self.service.good("run", self.model, *args, "-", stdin="Hello world").out
        self.assertEqual(by_word, by_pipe)
        self.assertEqual(by_word, by_dash)

    def test_text_that_goes_on_keeps_its_space(self):
        word = self.service.good("tokenize", self.model, "--no-special", stdin="the").json()[0]
        twice = self.service.good("detokenize", self.model, stdin=json.dumps([word, word])).out.decode()
        half = twice[:len(twice) // 2]
        self.assertEqual(twice, f"{half} {half}")
        args = ("-n", 2, "--bias", f"{word}=1000")
        self.assertEqual(self.service.good("run", self.model, "--raw", *args, "My").out.decode(), f" {twice}")
        prompt = self.service.good("tokenize", self.model, stdin="My").json()
        for tokens, text in ((prompt, f" {twice}"), (prompt[:1], twice)):  # BOS alone: a text begins
            self.assertEqual(self.service.good("run", self.model, "--tokens", self.service.tokens_file(tokens),
                                               "--json", *args).json()["text"], text)

    def test_tokenize_round_trip(self):
        for case in self.about["text_cases"]:
            args = ["tokenize", self.model]
            args += [] if case["add_special"] else ["--no-special"]
            args += [] if case["parse_special"] else ["--no-parse-special"]
            with self.subTest(text=case["text"]):
                self.assertEqual(self.service.good(*args, stdin=case["text"]).json(), case["tokens"])
        lines = "".join(json.dumps({k: c[k] for k in ("text", "add_special", "parse_special")}) + "\n"
                        for c in self.about["text_cases"])
        out = self.service.good("tokenize", self.model, "--jsonl", stdin=lines).out.decode()
        self.assertEqual([json.loads(line) for line in out.splitlines()],
                         [c["tokens"] for c in self.about["text_cases"]])
        again = self.service.good("tokenize", self.model, "--jsonl", stdin=lines.replace("\n", "\r\n\r\n\n"))
        self.assertEqual(again.out.decode(), out)
        ids = self.service.good("tokenize", self.model, "--no-special", stdin="Round trip é 😀").out
        self.assertEqual(self.service.good("detokenize", self.model, stdin=ids).out.decode().strip(),
                         "Round trip é 😀")

    def test_chat_cases(self):
        _, model, about = next(m for m in models() if m[0] == "llama-wild-q4_0")  # ChatML
        single = [c for c in about["chat_cases"] if [m["role"] for m in c["messages"]] == ["user"]]
        self.assertTrue(single)
        for case in single:
            got = self.service.good("tokenize", model, "--chat",
                                    stdin=case["messages"][0]["content"]).json()
            self.assertEqual(got, case["tokens"])

    def test_full_disk_is_a_failure(self):
        for args in (["--version"], ["ls"], ["ls", "--json"], ["info", self.model], ["run", self.model, "hi", "--raw", "-n", "3"]):
            with self.subTest(verb=args[0]), open("/dev/full", "wb") as full:
                result = subprocess.run([TERN, *map(str, args)], stdout=full,
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        env=self.service.env, timeout=60)
                self.assertEqual(result.returncode, 1)
                self.assertIn(b"No space left on device", result.stderr)

    def test_closed_standard_files(self):
        """Nothing else takes their numbers."""
        def run(redirections, *args):
            return subprocess.run(["sh", "-c", f'exec "$@" {redirections}', "sh", TERN, *map(str, args)],
                                  env=self.service.env, capture_output=True, input=b"" if "hi" in args else b"hi",
                                  timeout=60)
        self.service.good("info", self.model)
        for args in (["ls"], ["ps"], ["run", self.model, "--raw", "-n", "3", "hi"], ["info", self.model, "--json"]):
            done = run(">&-", *args)
            self.assertEqual((done.returncode, done.stderr),
                             (1, b"tern: cannot write the output: Bad file descriptor\n"), args)
        for args in (["tokenize", self.model], ["run", self.model, "--raw", "-"]):
            done = run("<&-", *args)
            self.assertEqual((done.returncode, done.stderr),
                             (2, b"tern: cannot read standard input: Bad file descriptor\n"), args)
        self.assertEqual(run("2>&-", "run", self.model, "--raw", "-n", "3", "--stats", "hi").returncode, 0)
        self.assertEqual(run("2>&-", "run", self.model, "--temp", "x").returncode, 2)

    def test_logits_into_what_is_no_plain_file(self):
        """A pipe or a link is written, not replaced."""
        tokens = self.service.tokens_file([1, 2, 3])
        want = self.service.logits(self.model, [1, 2, 3])
        pipe, link, target = (self.service.root / name for name in ("pipe", "link", "target"))
        os.mkfifo(pipe)
        link.symlink_to(target)
        process = self.service.start("logits", self.model, "--tokens", tokens, "-o", pipe)
        self.assertEqual(pipe.read_bytes(), want)
        process.communicate(timeout=20)
        self.service.good("logits", self.model, "--tokens", tokens, "-o", link)
        self.assertEqual(target.read_bytes(), want)
        self.assertTrue(pipe.is_fifo() and link.is_symlink())

    def test_reading_input_can_be_interrupted(self):
        process = self.service.start("run", self.model, "-", stdin=subprocess.PIPE)
        reads = pathlib.Path(f"/proc/{process.pid}/wchan")
        wait_until(lambda: "poll" in reads.read_text(), 10, "the client reads its input")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10), 130)
        self.assertEqual(process.communicate()[1], b"tern: interrupted\n")

    def test_tokens_and_words_exclude_each_other(self):
        self.refused(2, "run", self.model, "hi", "--tokens", self.service.tokens_file([1]),
                     mentions="--tokens")

    def test_plan_as_json(self):
        plan = self.service.good("plan", self.model, "--json").json()
        self.assertEqual(plan["model"]["architecture"], "llama")

    def test_info_and_plan(self):
        info = self.service.good("info", self.model, "--json").json()
        self.assertEqual(info["architecture"], "llama")
        table = self.service.good("plan", self.model).out.decode()
        self.assertIn("attention", table)
        self.assertTrue(self.service.good("plan", self.model, "--svg").out.startswith(b"<svg"))
        self.assertIn(b"digraph", self.service.good("plan", self.model, "--dot").out)
        plan = self.service.good("plan", self.model, "--json").json()
        self.assertGreater(len(plan["instructions"]), 10)

    def test_bench_computes_every_prompt(self):
        """None is taken over from an earlier one, of the same run or of the one before."""
        self.service.good("info", self.model)  # a service runs
        before = self.service.ps()["tokens"]["prompt"]
        for _ in range(2):
            lines = self.service.good("bench", self.model, "-p", 200, "-n", 0, "-r", 3, "-o", "json").json()
            self.assertEqual([line["n_prompt"] for line in lines], [200])
        self.assertGreaterEqual(self.service.ps()["tokens"]["prompt"] - before, 2 * 4 * 190)

    def test_interrupt_cancels(self):
        process = self.service.start("run", self.model, "--tokens",
                                     self.service.tokens_file(self.tokens), "-n", 100000,
                                     "--ignore-eos", "--ctx", 0, "--temp", 1)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5)
        self.assertIn(process.returncode, (130, 0))  # 0: the context was full before
        self.assertEqual(self.service.ids(self.model, self.tokens, 5),
                         self.about["cases"][-1]["greedy"][:5])

    def test_reader_that_goes_away(self):
        process = self.service.start("run", self.model, "--tokens",
                                     self.service.tokens_file(self.tokens), "-n", 500, "--ignore-eos")
        process.stdout.close()
        process.wait(timeout=10)
        self.assertEqual(process.stderr.read(), b"")

    def test_killed_client_frees_its_seat(self):
        process = self.service.start("run", self.model, "--tokens",
                                     self.service.tokens_file(self.tokens), "-n", 100000,
                                     "--ignore-eos")
        time.sleep(0.1)
        process.kill()
        process.communicate()
        wait_until(lambda: not any(m.get("requests") for m in self.service.ps()["models"]), 2,
                   "no request left")


class Daemon(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        _, self.model, _ = models()[0]

    def test_logs_without_a_log(self):
        with Service() as fresh:
            result = fresh.tern("logs")
            self.assertEqual((result.code, result.out, result.err.count("\n")), (1, b"", 1), result)
            for folder in ("state_home", "runtime_dir"):
                self.assertIn(f"{fresh.root}/{folder}/tern/ternd.log (No such file", result.err)
            self.assertIn("start a service that writes one", result.err)

    def test_ps_without_a_service(self):
        self.assertEqual(self.service.tern("ps").code, 7)
        self.assertEqual(self.service.tern("stop").code, 0)
        self.assertEqual(self.service.tern("unload", self.model).code, 7)

    def test_it_holds_none_of_the_callers_files(self):
        read, write = os.pipe()
        os.set_inheritable(write, True)
        subprocess.run([TERN, "tokenize", self.model], input=b"hi", env=self.service.env,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(write,), check=True)
        os.close(write)
        os.set_blocking(read, False)  # an error while anybody holds the other end
        self.assertEqual(os.read(read, 1), b"")
        os.close(read)

    def test_it_is_a_session_of_its_own(self):
        self.service.good("tokenize", self.model, stdin="hi")
        pid = self.service.coordinator_pid()
        self.assertEqual(os.getsid(pid), pid)
        self.assertNotEqual(os.getsid(pid), os.getsid(0))

    def test_two_at_once_start_one_service(self):
        running = [self.service.start("tokenize", self.model) for _ in range(4)]
        for process in running:
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 0)

    def test_other_folders_are_another_service(self):
        other = Service()
        self.addCleanup(other.stop)
        for service in (self.service, other):
            service.good("tokenize", self.model, stdin="hi")
        self.assertNotEqual(self.service.coordinator_pid(), other.coordinator_pid())

    def test_stale_socket_is_replaced(self):
        self.service.good("tokenize", self.model, stdin="hi")
        pid = self.service.coordinator_pid()
        kill(pid)
        wait_until(lambda: not alive(pid), 2, "coordinator dead")
        self.service.good("tokenize", self.model, stdin="hi")

    def test_a_request_does_not_wait_for_a_service_that_was_replaced(self):
        self.service.good("tokenize", self.model, stdin="hi")
        pid = self.service.coordinator_pid()
        client = self.service.start("tokenize", self.model, stdin=subprocess.PIPE)
        time.sleep(0.3)  # connected, and reads its input
        kill(pid, signal.SIGSTOP)
        client.stdin.write(b"hi")
        client.stdin.close()
        time.sleep(0.2)  # the request lies in the socket of the service that dies
        kill(pid)
        self.service.good("tokenize", self.model, stdin="hi")
        code = client.wait(timeout=10)
        message = client.stderr.read().decode()
        client.stdout.close()
        client.stderr.close()
        self.assertEqual(code, 7, message)
        self.assertIn("the service has ended", message)

    def test_waiting_for_the_service_can_be_interrupted(self):
        self.service.good("info", self.model)
        pid = self.service.coordinator_pid()
        for args in (["ps"], ["stop"], ["info", self.model]):
            kill(pid, signal.SIGSTOP)
            client = self.service.start(*args)
            status = pathlib.Path(f"/proc/{client.pid}/status")
            wait_until(lambda: "\nThreads:\t1\n" not in status.read_text(), 5, "it connects")
            time.sleep(0.1)
            client.send_signal(signal.SIGINT)
            self.assertEqual((client.wait(5), client.communicate()[1]), (130, b"tern: interrupted\n"), args)
            kill(pid, signal.SIGCONT)
        wait_until(lambda: self.service.tern("ps").code == 0, 5, "the service answers")

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_libraries_threads_take_no_signals(self):
        """From their first moment: what one of them took would not wake the thread that waits."""
        self.service.good("info", self.model)
        trace = self.service.root / "trace"
        env = self.service.env | {"ASAN_OPTIONS": "detect_leaks=0"}  # which a traced process cannot
        subprocess.run(["strace", "-f", "-o", trace, "-e", "trace=rt_sigprocmask", TERN, "ps"], env=env,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=True)
        calls = [line.split(maxsplit=1) for line in trace.read_text().splitlines() if "rt_sigprocmask(" in line]
        others = [call for pid, call in calls if pid != calls[0][0]]
        self.assertTrue(others)
        self.assertFalse([call for call in others if "SIG_SETMASK, []" in call])

    def test_a_stopped_service_is_told(self):
        self.service.good("run", self.model, "--raw", "-n", 1, "hi")
        pid = self.service.coordinator_pid()
        kill(pid, signal.SIGSTOP)
        try:
            result = self.service.tern("stop")
        finally:
            kill(pid, signal.SIGCONT)
        self.assertEqual((result.code, result.err.count("\n")), (7, 1), result)
        self.assertIn(f"kill -9 {pid}", result.err)

    def test_stop_tells_of_a_folder_it_cannot_use(self):
        self.service.env["XDG_RUNTIME_DIR"] = str(self.service.root / "nowhere")
        result = self.service.tern("stop")
        self.assertEqual(result.code, 7, result)
        self.assertIn("XDG_RUNTIME_DIR", result.err)
        self.service.env["XDG_RUNTIME_DIR"] = str(self.service.root / "runtime_dir")

    def test_ps_json(self):
        self.service.good("load", self.model)
        ps = self.service.ps()
        self.assertTrue(alive(ps["coordinator"]["pid"]))
        worker = next(w for w in ps["workers"] if w["role"] == "cpu")
        self.assertLessEqual({"role", "pid", "state", "restarts"}, set(worker))
        self.assertEqual(len(ps["models"]), 1)
        self.service.good("unload", self.model)
        self.assertEqual(self.service.ps()["models"], [])

    def test_not_enough_memory_names_what_is_missing(self):
        service = Service(TERN_RESERVE_MIB=10**7)
        self.addCleanup(service.stop)
        result = service.tern("run", self.model, "--raw", "hi")
        self.assertEqual(result.code, 4, result)
        self.assertIn("MiB", result.err)


if __name__ == "__main__":
    unittest.main()
