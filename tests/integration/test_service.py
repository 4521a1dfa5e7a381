"""The service under clients that want too much: long texts, many connections, replies that nobody
reads, loads that are broken off. Others notice nothing."""
import array
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import gguf_files as g
from harness import TERN, Service, alive, models, prompts, wait_until
from raw_client import RawClient, pack

MIB = 1 << 20


def resident(pid):
    """MiB of a process's own memory."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def peak(pid):
    """MiB that a process had at most, with what it maps."""
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def children(pid):
    """How many processes a process has that live."""
    count = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            count += int(fields[1]) == pid and fields[0] != "Z"
    return count


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_tokenizer():
    """A golden model that knows texts and chats."""
    _, path, about = next(m for m in models() if m[0] == "llama-wild-q4_0")
    return path, prompts(about)[1]


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path, tokens = with_tokenizer()
        cls.model, cls.packed = str(path), array.array("I", tokens[:8]).tobytes()
        cls.service = Service()
        cls.addClassCleanup(cls.service.stop)
        cls.service.good("load", path)

    def gaps(self, streaming, seconds, number):
        """The longest silence in a stream of replies, in seconds."""
        longest, before, end = 0, time.monotonic(), time.monotonic() + seconds
        while time.monotonic() < end:
            reply = streaming.receive(2000)
            self.assertIsNotNone(reply)
            now = time.monotonic()
            longest, before = max(longest, now - before), now
            if reply["k"] == "done":
                streaming.ask("generate", number + 1, model=self.model, tokens=self.packed, n=200,
                              ignore_eos=True)
                number += 1
            elif reply["k"] != "error":
                streaming.ask("ack", reply["request"], count=1)
        return longest

    def test_long_texts_beside_a_stream(self):
        text = b"".join(b"%d words, and others. " % i for i in range(400000))[:8 * MIB]
        with RawClient(self.service) as streaming, RawClient(self.service) as other:
            streaming.ask("generate", 1, model=self.model, tokens=self.packed, n=200,
                          ignore_eos=True)
            self.assertEqual(streaming.receive()["request"], 1)
            for number in range(1, 4):
                other.ask("tokenize", number, model=self.model, bytes=text)
            self.assertLess(self.gaps(streaming, 1.5, 1), 0.25)
            for number in range(1, 4):
                self.assertEqual(other.last(number)["k"], "done")

    def test_short_texts_do_not_wait(self):
        with RawClient(self.service) as one, RawClient(self.service) as two:
            for number in range(1, 5):
                one.ask("tokenize", number, model=self.model, bytes=b"several words " * (MIB // 2))
            began = time.monotonic()
            two.ask("tokenize", 1, model=self.model, bytes=b"short")
            self.assertEqual(two.last(1)["k"], "done")
            self.assertLess(time.monotonic() - began, 0.5)
            for number in range(1, 5):
                one.ask("cancel", number)
            for number in range(1, 5):
                self.assertIn(one.last(number)["k"], ("done", "error"))

    def test_cancelled_and_gone_while_a_text_is_read(self):
        text = b"several words " * (MIB // 2)
        with RawClient(self.service) as client:
            for number in range(1, 6):
                client.ask("tokenize", number, model=self.model, bytes=text)
                client.ask("cancel", number)
            self.assertEqual([client.last(n)["reason"] for n in range(1, 6)], ["cancelled"] * 5)
            client.ask("tokenize", 9, model=self.model, bytes=text)
        with RawClient(self.service) as client:
            client.ask("unload", 1, model=self.model)
            client.last(1)
            client.ask("tokenize", 2, model=self.model, bytes=b"a word")
            self.assertEqual(client.last(2)["k"], "done")

    def cost(self, others, cancel):
        """The service's CPU time until a text is read that came after `others`, of another client."""
        text = b"".join(b"%d words. " % i for i in range(500000))
        pid = self.service.coordinator_pid()
        began = cpu_seconds(pid)
        with RawClient(self.service) as one, RawClient(self.service) as two:
            for number in range(others):
                one.ask("tokenize", number, model=self.model, bytes=text)
            one.ask("ping", 99)
            one.last(99)
            for number in range(others if cancel else 0):
                one.ask("cancel", number)
            two.ask("tokenize", 1, model=self.model, bytes=text)
            self.assertEqual(two.last(1)["k"], "done")
            taken = cpu_seconds(pid) - began
            for number in range(others):
                one.ask("cancel", number)
        return taken

    def test_what_nobody_wants_is_not_read(self):
        self.assertLess(self.cost(20, True), 6 * self.cost(0, True) + 0.5)

    def test_clients_take_turns(self):
        self.assertLess(self.cost(20, False), 6 * self.cost(0, False) + 0.5)

    def test_there_and_back(self):
        text = b"".join(b"%d words. " % i for i in range(200000))
        with RawClient(self.service) as client:
            client.ask("tokenize", 1, model=self.model, bytes=text, no_special=True)
            ids = self.pieces(client, 1, "tokens")
            client.ask("detokenize", 2, model=self.model, tokens=ids)
            self.assertEqual(self.pieces(client, 2, "bytes").strip(), text.strip())

    def pieces(self, client, request, field):
        found = b""
        while True:
            reply = client.receive(20000)
            self.assertIsNotNone(reply)
            if reply["k"] == "done":
                return found
            self.assertNotEqual(reply["k"], "error", reply)
            found += reply.get(field, b"")
            client.ask("ack", request, count=1)


