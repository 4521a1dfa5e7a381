"""Hostile files through the real service: the documented exit code, one line that names the
problem, nothing on stdout, soon; and the service and its other models go on as if nothing was."""
import os
import resource
import subprocess
import time
import unittest

import bad_files
import bad_models
import gguf_files
from harness import SANITIZED, TERN, Service, wait_until

SECONDS = 2


class BadFiles(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        self.good = self.service.root / "good.gguf"
        self.good.write_bytes(gguf_files.encode(gguf_files.base())[0])
        self.answer = self.good_answer()
        self.pid = self.service.coordinator_pid()

    def good_answer(self):
        return self.service.good("run", self.good, "--raw", "-n", 4, "--ignore-eos", "hi").out

    def timed(self, *args, stdin=""):
        """The result, within the limit; once more if the machine was just busy."""
        for _ in range(2):
            began = time.monotonic()
            result = self.service.tern(*args, stdin=stdin)
            if time.monotonic() - began < SECONDS:
                return result
        return self.fail(f"took longer than {SECONDS} s: {args}")

    def assert_clean(self, result, codes, text=""):
        self.assertIn(result.code, codes, result)
        if result.code == 0:
            return
        # Weights that lead to no number are met while tokens are already streaming.
        if "not finite" not in result.err:
            self.assertEqual(result.out, b"", result)
        self.assertEqual(result.err.count("\n"), 1, result)
        self.assertTrue(result.err.startswith("tern: "), result)
        self.assertIn(text, result.err, result)

    def assert_helps(self, result, name):
        """A refusal of a file names it and ends with something to do."""
        if result.code in (3, 5):
            self.assertIn(name, result.err)
            self.assertRegex(result.err, r"again|anew|another|get the |merge them|newer Tern|--kv f32|--tokens")

    def check(self, bad):
        path = self.service.root / (bad.name + ".gguf")
        path.write_bytes(bad.data)
        ran = self.timed("run", path, "--raw", "-n", 2, "hi")
        self.assert_clean(ran, bad.status, bad.text)
        self.assert_helps(ran, bad.name)
        # Without the weights only the parser, or the tokenizer, may find something.
        by_parser = bad.part == "file"
        codes = bad.status if by_parser else (0, 3, 4, 5)
        for result in (self.timed("info", path), self.timed("tokenize", path, stdin="hi")):
            self.assert_clean(result, codes, bad.text if by_parser else "")
            self.assert_helps(result, bad.name)
        path.unlink()
        self.assertEqual(self.good_answer(), self.answer)

    def check_all(self, files):
        for bad in files:
            with self.subTest(bad.name):
                self.check(bad)
        self.assertEqual(self.service.coordinator_pid(), self.pid)
        self.assertEqual(self.service.worker()["restarts"], 0)
        log = self.service.log()
        for word in ("crashed", "killed by", "SIG", "AddressSanitizer", "runtime error"):
            self.assertNotIn(word, log)

    def test_what_the_parser_refuses(self):
        self.check_all(b for b in bad_files.files() if b.part == "file")

    def test_what_only_weights_or_metadata_show(self):
        self.check_all(b for b in bad_files.files() if b.part != "file")

    def test_flipped_bytes(self):
        self.check_all(bad_files.flips())

    def test_more_models_than_a_worker_holds(self):
        """Idle ones make way, as they do when memory is short."""
        for i in range(70):
            path = self.service.root / f"copy-{i}.gguf"
            path.write_bytes(self.good.read_bytes())
            result = self.service.good("run", path, "--raw", "-n", 4, "--ignore-eos", "hi")
            self.assertEqual(result.out, self.answer)
        self.assertLessEqual(len(self.service.ps()["models"]), 64)
        # All plans must be given to the next worker again.
        restarts = self.service.worker()["restarts"]
        os.kill(self.service.worker()["pid"], 9)
        wait_until(lambda: self.service.worker()["restarts"] > restarts, 10, "worker restarted")
        for i in (69, 30):
            path = self.service.root / f"copy-{i}.gguf"
            result = self.service.good("run", path, "--raw", "-n", 4, "--ignore-eos", "hi")
            self.assertEqual(result.out, self.answer)

    def peak(self):
        """Most memory so far of the coordinator, in bytes."""
        kib = 0
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    kib = int(line.split()[1])
        self.assertGreater(kib, 0)
        return kib << 10

    def test_memory_follows_the_file_not_its_header(self):
        """A coordinator that allocated what a header claims would be seen here."""
        before = self.peak()
        largest = 0
        for bad in [*bad_files.counts(), *bad_files.sizes(), *bad_files.nesting(), *bad_models.hyperparameters()]:
            path = self.service.root / "claims.gguf"
            path.write_bytes(bad.data)
            largest = max(largest, len(bad.data))
            self.service.tern("info", path)
            self.service.tern("run", path, "--tokens", self.service.tokens_file([1, 2]), "--ids", "-n", 1)
        if not SANITIZED:  # its shadow memory counts as memory
            self.assertLess(self.peak() - before, largest + (64 << 20))

    def test_odd_special_ids_are_told(self):
        """B15: taken as absent, and the user hears of it, each time."""
        path = self.service.root / "odd.gguf"
        for key in ("bos", "eos", "unknown", "eot"):
            for value in (270, 2**31, 2**32 - 1):
                path.write_bytes(gguf_files.encode(gguf_files.with_key(
                    f"tokenizer.ggml.{key}_token_id", gguf_files.U32, value))[0])
                for result in (self.service.good("run", path, "--raw", "-n", 1, "hi"),
                               self.service.good("tokenize", path, stdin="hi")):
                    self.assertIn(f"tokenizer.ggml.{key}_token_id is {value}", result.err)
                    self.assertEqual(result.err.count("\n"), 1)

    def test_memory_of_the_loader_too(self):
        """Under a limit of 64 MiB of data, one that asked for what a header claims would fail otherwise."""
        if SANITIZED:
            self.skipTest("the sanitizer's shadow memory does not fit the limit")
        service = Service(faulty=True)  # for the folder of programs of its own
        self.addCleanup(service.stop)
        loader = service.root / "programs" / "tern-loader"
        loader.rename(loader.with_name("real-loader"))
        loader.write_text(f"#!/bin/sh\nulimit -d 65536 && exec {loader.with_name('real-loader')} \"$@\"\n")
        loader.chmod(0o755)
        self.assertEqual(service.good("run", self.good, "--raw", "-n", 4, "--ignore-eos", "hi").out, self.answer)
        for bad in [*bad_files.counts(), *bad_files.sizes(), *bad_files.nesting()]:
            with self.subTest(bad.name):
                path = service.root / "claims.gguf"
                path.write_bytes(bad.data)
                self.assert_clean(service.tern("info", path), bad.status, bad.text)
        self.assertNotIn("crashed", service.log())

    def test_what_the_sandbox_ends_is_no_bad_file(self):
        """A library that the environment loads into every process, say."""
        service = Service(faulty=True)
        self.addCleanup(service.stop)
        loader = service.root / "programs" / "tern-loader"
        loader.write_text("#!/bin/sh\nkill -s SYS $$\n")
        result = service.tern("info", self.good)
        self.assert_clean(result, (1,), "sandbox")
        self.assertIn("LD_PRELOAD", result.err)

    def test_without_a_tokenizer_ids_still_work(self):
        """The model is whole; only text cannot be had, and that is said."""
        base = gguf_files.base()
        wanted = self.service.ids(self.good, [5, 6, 7], 6)
        rows = self.service.logits(self.good, [5, 6, 7])
        for label, keys in {
                "unknown model": {"tokenizer.ggml.model": (gguf_files.STRING, "no-such")},
                "unknown pre": {"tokenizer.ggml.model": (gguf_files.STRING, "gpt2"),
                                "tokenizer.ggml.pre": (gguf_files.STRING, "no-such")},
                "none": {"tokenizer.ggml.model": None}}.items():
            with self.subTest(label):
                model = gguf_files.Model({**base.keys, **keys}, base.tensors)
                model.keys = {k: v for k, v in model.keys.items() if v is not None}
                path = self.service.root / "no-text.gguf"
                path.write_bytes(gguf_files.encode(model)[0])
                self.assertEqual(self.service.ids(path, [5, 6, 7], 6), wanted)
                self.assertEqual(self.service.logits(path, [5, 6, 7]), rows)
                ids = self.service.tokens_file([5, 6, 7])
                self.assert_clean(self.service.tern("run", path, "--tokens", ids), (5,), "--ids")
                self.assert_clean(self.service.tern("run", path, "--raw", "hi"), (5,), "--tokens")
                self.assert_clean(self.service.tern("run", path, "hi"), (5,), "no-text.gguf")
                self.assert_clean(self.service.tern("tokenize", path, stdin="hi"), (5,), "token")
        self.assertEqual(self.good_answer(), self.answer)

    def test_little_stack(self):
        """B10, B25: nothing in the service recurses with the input."""
        def less():
            resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, 256 << 10))
        service = Service()
        self.addCleanup(service.stop)
        service.tern("info", self.good, preexec_fn=less)  # starts the service, which inherits it
        for bad in list(bad_files.nesting()):
            path = self.service.root / "deep.gguf"
            path.write_bytes(bad.data)
            self.assert_clean(service.tern("info", path), (3,), bad.text)
        for text in ("Z" * 131072, " " * 131072, "\n" * 100000, "us" * 200000, "你" * 100000):
            ids = service.good("tokenize", self.good, "--no-special", stdin=text).out
            back = service.good("detokenize", self.good, stdin=ids).out.decode()
            self.assertEqual(back.strip(" \n"), text.strip(" \n"))
        self.assertEqual(service.good("run", self.good, "--raw", "-n", 4, "--ignore-eos",
                                      "hi").out, self.answer)

    def test_paths(self):
        """B75; what is no regular file, and what cannot be read."""
        root = self.service.root
        (root / "loop.gguf").symlink_to(root / "loop.gguf")
        (root / "socket-folder").mkdir()
        os.mkfifo(root / "fifo")
        (root / "secret.gguf").write_bytes(self.good.read_bytes())
        (root / "secret.gguf").chmod(0)
        names = ["/dev/zero", "/dev/random", "/dev/null", "/dev/stdin", "/proc/self/mem",
                 "/proc/self/maps", "/proc/1/environ", root / "loop.gguf", root / "fifo", root,
                 "/" + "x" * 300, "/" + "y/" * 3000, root / "good.gguf" / "below",
                 root / "line\nbreak.gguf", root / "\x1b[31mred.gguf"]
        for name in names:
            with self.subTest(str(name)[:80]):
                self.assert_clean(self.timed("run", name, "--raw", "hi"), (3, 2))
        if os.geteuid() != 0:  # root may read it
            self.assert_clean(self.timed("run", root / "secret.gguf", "--raw", "hi"), (3,), "secret.gguf")
        self.assertEqual(self.good_answer(), self.answer)

    def test_names_that_are_no_text(self):
        bad = os.fsencode(self.service.root) + b"/\xff\xfe.gguf"
        with open(bad, "wb") as file:
            file.write(self.good.read_bytes())
        done = subprocess.run([os.fsencode(TERN), b"run", bad, b"--raw", b"hi"],
                              env=self.service.env, capture_output=True, timeout=20, check=False)
        self.assertIn(done.returncode, (0, 2, 3))
        self.assertEqual(self.good_answer(), self.answer)

    def test_truncated_and_replaced_after_loading(self):
        path = self.service.root / "moving.gguf"
        path.write_bytes(self.good.read_bytes())
        args = ("run", path, "--raw", "-n", 4, "--ignore-eos", "hi")
        self.assertEqual(self.service.good(*args).out, self.answer)
        os.truncate(path, 0)
        self.assert_clean(self.service.tern(*args), (3,), "empty")
        path.write_bytes(self.good.read_bytes()[:-1])
        self.assert_clean(self.service.tern(*args), (3,), "output.weight")
        path.write_bytes(self.good.read_bytes())
        self.assertEqual(self.service.good(*args).out, self.answer)
        path.unlink()
        self.assert_clean(self.service.tern(*args), (3,))
        self.assertEqual(self.good_answer(), self.answer)


if __name__ == "__main__":
    unittest.main()
