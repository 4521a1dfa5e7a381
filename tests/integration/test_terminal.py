"""Names of files, models and what they say never command a terminal, and JSON is always JSON."""
import contextlib
import json
import os
import pty
import shutil
import subprocess
import unittest

import gguf_files
from harness import ServiceTest, kill, models

ODD = "odd\x1b[2J\x9b2J\x7f\r"


class Screen(ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.model, _ = next(m for m in models() if m[0] == "llama-q4_0")  # has a token for each byte
        cls.odd = cls.service.root / f"{ODD}.gguf"
        shutil.copy(cls.model, cls.odd)

    def shown(self, *args, stdin=b"", env=None):
        """What a terminal gets on standard output; the terminal itself makes \\r\\n of \\n."""
        outer, inner = pty.openpty()
        process = subprocess.Popen([self.service.program, *map(str, args)], env=env or self.service.env,
                                   stdin=subprocess.PIPE, stdout=inner, stderr=subprocess.PIPE)
        os.close(inner)
        process.stdin.write(stdin)
        process.stdin.close()
        text = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while data := os.read(outer, 65536):
                text += data
        os.close(outer)
        err = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(20), err), (0, b""), args)
        return text.replace(b"\r\n", b"\n").decode()

    def quiet(self, text):
        self.assertNotEqual(text, "")
        for char in text:
            self.assertTrue(char in "\n\t" or (char >= " " and not "\x7f" <= char < "\xa0"), repr(text))
        return text

    def test_names_of_models(self):
        self.quiet(self.shown("load", self.odd))
        self.assertIn("odd?[2J", self.quiet(self.shown("ps")))
        self.quiet(self.shown("ps", "--json"))
        self.assertIn(str(self.odd), [m["model"] for m in self.service.ps()["models"]])
        self.quiet(self.shown("info", self.odd))
        self.quiet(self.shown("unload", self.odd))
        cache = self.service.root / "cache_home" / "tern" / "models"
        cache.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.odd, cache)
        self.assertIn("odd?[2J", self.quiet(self.shown("ls")))
        json.loads(self.quiet(self.shown("ls", "--json")))
        self.assertIn(ODD, [entry["name"] for entry in self.service.good("ls", "--json").json()])

    def test_what_a_file_says(self):
        model = gguf_files.base()
        model.keys["general.name"] = (gguf_files.STRING, ODD)
        path = self.service.root / "says.gguf"
        path.write_bytes(gguf_files.encode(model)[0])
        json.loads(self.quiet(self.shown("info", path, "--json", "--metadata")))
        self.quiet(self.shown("info", path, "--metadata"))
        self.assertEqual(self.service.good("info", path, "--json").json()["name"], ODD)

    def test_answers(self):
        ids = self.service.good("tokenize", self.model, "--no-special", stdin=ODD.replace("\x9b", "é")).out
        self.assertIn("odd\u241b[2Jé2J\u2421", self.quiet(self.shown("detokenize", self.model, stdin=ids)))
        self.assertIn(b"\x1b", self.service.good("detokenize", self.model, stdin=ids).out)
        for options in ([], ["--json"]):
            self.quiet(self.shown("run", self.model, "--raw", "-n", 60, "--temp", 5, "--seed", 1, "--ignore-eos",
                                  *options, "Hi"))

    def test_one_newline_ends_what_is_shown(self):
        for options in ([], ["--json"], ["--ids"]):
            text = self.shown("run", self.model, "--raw", "-n", 1, "--bias", "100=1e4", *options, "Hi")
            self.assertEqual(text, text.rstrip("\n") + "\n", options)

    def test_a_message_does_not_run_into_the_answer(self):
        outer, inner = pty.openpty()
        _, slow, _ = next(m for m in models() if m[0] == "gemma3-mix32")
        process = subprocess.Popen([self.service.program, "run", slow, "--raw", "--ignore-eos", "--ctx", "8192",
                                    "--tier", "scalar", "--threads", "1", "Hi"],
                                   env=self.service.env, stdin=subprocess.DEVNULL, stdout=inner, stderr=inner)
        os.close(inner)
        text = b""
        while len(text) < 300:
            text += os.read(outer, 100)
        kill(self.service.coordinator_pid())
        with contextlib.suppress(OSError):
            while data := os.read(outer, 65536):
                text += data
        os.close(outer)
        self.assertEqual(process.wait(10), 7)
        self.assertIn(b"\r\ntern: the service has ended", text[-200:])

    def test_the_log(self):
        path = self.service.root / "state_home" / "tern" / "ternd.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            log.write(b"2026-01-01T00:00:00.000Z info te\xffrnd: name\n"
                      b"2026-01-01T00:00:00\xff000Z info ternd: time\n"
                      b"text \xff\n" b"\x1b[2J \xc2\x9b2J \x7f\n")
        lines = self.service.good("logs", "-n", 4, "--json").out.decode().splitlines()
        self.assertEqual([json.loads(line)["message"] for line in lines],
                         ["name", "time", "text \ufffd", "\x1b[2J \x9b2J \x7f"])
        self.assertEqual(self.service.good("logs", "-n", 1).out, b"\\x1b[2J \\xc2\\x9b2J \\x7f\n")
        self.quiet(self.shown("logs", "-n", 4, "--json"))

    def test_folders_that_are_no_text(self):
        cache = os.fsencode(self.service.root) + b"/\xff\x1b"
        os.makedirs(cache + b"/tern/models")
        env = {**self.service.env, "XDG_CACHE_HOME": os.fsdecode(cache)}
        self.quiet(self.shown("ls", env=env))
        open(cache + b"/tern/models/one.gguf", "wb").close()
        entry, = json.loads(self.shown("ls", "--json", env=env))
        self.assertEqual(entry["name"], "one")
        self.assertIn("\ufffd", entry["path"])
        shutil.copy(self.model, cache + b"/here.gguf")
        for args, more in ((["info", "here.gguf"], {"cwd": cache}), (["run", cache + b"/here.gguf", "hi"], {}),
                           (["import", "here.gguf"], {"cwd": cache}), (["run", "one", "hi"], {"env": env})):
            done = subprocess.run([self.service.program, *args], **{"env": self.service.env, **more}, timeout=20,
                                  stdin=subprocess.DEVNULL, capture_output=True)
            self.assertEqual(done.returncode, 2, (args, done))
            self.assertRegex(done.stderr, rb"^tern: the model's path is not UTF-8: .*\.gguf; rename .*\n$")


if __name__ == "__main__":
    unittest.main()