class Conversations(unittest.TestCase):
    def test_refusals_name_what_is_wrong(self):
        path, _ = with_tokenizer()
        good = {"role": "user", "content": "hi"}
        cases = [("{", "no JSON"), ("{}", "no JSON list"), ("[]", "empty"),
                 ("[1]", "message 1 is no JSON object"), (json.dumps([good, []]), "message 2"),
                 (json.dumps([{"role": "user"}]), "no content"),
                 (json.dumps([{"content": "x"}]), "no role"),
                 (json.dumps([{**good, "content": None}]), "content of message 1 is no string"),
                 (json.dumps([{**good, "role": 7}]), "role of message 1 is no string"),
                 (json.dumps([{**good, "role": ""}]), "role"),
                 (json.dumps([{**good, "role": "x" * 65}]), "role"),
                 (json.dumps([{**good, "name": "x"}]), "unknown key 'name'"),
                 ('[{"role":"user","role":"user","content":"x"}]', "no JSON"),
                 ('[{"role":"user","content":"a\\u0000b"}]', "no JSON"),
                 (json.dumps([good] * 4097), "4096"), ("[" * 100000, "no JSON"),
                 (json.dumps([{**good, "content": "\"," * 9000}, 1]), "message 2")]
        with Service() as service, RawClient(service) as client:
            service.good("load", path)
            for text, mentions in cases:
                with self.subTest(text=text[:60]):
                    client.ask("generate", 1, model=str(path), messages=text, n=1)
                    reply = client.last()
                    self.assertEqual((reply["k"], reply.get("status")), ("error", 2), reply)
                    self.assertIn(mentions, reply["text"])

    def test_memory_follows_the_text(self):
        path, _ = with_tokenizer()
        with Service() as service, RawClient(service) as client:
            service.good("load", path)
            pid = service.coordinator_pid()
            before = peak(pid)
            client.ask("generate", 1, model=str(path), messages="[" + "0," * 10000000 + "0]")
            reply = client.last()
            self.assertEqual((reply["k"], reply.get("status")), ("error", 2), reply)
            self.assertIn("4096", reply["text"])
            self.assertLess(peak(pid), before + 200)

    def test_nul_is_refused_not_cut(self):
        path, _ = with_tokenizer()
        with Service() as service, RawClient(service) as client:
            service.good("info", path)
            client.ask("tokenize", 1, model=str(path), bytes=b"one\0two", chat=True)
            reply = client.last()
            self.assertEqual((reply["k"], reply.get("status")), ("error", 2), reply)
            self.assertIn("NUL", reply["text"])
            client.ask("tokenize", 2, model=str(path), bytes=b"one\0two", no_special=True)
            self.assertEqual(client.last(2)["k"], "done")


