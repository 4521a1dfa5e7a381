"""Completion scripts and manual pages: every verb and option is in each of them."""
import re
import shutil
import subprocess
import unittest

from harness import ServiceTest


class Completion(ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        usage = cls.service.good("--help").out.decode()
        cls.verbs = re.findall(r"^  ([a-z]+)  ", usage, re.MULTILINE)
        cls.options = {verb: re.findall(r"^  (--?[a-z0-9-]+)(?: |$)",
                                        cls.service.good(verb, "--help").out.decode(), re.MULTILINE)
                       for verb in cls.verbs}
        cache = cls.service.root / "cache_home" / "tern" / "models"
        cache.mkdir(parents=True)
        (cache / "small-one.gguf").touch()
        (cache / "other.txt").touch()

    def script(self, shell):
        return self.service.good("completion", shell).out.decode()

    def bash(self, *words):
        """What bash offers for the last word."""
        path = self.service.root / "tern.bash"
        path.write_text(self.script("bash"))
        code = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tern; printf "%s\\n" "${COMPREPLY[@]}"'
        env = {**self.service.env, "PATH": f"{self.service.program.parent}:{self.service.env['PATH']}"}
        done = subprocess.run(["bash", "-c", code, path, "tern", *words], env=env, capture_output=True,
                              text=True, timeout=20, cwd=self.service.root)
        self.assertEqual(done.stderr, "")
        return [line for line in done.stdout.split("\n") if line]

    def test_there_are_tables(self):
        self.assertGreater(len(self.verbs), 10)
        self.assertIn("--temp", self.options["run"])
        self.assertIn("-n", self.options["run"])

    def test_bash_knows_verbs_and_options(self):
        self.assertLessEqual(set(self.verbs), set(self.bash("")))
        for verb in self.verbs:
            with self.subTest(verb=verb):
                self.assertEqual(set(self.bash(verb, "-")), {*self.options[verb], "--help"})

    def test_bash_knows_values(self):
        self.assertEqual(self.bash("ru"), ["run"])
        self.assertEqual(self.bash("run", "--kv", ""), ["f16", "f32"])
        self.assertEqual(self.bash("run", "sm"), ["small-one"])
        self.assertEqual(self.bash("completion", "z"), ["zsh"])
        (self.service.root / "mine.gguf").touch()
        (self.service.root / "mine.txt").touch()
        self.assertEqual(self.bash("run", "mi"), ["mine.gguf"])

    def test_bash_takes_names_of_files_as_they_are(self):
        """A name with a command in it is only a name; one with a space is one word."""
        cache = self.service.root / "cache_home" / "tern" / "models"
        odd = ["$(touch ran)", "`touch ran`", "two words", "*", "a;touch ran"]
        for name in odd + ["two\nlines", "\x1b[2J"]:
            (cache / f"{name}.gguf").touch()
            self.addCleanup((cache / f"{name}.gguf").unlink)
        (self.service.root / "$(touch ran) here.gguf").touch()
        found = self.bash("run", "")
        self.assertLessEqual({*odd, "small-one", "$(touch ran) here.gguf"}, set(found))
        self.assertFalse([word for word in found if "lines" in word or "\x1b" in word])
        self.assertFalse((self.service.root / "ran").exists())
        self.assertEqual(self.bash("run", "two w"), ["two words"])

    def test_bash_knows_what_each_verb_takes(self):
        (self.service.root / "import me.gguf").touch()
        self.assertEqual(self.bash("import", "impo"), ["import me.gguf"])
        self.assertEqual(self.bash("rm", "sm"), ["small-one"])
        self.assertEqual(self.bash("rm", "impo"), [])
        self.assertEqual(self.bash("ls", "sm"), [])
        (self.service.root / "ids of mine.json").touch()
        self.assertEqual(self.bash("logits", "--tokens", "ids"), ["ids of mine.json"])

    def test_zsh_and_fish_know_them_too(self):
        for shell, named in (("zsh", "'{}["), ("fish", " -{} ")):
            script = self.script(shell)
            for verb in self.verbs:
                lines = [line for line in script.splitlines() if f" {verb}'" in line] if shell == "fish" else \
                    script.split(f"\n        {verb})\n")[1].split(";;")[0].splitlines()
                for option in self.options[verb]:
                    dashed = option if shell == "zsh" else \
                        ("l " if option.startswith("--") else "s ") + option.lstrip("-")
                    with self.subTest(shell=shell, verb=verb, option=option):
                        self.assertTrue(any(named.format(dashed) in line.replace("'*", "'") for line in lines))

    def syntax(self, shell, *check):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed")
        done = subprocess.run([shell, *check], input=self.script(shell), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_zsh_syntax(self):
        self.syntax("zsh", "-n", "/dev/stdin")

    def test_fish_syntax(self):
        self.syntax("fish", "--no-execute", "/dev/stdin")

    def test_manual_pages(self):
        page = self.service.good("man", "tern").out.decode().replace("\\-", "-")
        for verb in self.verbs:
            section = page.split(f'.SS "tern {verb} ')[1].split("\n.S")[0]
            for option in self.options[verb]:
                with self.subTest(verb=verb, option=option):
                    self.assertIn(f"\\fB{option}\\fR", section)
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        for name in ("tern", "ternd"):
            done = subprocess.run(["groff", "-ww", "-man", "-Tascii", "-z"],
                                  input=self.service.good("man", name).out, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_refusals(self):
        for args in (["completion"], ["completion", "tcsh"], ["completion", "bash", "zsh"], ["man", "x"]):
            self.assertEqual(self.service.tern(*args).code, 2)


if __name__ == "__main__":
    unittest.main()
