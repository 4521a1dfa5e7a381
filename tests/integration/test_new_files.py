"""Files that commands write: whole or not at all, and links stay links."""
import json
import os
import resource
import signal
import unittest

from harness import ServiceTest, models


def little_disk():
    """No file may grow beyond a few bytes: what a full disk does, to this process alone."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))


class NewFiles(ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.model, _ = next(m for m in models() if m[0] == "llama-wild-q4_0")
        cls.folder = cls.service.root / "files"
        cls.folder.mkdir()
        cls.tokens = cls.service.tokens_file([1, 2, 3])
        cls.service.good("info", cls.model)  # a service runs, which may write what it likes

    def tearDown(self):
        for path in self.folder.iterdir():
            path.unlink()

    def writers(self, out):
        """(arguments, standard input) of the commands that write `out`."""
        return ((["plan", self.model, "--json", "-o", out], ""),
                (["logits", self.model, "--tokens", self.tokens, "-o", out], ""),
                (["chat", self.model, "-n", 2], f"Hi\n/save {out}\n"))

    def test_a_full_disk_leaves_the_old_file(self):
        out = self.folder / "out"
        old = json.dumps([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
        for args, stdin in self.writers(out):
            with self.subTest(verb=args[0]):
                out.write_text(old)
                result = self.service.tern(*args, stdin=stdin, preexec_fn=little_disk)
                self.assertEqual(result.code, 1, result)
                self.assertIn(f"cannot write {out}: File too large", result.err)
                self.assertEqual(out.read_text(), old)
                self.assertEqual(list(self.folder.iterdir()), [out])

    def test_what_a_link_points_to_is_replaced(self):
        out, link = self.folder / "out", self.folder / "link"
        link.symlink_to("out")
        for args, stdin in self.writers(link):
            with self.subTest(verb=args[0]):
                out.write_text("[]")
                self.service.good(*args, stdin=stdin)
                self.assertEqual(os.readlink(link), "out")
                self.assertGreater(out.stat().st_size, 20)
                self.assertEqual(set(self.folder.iterdir()), {out, link})

    def test_a_link_to_nothing_gets_its_file(self):
        out, link = self.folder / "out", self.folder / "link"
        for args, _ in self.writers(link)[:2]:
            link.unlink(missing_ok=True)
            out.unlink(missing_ok=True)
            link.symlink_to("out")
            self.service.good(*args)
            self.assertEqual((os.readlink(link), out.stat().st_size > 20), ("out", True))

    def test_others_are_written_to_as_they_are(self):
        for args, _ in self.writers("/dev/full")[:2]:
            result = self.service.tern(*args)
            self.assertEqual(result.code, 1, result)
            self.assertIn("cannot write /dev/full: No space left", result.err)
            self.assertEqual(self.service.tern(*args[:-1], self.folder).code, 2)
        for args, _ in self.writers("/dev/stdout")[:2]:
            self.assertGreater(len(self.service.good(*args).out), 100)

    def test_modes(self):
        modes = []
        for args, stdin in self.writers(self.folder / "out"):
            self.service.good(*args, stdin=stdin, umask=0o027)
            modes.append((self.folder / "out").stat().st_mode & 0o777)
            (self.folder / "out").unlink()
        self.assertEqual(modes, [0o640, 0o640, 0o600])


if __name__ == "__main__":
    unittest.main()
