"""Started by something careless: standard files that are closed or do not wait, limits of the process, a
mask that takes the owner's own rights. Each is told in a line, or does not matter."""
import fcntl
import os
import resource
import subprocess
import time
import unittest

import gguf_files as g
from harness import SANITIZED, TERN, Service

F_SETPIPE_SZ = 1031


def under(limit, most):
    return lambda: resource.setrlimit(limit, (most, most))


class Surroundings(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        self.model = self.service.root / "model.gguf"
        self.model.write_bytes(g.encode(g.base())[0])

    def in_shell(self, redirection, *args):
        """Exit code and standard error, which is a file: a pipe could hide one that is closed."""
        told = self.service.root / "told"
        script = f'exec "$0" "$@" {redirection}'
        with told.open("wb") as err:
            done = subprocess.run(["sh", "-c", script, str(TERN), *map(str, args)], env=self.service.env, stderr=err,
                                  stdout=subprocess.PIPE, timeout=20, check=False)
        return done.returncode, told.read_text()

    def test_closed_files(self):
        """What libraries open under their numbers is neither read nor written."""
        raw = ("run", self.model, "--raw", "-n", 4, "--ignore-eos")
        self.service.good(*raw, "hi")
        for verb in (raw, ("chat", self.model), ("tokenize", self.model)):
            with self.subTest(verb[0]):
                self.assertEqual(self.in_shell("<&-", *verb),
                                 (2, "tern: cannot read standard input: Bad file descriptor\n"))
        self.assertEqual(self.in_shell(">&-", *raw, "hi"), (1, "tern: cannot write the output: Bad file descriptor\n"))
        self.assertEqual(self.in_shell("<&- >&- 2>&-", *raw, "hi")[0], 1)
        self.assertEqual(self.in_shell("<&- 2>&-", *raw, "hi"), (0, ""))

    def test_files_that_do_not_wait(self):
        """A slow writer and a slow reader lose nothing; the caller's own flags stay."""
        text = b"some words " * 20000
        want = self.service.good("tokenize", self.model, stdin=text).out
        (mine, standard_in), (standard_out, theirs) = os.pipe(), os.pipe()
        for fd in (mine, theirs):
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
        fcntl.fcntl(theirs, F_SETPIPE_SZ, 4096)
        process = subprocess.Popen([TERN, "tokenize", self.model], env=self.service.env, stdin=mine, stdout=theirs,
                                   stderr=subprocess.PIPE)
        time.sleep(0.3)  # nothing to read yet
        for fd in (mine, theirs):
            self.assertTrue(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)
            os.close(fd)
        with open(standard_in, "wb") as pipe:
            pipe.write(text)
        time.sleep(0.3)  # the other pipe is full
        with open(standard_out, "rb") as pipe:
            self.assertEqual(pipe.read(), want)
        self.assertEqual((process.communicate(timeout=20)[1], process.returncode), (b"", 0))

    def refused(self, code, says, *args, limit):
        result = self.service.tern(*args, preexec_fn=limit)
        self.assertEqual((result.code, result.out, result.err.count("\n")), (code, b"", 1), result)
        self.assertIn(says, result.err)
        self.assertEqual(self.service.tern("ps").code, 7)  # nothing was left running
        return result

    def test_few_open_files(self):
        for files in (20, 32):
            self.refused(7, f"only {files} files may be open (ulimit -n)", "run", self.model, "--raw", "hi",
                         limit=under(resource.RLIMIT_NOFILE, files))

    @unittest.skipIf(SANITIZED, "the sanitizer's memory does not fit the limit")
    def test_no_room_for_threads(self):
        """libzmq would abort."""
        for verb in (("run", self.model, "--raw", "hi"), ("ps",)):
            self.refused(1, "cannot start a thread", *verb, limit=under(resource.RLIMIT_DATA, 10 << 20))

    def test_small_files_only(self):
        result = self.refused(7, "ternd.log", "run", self.model, "--raw", "hi", limit=under(resource.RLIMIT_FSIZE, 1 << 20))
        self.assertIn("File too large", self.service.log(), result)
        self.service.good("load", self.model)
        out = self.service.root / "logits.f32"
        result = self.service.tern("logits", self.model, "--tokens", self.service.tokens_file([5] * 60), "-o", out,
                                   preexec_fn=under(resource.RLIMIT_FSIZE, 4096))
        self.assertEqual((result.code, result.err.count("\n")), (1, 1), result)
        self.assertIn("File too large", result.err)

    def test_a_mask_without_the_owner(self):
        self.service.good("run", self.model, "--raw", "-n", 1, "hi", preexec_fn=lambda: os.umask(0o777))
        folder = self.service.root / "runtime_dir" / "tern"
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        self.assertEqual((folder / "lock").stat().st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