class Early(unittest.TestCase):
    def setUp(self):
        path, _ = with_tokenizer()
        self.model = str(path)
        self.service = Service()
        self.addCleanup(self.service.stop)
        self.service.good("info", path)

    def test_nothing_is_loaded_for_what_makes_no_sense(self):
        with RawClient(self.service) as client:
            for fields, mentions in (({"temp": -1.0}, "temperature"), ({"top_p": 2.0}, "top-p"),
                                     ({"min_p": float("nan")}, "min-p"), ({"stop": b"x"}, "stop text"),
                                     ({"stop": b"\0"}, "stop text 1"), ({"bias": b"1234567"}, "bias"),
                                     ({"bias": struct.pack("<If", 1, 1e9)}, "bias"),
                                     ({"repeat_penalty": 0.0}, "penalty"), ({"prompt": None}, "neither")):
                with self.subTest(fields=str(fields)):
                    fields = {k: v for k, v in {"prompt": "hi", **fields}.items() if v is not None}
                    client.ask("generate", 1, model=self.model, **fields)
                    reply = client.last()
                    self.assertEqual((reply["k"], reply.get("status")), ("error", 2), reply)
                    self.assertIn(mentions, reply["text"])
            client.ask("logits", 2, model=self.model)
            self.assertEqual(client.last(2).get("status"), 2)
        self.assertEqual(self.service.ps()["models"], [])

    def test_long_texts_are_not_read_for_what_the_model_cannot_do(self):
        self.service.good("load", self.model)
        with RawClient(self.service) as client:
            client.ask("generate", 1, model=self.model, prompt="several words " * (MIB // 2), raw=True,
                       bias=struct.pack("<If", 1 << 30, 1))
            reply = client.receive(20000)
            self.assertEqual((reply["k"], reply.get("status")), ("error", 2), reply)
            self.assertIn("vocabulary", reply["text"])


    def test_a_prompt_is_read_while_its_model_waits(self):
        self.service.good("load", self.model)
        with RawClient(self.service) as first, RawClient(self.service) as second:
            first.ask("generate", 1, model=self.model, prompt="hi", raw=True, ignore_eos=True, temp=1.0)
            wait_until(lambda: self.service.ps()["paused"] == 1, 10, "it is paused")
            second.ask("generate", 1, model=self.model, messages="{", ctx=256)
            reply = second.last()
            self.assertEqual((reply["k"], reply.get("status")), ("error", 2), reply)
            self.assertIn("no JSON", reply["text"])
            second.ask("generate", 1, model=self.model, prompt="0#1@" * MIB, raw=True, ctx=256)
            reply = second.last()
            self.assertEqual((reply["k"], reply.get("status")), ("error", 4), reply)
            self.assertIn("no context", reply["text"])
            self.assertEqual(self.service.ps()["models"][0]["requests"], 1)
            second.ask("generate", 2, model=self.model, prompt="hi", raw=True, ctx=256, n=3)
            self.assertIn("other settings", second.receive().get("text"))
            first.ask("cancel", 1)
            self.assertEqual(second.last(2)["k"], "done")


class Paused(unittest.TestCase):
    def test_ps_tells_who_does_not_read(self):
        path, tokens = with_tokenizer()
        with Service() as service, RawClient(service) as client:
            service.good("load", path)
            client.ask("generate", 1, model=str(path), tokens=array.array("I", tokens[:8]).tobytes(),
                       ignore_eos=True)

            def counts(found):
                return found["running"], found["queued"], found["paused"]

            wait_until(lambda: counts(service.ps()) == (0, 0, 1), 10, "it is paused")
            ps = service.ps()
            self.assertEqual((counts(ps["models"][0]), ps["requests"]), ((0, 0, 1), 1))
            self.assertIn(b"1 paused", service.good("ps").out)
            client.ask("cancel", 1)
            self.assertEqual(client.last()["k"], "done")
            self.assertEqual(counts(service.ps()), (0, 0, 0))


class Full(unittest.TestCase):
    def test_a_full_service_can_be_seen_and_ended(self):
        path, tokens = with_tokenizer()
        packed = array.array("I", tokens[:8]).tobytes()
        service = Service()
        self.addCleanup(service.stop)
        service.good("load", path)
        pid = service.coordinator_pid()
        with RawClient(service) as one, RawClient(service) as two:
            for number in range(192):
                for client in (one, two):
                    client.ask("generate", number, model=str(path), tokens=packed, ignore_eos=True, temp=1.0)
            wait_until(lambda: service.ps()["requests"] == 256, 20, "it is full")
            self.assertIn("full", service.tern("run", path, "--raw", "-n", 1, "hi").err)
            self.assertEqual(service.tern("stop").code, 0)
            wait_until(lambda: not alive(pid), 10, "it ends")


class Files(unittest.TestCase):
    def test_few_loaders_at_one_time(self):
        smallest = min((m[1] for m in models()), key=lambda p: p.stat().st_size)
        service = Service()
        self.addCleanup(service.stop)
        service.good("info", smallest)
        pid = service.coordinator_pid()
        good = [shutil.copy(smallest, service.root / f"{i}.gguf") for i in range(120)]
        bad = [service.root / f"bad{i}.gguf" for i in range(20)] + [service.root] * 20
        for path in bad[:20]:
            path.write_bytes(b"GGUF")
        with RawClient(service) as client:
            for number, path in enumerate(good + bad):
                client.ask("info", number, model=str(path))
            ends, most = {}, 0
            while len(ends) < len(good + bad):
                most = max(most, children(pid))
                while reply := client.receive(5):
                    if reply["k"] != "progress":
                        ends[reply["request"]] = reply["k"]
            self.assertEqual([ends[i] for i in range(len(ends))], ["result"] * 120 + ["error"] * 40)
            self.assertLess(most, 50)
            # What nobody waits for any more makes way.
            for number, path in enumerate(good):
                os.utime(path, (number, number))
                client.ask("tokenize", number, model=str(path), bytes=b"x")
                client.ask("cancel", number)
            client.ask("info", 200, model=str(good[-1]))
            self.assertEqual(client.last(200)["k"], "result")


    def test_nothing_begins_at_the_end(self):
        smallest = min((m[1] for m in models()), key=lambda p: p.stat().st_size)
        service = Service(TERN_LOG_LEVEL="debug")
        self.addCleanup(service.stop)
        service.good("info", smallest)
        pid = service.coordinator_pid()
        with RawClient(service) as client:
            for number in range(60):
                client.ask("load" if number % 2 else "info", number,
                           model=str(shutil.copy(smallest, service.root / f"{number}.gguf")))
            client.ask("stop", 99)
            self.assertEqual(client.last(99)["k"], "result")
        wait_until(lambda: not alive(pid), 10, "it ends")
        self.assertNotIn("started", service.log().split("ending:")[1])


class Descriptors(unittest.TestCase):
    def storm(self, files):
        service = Service()
        self.addCleanup(service.stop)
        daemon = service.start("serve", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (files, files)))
        self.addCleanup(daemon.communicate)
        self.addCleanup(service.stop)
        wait_until(lambda: service.tern("ps").code == 0, 10, "the service answers")
        pid = service.coordinator_pid()
        with contextlib.ExitStack() as held:
            for _ in range(400):
                sock = held.enter_context(socket.socket(socket.AF_UNIX))
                sock.connect(os.path.join(service.env["XDG_RUNTIME_DIR"], "tern", "tern.sock"))
            used = len(os.listdir(f"/proc/{pid}/fd"))
            self.assertLess(used, files - files // 4)
            waiting = service.start("ps", "--json")
            time.sleep(0.3)
        out, err = waiting.communicate(timeout=20)
        self.assertEqual(waiting.returncode, 0, err)
        self.assertEqual(json.loads(out)["coordinator"]["pid"], pid)
        _, path, about = models()[0]
        self.assertEqual(len(service.ids(path, prompts(about)[2], 3)), 3)
        self.assertEqual(service.coordinator_pid(), pid)

    def test_64_files(self):
        self.storm(64)

    def test_256_files(self):
        self.storm(256)


class Unread(unittest.TestCase):
    def test_clients_that_never_read(self):
        """Their replies are bounded, and nobody else's are touched."""
        path, tokens = with_tokenizer()
        with Service() as service:
            service.good("load", path)
            want = service.ids(path, tokens, 8)
            pid = service.coordinator_pid()
            ids = struct.pack("<I", tokens[0]) * (2 * MIB)
            with RawClient(service, identity=b"mute") as mute, \
                    RawClient(service, identity=b"greedy") as greedy:
                for number in range(1, 9):
                    greedy.ask("detokenize", number, model=str(path), tokens=ids)
                before, peak = resident(pid), 0
                for _ in range(12):
                    for number in range(1000):
                        mute.ask("plan", number, model=str(path), format="json")
                    self.assertEqual(service.ids(path, tokens, 8), want)
                    peak = max(peak, resident(pid))
                self.assertLess(peak, before + 200)
                self.assertIn("does not read", service.log())

            def comes_back():
                with RawClient(service, identity=b"mute") as again:
                    again.ask("ping", 5)
                    return again.receive(500) is not None

            # A name is refused as long as the connection that had it before is not known to be gone.
            wait_until(comes_back, 20, "the client may come back")
            self.assertEqual(service.coordinator_pid(), pid)

    def test_texts_that_nobody_reads(self):
        path, _ = with_tokenizer()
        letters = random.Random(1).choices(b"zqxjkvw0123456789#@", k=7 * MIB)  # a token each
        with Service() as service, RawClient(service) as client:
            service.good("load", path)
            pid = service.coordinator_pid()
            before = resident(pid)
            for number in range(4):
                client.ask("tokenize", number, model=str(path), bytes=bytes(letters))
            seen = [cpu_seconds(pid)]
            wait_until(lambda: time.sleep(0.5) or seen.append(cpu_seconds(pid)) or seen[-1] - seen[-2] < 0.1, 60,
                       "all are read")
            self.assertLess(resident(pid), before + 4 * 50)
            while client.receive()["k"] != "tokens":
                pass
            rest = [client.receive() for _ in range(40)]
            self.assertNotIn("opening", [reply.get("text") for reply in rest if reply])

    def test_pings_without_end(self):
        with Service() as service:
            service.good("load", models()[0][1])
            ping = pack({"v": 1, "k": "ping", "request": 1})
            with RawClient(service) as client:
                for _ in range(100000):
                    client.send(ping)
                for _ in range(100000):
                    self.assertEqual(client.receive()["k"], "result")


class Logs(unittest.TestCase):
    def test_a_log_that_nobody_reads(self):
        with Service(TERN_LOG_LEVEL="debug") as service:
            daemon = service.start("serve")
            self.addCleanup(daemon.communicate)
            wait_until(lambda: service.tern("ps").code == 0, 10, "the service answers")
            with RawClient(service) as client:
                for number in range(3000):
                    client.ask("ping", number)
                    self.assertEqual(client.last(number)["k"], "result")
                lines = os.read(daemon.stderr.fileno(), 1 << 20)
                self.assertGreater(len(lines), 60000)
                client.ask("ping", 3000)
                client.last(3000)
                self.assertIn(b"lines lost", os.read(daemon.stderr.fileno(), 1 << 20))
            service.good("stop")

    def test_a_file_that_others_write_too(self):
        with Service() as service:
            service.good("ps", "--json") if service.log() else service.good("info", models()[0][1])
            path = service.root / "shared"
            subprocess.run(["sh", "-c", f'(echo before; "$0" serve; echo after) > "{path}" 2>&1', TERN],
                           env=service.env, timeout=20, check=True)
            lines = path.read_text().splitlines()
            self.assertEqual((lines[0], lines[-1]), ("before", "after"))
            self.assertIn("another", lines[1])


class Loads(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)
        self.path = max((m[1] for m in models()), key=lambda p: p.stat().st_size)

    def pinned(self):
        return [m for m in self.service.ps()["models"] if m.get("pinned")]

    def test_interrupted_load_pins_nothing(self):
        self.service.good("load", models()[0][1])
        self.service.good("unload", models()[0][1])
        for wait in (0, 0.002, 0.005, 0.01, 0.02, 0.04):
            command = self.service.start("load", self.path)
            time.sleep(wait)
            command.send_signal(signal.SIGINT)
            out, _ = command.communicate(timeout=20)
            if command.returncode == 0:
                self.assertIn(b"loaded", out)
                self.service.good("unload", self.path)
            else:
                self.assertIn(command.returncode, (130, -signal.SIGINT))
                wait_until(lambda: not self.service.ps()["models"] or not self.pinned(), 5,
                           "nothing is pinned")
                self.assertEqual(self.pinned(), [])

    def test_unload_and_load_again_and_again(self):
        _, path, about = models()[0]
        want = self.service.ids(path, prompts(about)[2], 4)
        for _ in range(5):
            self.service.good("load", path)
            self.assertEqual(self.service.ids(path, prompts(about)[2], 4), want)
            self.service.good("unload", path)

    def test_load_follows_unload_at_once(self):
        """What the first instance held is free when the second asks; nothing waits for long."""
        self.service.good("load", self.path)
        with RawClient(self.service) as client:
            for number in range(0, 20, 2):
                client.ask("unload", number, model=str(self.path))
                client.ask("load", number + 1, model=str(self.path), pin=True)
                self.assertEqual(client.last(number)["k"], "result")
                reply = client.last(number + 1)
                self.assertEqual(reply["k"], "result", reply)

    def test_a_file_that_is_replaced_takes_over(self):
        """Pin and settings go on; what nobody can ask for any more leaves memory, once those who use it are done."""
        path = self.service.root / "model.gguf"

        def put(model):
            new = self.service.root / "new.gguf"
            new.write_bytes(g.encode(model)[0])
            new.replace(path)

        def run(*options):
            return self.service.good("run", path, "--raw", "-n", 4, "--ignore-eos", "hi", *options).out

        def loaded():
            return [(m["context"], m["precision"], m["pinned"]) for m in self.service.ps()["models"]]
        first, second = g.base(), g.base(kv_heads=2)
        put(second)
        want = run()
        self.service.good("unload", path)
        put(first)
        self.service.good("load", path, "--ctx", 48, "--precision", "high")
        with RawClient(self.service) as client:
            client.ask("generate", 1, model=str(path), tokens=array.array("I", [5, 6, 7]).tobytes(), n=40,
                       ignore_eos=True, ctx=48, precision="high")  # pauses: nobody acknowledges
            self.assertIsNotNone(client.receive())
            put(second)
            self.assertEqual(run("--precision", "fast"), want)
            self.assertIn((48, "fast", True), loaded())
            self.assertEqual(client.last(1)["k"], "done")
        wait_until(lambda: loaded() == [(48, "fast", True)], 10, "the first one is gone")
        put(first)
        path.write_bytes(path.read_bytes()[:-1])
        self.assertEqual(self.service.tern("run", path, "--raw", "hi").code, 3)
        self.assertEqual(loaded(), [(48, "fast", True)])  # not for a file that cannot take its place


if __name__ == "__main__":
    unittest.main()
