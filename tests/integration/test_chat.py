"""tern chat: in a pipe, and on a real (pseudo) terminal."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest
import unittest.mock

from harness import ServiceTest, kill, models, wait_until


class Terminal:
    """A command on a pseudo terminal of its own, which is its controlling one."""

    def __init__(self, service, *args, **environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(service.program, [str(service.program), *map(str, args)],
                      {**service.env, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment})
        self.size(24, 200)
        self.text = ""
        self.code = None

    def size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """What comes within that time; False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, seconds=20):
        """Waits for it and takes everything up to its end."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            assert self.read(0.1) and time.monotonic() < deadline, (pattern, self.text)
        before, self.text = self.text[:found.end()], self.text[found.end():]
        return before

    def send(self, text):
        os.write(self.fd, text.encode())

    def say(self, text):
        self.send(text + "\r")

    def prompt(self):
        return self.expect(r"\x1b\[\?2004h> ")  # pasting is on only while a line is edited

    def modes(self):
        return termios.tcgetattr(self.fd)[:6]

    def end(self, seconds=10):
        """The exit code (negative: the signal), once it has ended by itself."""
        deadline = time.monotonic() + seconds
        while self.code is None:
            assert time.monotonic() < deadline, ("still runs", self.text)
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def close(self):
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


class Chat(ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.model, cls.about = next(m for m in models() if m[0] == "llama-wild-q4_0")  # ChatML

    def chat(self, lines, *options, code=0):
        result = self.service.tern("chat", self.model, "-n", 4, *options, stdin=lines)
        self.assertEqual(result.code, code, result)
        return result

    def turns(self, lines, *options, code=0):
        return [json.loads(line)
                for line in self.chat(lines, "--json", *options, code=code).out.splitlines()]

    def saved(self, lines, *options, code=0):
        """The transcript after these lines."""
        file = self.service.root / "saved.json"
        file.unlink(missing_ok=True)
        self.chat(lines + f"\n/save {file}\n", *options, code=code)
        return [(m["role"], m["content"]) for m in json.loads(file.read_text())]

    def idle(self):
        return not any(m.get("requests") for m in self.service.ps()["models"])

    def terminal(self, *options):
        terminal = Terminal(self.service, "chat", self.model, *options)
        self.addCleanup(terminal.close)
        return terminal


class Piped(Chat):
    def test_no_input_ends_at_once(self):
        result = self.chat("")
        self.assertEqual((result.out, result.err), (b"", ""))

    def test_blank_lines_are_no_turns(self):
        self.assertEqual(self.chat("\n\n  \n").out, b"")

    def test_the_last_line_needs_no_newline(self):
        self.assertEqual(len(self.turns("one\ntwo")), 2)

    def test_an_answer_is_what_run_gives(self):
        ran = self.service.good("run", self.model, "-n", 4, "Hello").out
        self.assertEqual(self.chat("Hello\n").out, ran + b"\n")

    def test_each_turn_sends_all_before(self):
        case = next(c for c in self.about["chat_cases"]
                    if [m["role"] for m in c["messages"]] == ["user", "assistant", "user"])
        file = self.service.root / "before.json"
        file.write_text(json.dumps(case["messages"][:2]))
        turn, = self.turns(f"/load {file}\n" + case["messages"][2]["content"])
        self.assertEqual(turn["prompt_tokens"], len(case["tokens"]))

    def test_system_and_reset(self):
        self.assertEqual(self.saved("/system Be brief.\nHi\n/reset")[:], [("system", "Be brief.")])
        self.assertEqual(self.saved("Hi", "--system", "S")[:2], [("system", "S"), ("user", "Hi")])
        self.assertEqual(self.saved("/system", "--system", "S"), [])

    def test_several_lines(self):
        self.assertEqual(self.saved("a \\\nb\\\n\nnext")[::2], [("user", "a \nb\n"), ("user", "next")])
        self.assertEqual(self.saved('"""\n/x\\\n\n"" "\n"""\nnext')[::2],
                         [("user", '/x\\\n\n"" "'), ("user", "next")])
        self.assertEqual(len(self.turns('"""\nnever closed')), 1)

    def test_files_of_other_systems(self):
        lines = '/system Be brief.\nHi\na\\\nb\n"""\nc\n\nd\n"""\n/reset now'
        plain = self.saved(lines, code=2)
        self.assertEqual(plain[0], ("system", "Be brief."))
        self.assertEqual([text for role, text in plain if role == "user"], ["Hi", "a\nb", "c\n\nd"])
        file = self.service.root / "saved.json"
        for change in (lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text,
                       lambda text: "\ufeff" + text.replace("\n", "\r\n")):
            file.unlink()
            self.chat(change(f"{lines}\n/save {file}\n"), code=2)
            self.assertEqual([(m["role"], m["content"]) for m in json.loads(file.read_text())], plain)
        self.assertEqual(self.saved("a\rb\r\r\n\ufeffc\n")[::2], [("user", "a\rb\r"), ("user", "\ufeffc")])

    def test_a_prompts_last_newline_is_no_part_of_it(self):
        tokens = lambda text, *args: self.service.good("run", self.model, "-n", 1, "--json", *args,
                                                       stdin=text).json()["prompt_tokens"]
        self.assertEqual([tokens("Hi\n"), tokens("\ufeffHi\r\n")], 2 * [tokens("Hi")])
        self.assertGreater(tokens("Hi\r\n", "--raw"), tokens("Hi", "--raw"))
        result = self.service.tern("run", self.model, stdin="\r\n")
        self.assertEqual((result.code, "empty" in result.err), (2, True), result)

    def test_slashes(self):
        result = self.chat("/bogus\n", code=2)
        self.assertIn("unknown command '/bogus', nothing was sent", result.err)
        self.assertEqual(result.out, b"")
        self.assertEqual(self.saved("//bogus")[0], ("user", "/bogus"))
        self.chat("/quit now\n/save\n", code=2)
        self.assertEqual(self.chat("/quit\nHi\n").out, b"")
        for command in ("/help", "/reset", "/system", "/save", "/load", "/quit"):
            self.assertIn(command, self.chat("/help\n").err)

    def test_save_and_load(self):
        file = self.service.root / "talk.json"
        first = self.saved(f"One\n/save {file}\nTwo")
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.saved(f"/load {file}\nTwo"), first)
        self.chat(f"/load {file}\n/save {file}\n")  # a transcript is replaced
        other = self.service.root / "other.txt"
        other.write_text("precious")
        self.chat(f"Hi\n/save {other}\n", code=2)
        self.assertEqual(other.read_text(), "precious")
        self.chat(f"/save {self.service.root}/none/file\n", code=2)
        self.assertFalse(list(self.service.root.glob("*.json.*")))

    def test_home_in_paths(self):
        home = self.service.root / "home"
        home.mkdir()
        with unittest.mock.patch.dict(self.service.env, HOME=str(home)):
            self.chat("Hi\n/save ~/talk.json\n")
            self.assertEqual(json.loads((home / "talk.json").read_text())[0]["content"], "Hi")
            self.assertIn("loaded 2 messages", self.chat("/load ~/talk.json\n").err)
            self.assertIn(f"{home}/none", self.chat("/load ~/none\n", code=2).err)
            self.assertIn(" ~other", self.chat("/load ~other\n", code=2).err)

    def test_failures_beside_turns_are_objects(self):
        lines = b"/bogus\n/load /nowhere\n/save\n/reset\n/quit now\n/help\nHi\n\xff\n"
        turns = self.turns(lines, code=2)
        self.assertEqual(["answer" in turn for turn in turns], 4 * [False] + [True, False])
        for turn in turns[:4] + turns[5:]:
            self.assertEqual((turn.keys(), turn["status"]), ({"error", "status"}, 2))
        self.assertIn("/bogus", turns[0]["error"])
        self.assertIn("UTF-8", turns[5]["error"])

    def test_hostile_transcripts(self):
        user, answer = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}
        file = self.service.root / "bad.json"
        texts = [b"", b"{}", b"[", b"[" * 100000, b'[{"role":"user"}]', b"\xff", b"[null]", b"[[]]",
                 b'[{"role":"user","content":"\\u0000"},{"role":"assistant","content":""}]',
                 b'[{"role":"user","role":"user","content":""}]', b"[" + b"1," * 300000 + b"1]"]
        for messages in ([user], [answer, user], [user, user], [user, {**answer, "x": 1}],
                         [user, answer, {"role": "system", "content": "s"}, answer],
                         [{"role": "tool", "content": "t"}, answer], [{"role": 1, "content": "u"}, answer],
                         [{"role": "user", "content": 1}, answer]):
            texts.append(json.dumps(messages).encode())
        for text in texts:
            with self.subTest(text=text[:60]):
                file.write_bytes(text)
                result = self.chat(f"/load {file}\n", code=2)
                self.assertEqual((result.err.count("\n"), result.out), (1, b""), result)
        os.mkfifo(self.service.root / "fifo.json")
        for path in ("/dev/zero", self.service.root / "fifo.json", self.service.root, "/nowhere"):
            with self.subTest(path=path):
                self.chat(f"/load {path}\n", code=2)
        self.assertEqual(self.saved(f"Hi\n/load {file}\n", code=2)[0], ("user", "Hi"))

    def test_input_that_is_no_text(self):
        for line in (b"\xff\n", b"a\0b\n"):
            self.assertIn("UTF-8", self.chat(line, code=2).err)

    def test_a_turn_that_does_not_fit_is_taken_back(self):
        turns = self.turns("Hi\n" + "word " * 200 + "\nHi\n", "--ctx", 120, code=4)
        self.assertEqual(["answer" in turn for turn in turns], [True, False, True])
        self.assertEqual(turns[1]["status"], 4)
        self.assertIn("/reset", self.chat("Hi\n" + "word " * 200, "--ctx", 120, code=4).err)

    def test_no_model(self):
        result = self.service.tern("chat", "/nowhere.gguf", stdin="Hi\n")
        self.assertEqual((result.code, result.out), (3, b""))

    def test_stats(self):
        err = self.chat("Hi\n", "--stats", "--seed", 5).err
        self.assertIn("reused", err)
        self.assertIn("seed: 5", err)

    def test_figures_of_a_turn_are_those_of_run(self):
        for seed, want in ((5, 5), (2**63 - 1, 2**63 - 1), (2**63, str(2**63)), (2**64 - 1, str(2**64 - 1))):
            turn, = self.turns("Hi\n", "--seed", seed)
            ran = self.service.good("run", self.model, "-n", 4, "--json", "--seed", seed, "Hi").json()
            self.assertEqual(turn["seed"], want)
            self.assertEqual(turn.keys() - {"answer"}, ran.keys() - {"text", "ids"})
            for name in ("reason", "prompt_tokens", "tokens", "context", "seed"):
                self.assertEqual(turn[name], ran[name], name)

    def test_reader_that_goes_away(self):
        process = self.service.start("chat", self.model, "--ignore-eos", "--temp", 1,
                                     stdin=subprocess.PIPE)
        process.stdin.write(b"Hi\n")
        process.stdin.flush()
        process.stdout.read(1)
        process.stdout.close()  # the input stays open
        self.assertEqual(process.wait(10), 0)
        # A tiny model may have filled its context before the reader had gone.
        self.assertRegex(process.stderr.read(), rb"\A(tern: the context of \d+ positions is full[^\n]*\n)?\Z")
        process.stdin.close()
        process.stderr.close()
        wait_until(self.idle, 2, "no request left")

    def test_interrupt_while_it_waits(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.service.start("chat", self.model, stdin=subprocess.PIPE)
            process.stdin.write(b"/help\n")
            process.stdin.flush()
            process.stderr.readline()
            process.send_signal(number)
            self.assertEqual(process.wait(10), 130)
            process.communicate()

    def test_the_service_dies_between_turns(self):
        process = self.service.start("chat", self.model, "-n", 4, "--json", stdin=subprocess.PIPE)
        answers = []
        for _ in range(2):
            process.stdin.write(b"/reset\nHi\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline())["answer"])
            kill(self.service.coordinator_pid())
        self.assertIn(b"started again", process.communicate()[1])
        self.assertEqual(process.returncode, 0)
        self.assertEqual(answers[0], answers[1])


class Typed(Chat):
    def test_a_conversation(self):
        terminal = self.terminal("-n", 3)
        terminal.prompt()
        terminal.say("Hi")
        terminal.prompt()
        terminal.send("\x04")
        self.assertEqual(terminal.end(), 0)

    def saves(self, terminal, name="typed.json"):
        """The transcript of what was typed so far."""
        file = self.service.root / name
        file.unlink(missing_ok=True)
        terminal.say(f"/save {file}")
        terminal.expect("saved")
        terminal.prompt()
        return [m["content"] for m in json.loads(file.read_text())]

    def test_editing_and_history(self):
        terminal = self.terminal("-n", 2)
        terminal.prompt()
        terminal.say("wXrldé\x1b[D\x1b[D\x1b[D\x1b[D\x7fo")  # back over four, X becomes o
        terminal.prompt()
        self.assertEqual(self.saves(terminal)[0], "worldé")
        terminal.send("\x04")
        self.assertEqual(terminal.end(), 0)
        history = self.service.root / "state_home" / "tern" / "history"
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)
        again = self.terminal("-n", 2)
        again.prompt()
        again.say("\x1b[A\x1b[A!")  # over /save
        again.prompt()
        self.assertEqual(self.saves(again)[0], "worldé!")

    def test_keys_of_terminals(self):
        terminal = self.terminal("-n", 2)
        terminal.prompt()
        unused = "\x1b[5~\x1b[6~\x1b[2~\x1bOP\x1b[15~\x1b[24;2~\x1b[1;2A\x1b[1;6H\x1b[Z\x1b[I\x1b[[A\x1b[1;2P\x1b[E"
        terminal.say("two words" + unused + "\x1b[1;5Dx\x1b[1;3DX\x1b[HA\x1b[4~Z\x1b[1~\x1b[3~\x1b[FE\x1b[1;5D\x1b[3;5~.")
        terminal.prompt()
        self.assertEqual(self.saves(terminal)[0], "two .")

    def test_dumb_terminals(self):
        for kind in ("dumb", "", "no-such-terminal"):
            terminal = Terminal(self.service, "chat", self.model, "-n", 2, TERM=kind)
            self.addCleanup(terminal.close)
            terminal.expect("> ")
            terminal.say("/help")
            shown = terminal.expect(r"clears the line[\s\S]*> ")
            if kind != "no-such-terminal":
                self.assertNotIn("\x1b", shown)
            terminal.send("\x04")
            self.assertEqual(terminal.end(), 0)

    def test_pasted_lines_are_one_turn(self):
        terminal = self.terminal("-n", 2)
        terminal.prompt()
        terminal.say("see: \x1b[200~one\rtwo\x07\tthree\x1b[201~.")
        terminal.prompt()
        self.assertEqual(self.saves(terminal)[0], "see: one\ntwo\tthree.")

    def test_lines_that_go_on(self):
        terminal = self.terminal("-n", 2)
        terminal.prompt()
        terminal.say("one\\")
        terminal.expect(r"\. ")
        terminal.say("two")
        terminal.prompt()
        self.assertEqual(self.saves(terminal)[0], "one\ntwo")

    LONG = ("--ignore-eos", "-n", 400)

    def stop_in_answer(self, terminal):
        """Asks "Hi" until the service (its pid) could be stopped inside the answer."""
        service = self.service.coordinator_pid()
        for _ in range(50):
            terminal.say("Hi")
            terminal.expect(r"2004l\r?\n?[^\r\n]")
            kill(service, signal.SIGSTOP)
            for _ in range(3):
                terminal.read(0.1)
            if "2004h" not in terminal.text:
                return service
            kill(service, signal.SIGCONT)
            terminal.prompt()
            terminal.say("/reset")
            terminal.prompt()
        self.fail("every answer was quicker")

    def test_interrupt_stops_the_answer_only(self):
        terminal = self.terminal(*self.LONG)
        terminal.prompt()
        service = self.stop_in_answer(terminal)
        terminal.send("\x03")
        terminal.read(0.2)
        kill(service, signal.SIGCONT)
        terminal.prompt()
        self.assertTrue(self.idle())
        asked, kept = self.saves(terminal)
        whole = self.service.good("chat", self.model, *self.LONG, "--json", stdin="Hi").json()["answer"]
        self.assertEqual(asked, "Hi")
        self.assertTrue(kept and len(kept) < len(whole) and whole.startswith(kept), (kept, whole))

    def test_interrupt_clears_the_line_and_ends(self):
        terminal = self.terminal("-n", 2)
        terminal.prompt()
        terminal.send("never sent")
        terminal.expect("never sent")
        terminal.send("\x03")
        terminal.prompt()
        self.assertEqual(self.saves(terminal), [])
        terminal.send("\x03")
        terminal.expect("once more")
        terminal.prompt()
        terminal.send("typed")
        terminal.expect("typed")
        terminal.send("\x03")  # the next one is the first again
        terminal.prompt()
        terminal.send("\x03")
        terminal.expect("once more")
        terminal.prompt()
        terminal.send("\x03")
        self.assertEqual(terminal.end(), 130)

    def test_modes_are_restored(self):
        for how in ("\x04", "\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(how=how):
                outer, inner = pty.openpty()
                cooked = termios.tcgetattr(inner)
                process = subprocess.Popen([self.service.program, "chat", self.model],
                                           env={**self.service.env, "TERM": "xterm"}, stdin=inner,
                                           stdout=inner, stderr=inner, start_new_session=True,
                                           preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
                try:
                    wait_until(lambda: termios.tcgetattr(inner)[3] & termios.ICANON == 0, 10, "editing")
                    if how == "\x03":
                        os.write(outer, b"\x03")
                        said = b""
                        while b"once more" not in said or not said.endswith(b"> "):
                            said += os.read(outer, 65536)
                    if isinstance(how, str):
                        os.write(outer, how.encode())
                    else:
                        process.send_signal(how)
                    self.assertEqual(process.wait(10), 0 if how == "\x04" else 130)
                    self.assertEqual(termios.tcgetattr(inner), cooked)
                    text = os.read(outer, 65536).decode()
                    self.assertGreater(text.rfind("\x1b[?2004l"), text.rfind("\x1b[?2004h"))
                finally:
                    process.kill()
                    process.wait()
                    os.close(outer)
                    os.close(inner)

    def test_stop_and_go_on(self):
        terminal = self.terminal("-n", 2)
        terminal.prompt()
        terminal.send("ab")
        terminal.expect("ab")
        terminal.send("\x1a")
        state = lambda: open(f"/proc/{terminal.pid}/stat").read().rsplit(")", 1)[1].split()[0]
        wait_until(lambda: state() == "T", 5, "stopped")
        self.assertNotEqual(termios.tcgetattr(terminal.fd)[3] & termios.ICANON, 0)
        os.kill(terminal.pid, signal.SIGCONT)
        wait_until(lambda: termios.tcgetattr(terminal.fd)[3] & termios.ICANON == 0, 5, "editing")
        terminal.say("c")
        terminal.prompt()
        self.assertEqual(self.saves(terminal)[0], "abc")

    def test_resize(self):
        terminal = self.terminal("-n", 2)
        terminal.prompt()
        terminal.send("a" * 29)
        terminal.expect("a{29}")
        terminal.size(24, 20)
        terminal.expect("a{18} \ra{11}")  # drawn again, in lines of the new width
        terminal.say("b")
        terminal.size(24, 200)
        terminal.expect(r"> ")
        self.assertEqual(self.saves(terminal)[0], "a" * 29 + "b")

    def test_the_service_dies_in_an_answer(self):
        terminal = self.terminal(*self.LONG)
        terminal.prompt()
        kill(self.stop_in_answer(terminal))
        terminal.expect("started again")
        terminal.prompt()
        again = self.service.good("chat", self.model, *self.LONG, "--json", stdin="Hi")
        self.assertEqual(self.saves(terminal), ["Hi", again.json()["answer"]])


if __name__ == "__main__":
    unittest.main()
