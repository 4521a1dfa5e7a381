"""Messages that no honest client sends, straight to the service's sockets: each is refused or
ignored, and nobody else notices."""
import random
import socket
import struct
import time
import unittest

from harness import wait_until
from raw_client import Packed, RawClient, RawTest, pack


class Messages(RawTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pid = cls.service.coordinator_pid()

    def tearDown(self):
        self.assertEqual(self.service.ids(self.model, self.tokens, 8), self.want)
        self.assertEqual(self.service.coordinator_pid(), self.pid)
        self.assertEqual(self.service.worker()["restarts"], 0)
        wait_until(lambda: not any(m["requests"] for m in self.service.ps()["models"]), 3,
                   "no request left")

    def refused(self, client, data, mentions=""):
        client.send(data)
        reply = client.receive()
        self.assertIsNotNone(reply, data[:80])
        self.assertEqual(reply["k"], "error", reply)
        self.assertIn(reply["status"], (2, 3), reply)
        self.assertIn(mentions, reply["text"])

    def test_random_bytes(self):
        chance = random.Random(1)
        with RawClient(self.service) as client:
            for length in [0, 1, 2, 3] + [chance.randrange(1, 400) for _ in range(500)]:
                self.refused(client, chance.randbytes(length))

    def test_damaged_messages(self):
        chance = random.Random(2)
        good = pack({"v": 1, "k": "tokenize", "request": 1, "model": self.model, "bytes": b"hi"})
        with RawClient(self.service) as client:
            for cut in range(len(good)):
                self.refused(client, good[:cut])
            for _ in range(500):
                data = bytearray(good)
                for _ in range(1 + chance.randrange(3)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                client.send(bytes(data))
            client.ask("ping", 77)
            self.assertEqual(client.last(77)["k"], "result")

    def test_absurd_shapes(self):
        head = {"v": 1, "k": "ping", "request": 1}
        deep = b"\x91" * 200000 + b"\xc0"
        with RawClient(self.service) as client:
            for data in (pack(None), pack(5), pack("ping"), pack([]), pack([head]), pack({}),
                         b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff",
                         b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\xc1", deep,
                         b"\x81\xa1v" + deep, b"\x81" * 100000,
                         pack({**head, **{f"x{i}": i for i in range(70000)}}),
                         pack({**head, "nothing": 1}), pack({**head, "request": -1}),
                         pack({**head, "request": "1"}), pack({**head, "v": 2}),
                         pack({**head, "k": "fly"}), pack({**head, "k": ""}),
                         pack({**head, "k": 3}), pack({**head, "model": "a\0b"}),
                         pack({**head, "model": Packed(b"\xa2\xff\xfe")}),
                         pack({**head, "model": "x" * 5000}), pack({**head, "threads": 513}),
                         pack({**head, "temp": "hot"}), pack({**head, "n": 1 << 40}),
                         pack(head) + b"\0", pack({"v": 1, "k": "ping"}),
                         pack({7: 1, **head}),
                         b"\x84\xa1v\x01\xa1k\xa4ping\xa7request\x01\xa7request\x02"):
                self.refused(client, data)

    def test_messages_of_others(self):
        """What workers and loaders say, and what the service says itself."""
        with RawClient(self.service) as client:
            for kind in ("hello", "bind", "bound", "release", "released", "quit", "fault", "catalog",
                         "fill", "filled", "progress", "tokens", "rows", "result", "done", "error"):
                self.refused(client, pack({"v": 1, "k": kind, "request": 9, "plan": 1}), kind)

    def test_fields_that_make_no_sense(self):
        base = {"v": 1, "k": "generate", "request": 1, "model": self.model, "tokens": self.packed,
                "n": 2}
        vocabulary = 1 << 22
        with RawClient(self.service) as client:
            for fields in ({"tokens": self.packed[:-1]}, {"tokens": b""},
                           {"tokens": struct.pack("<I", vocabulary)},
                           {"tokens": b"\xff" * 4}, {"temp": float("nan")},
                           {"temp": -1.0}, {"temp": float("inf")}, {"temp": 1e300},
                           {"tier": "sse9"}, {"precision": "low"}, {"kv": "q9"}, {"model": ""},
                           {"model": "relative"}, {"model": "/no/such"}, {"model": "/dev/zero"}):
                with self.subTest(fields=str(fields)[:60]):
                    client.send(pack({**base, **fields}))
                    reply = client.last()
                    self.assertEqual(reply["k"], "error", reply)
                    self.assertIn(reply["status"], (2, 3), reply)
            for context in (1 << 40, (1 << 63), (1 << 64) - 1):
                client.send(pack({**base, "ctx": context}))
                self.assertEqual(client.last().get("status"), 4)
            client.send(pack({"v": 1, "k": "generate", "request": 1, "model": self.model}))
            self.assertEqual(client.last()["status"], 2)

    def test_fields_that_are_missing(self):
        """Every kind with each of its fields left out, and with none: an answer each, at once."""
        fields = {"model": self.model, "tokens": self.packed[:8], "n": 1, "bytes": b"x", "ctx": 64,
                  "format": "json", "pin": False, "count": 1}
        kinds = ("ping", "load", "ps", "generate", "logits", "tokenize", "detokenize", "info",
                 "plan", "unload")
        with RawClient(self.service) as client:
            number = 100
            for kind in kinds:
                for left in ("", *fields):
                    number += 1
                    client.ask(kind, number, **{k: v for k, v in fields.items() if k != left})
                    self.assertIn(client.last(number)["k"], ("done", "error", "result"))
                number += 1
                client.ask(kind, number)
                self.assertEqual(client.last(number)["k"],
                                 "result" if kind in ("ping", "ps") else "error", kind)
            for kind in ("ack", "cancel"):
                client.ask(kind, 1)
                client.send(pack({"v": 1, "k": kind}))

    def test_replays(self):
        """Acknowledgements and cancels of nothing, of others, too many, too late."""
        with RawClient(self.service) as client, RawClient(self.service) as other:
            for count in (0, 1, 1 << 32, (1 << 64) - 1):
                for request in (0, 1, (1 << 64) - 1):
                    client.ask("ack", request, count=count)
                    client.ask("cancel", request)
            client.ask("generate", 5, model=self.model, tokens=self.packed, n=40, ignore_eos=True)
            for _ in range(200):
                other.ask("cancel", 5)
                other.ask("ack", 5, count=1 << 60)
                client.ask("ack", 5, count=1 << 60)
            self.assertEqual(client.last(5)["reason"], "length")
            for _ in range(3):
                client.ask("cancel", 5)
            client.ask("generate", 6, model=self.model, tokens=self.packed, n=100000,
                       ignore_eos=True, temp=1.0)
            for _ in range(50):
                client.ask("cancel", 6)
            self.assertIn(client.last(6)["reason"], ("cancelled", "length"))
            client.ask("ping", 7)
            self.assertEqual(client.last(7)["k"], "result")

    def test_same_number_twice(self):
        with RawClient(self.service) as client:
            client.ask("generate", 5, model=self.model, tokens=self.packed, n=60, ignore_eos=True,
                       temp=1.0)
            client.ask("ping", 5)
            replies = [client.last(5) for _ in range(2)]
            self.assertEqual(sorted(r["k"] for r in replies), ["done", "error"])

    def test_many_frames(self):
        with RawClient(self.service) as client:
            for frames in (2, 3, 1000):
                for i in range(frames):
                    client.send(pack({"v": 1, "k": "ping", "request": 1}), more=i < frames - 1)
                self.assertEqual(client.receive()["k"], "error")
            client.send(b"", more=True)
            client.send(pack({"v": 1, "k": "ping", "request": 1}))
            self.assertEqual(client.receive()["k"], "error")

    def test_more_requests_than_fit(self):
        with RawClient(self.service) as client:
            for number in range(1, 401):
                client.ask("generate", number, model=self.model, tokens=self.packed[:12], n=1,
                           ignore_eos=True)
            ends = {}
            deadline = time.monotonic() + 60
            while len(ends) < 400 and time.monotonic() < deadline:
                reply = client.receive(20000)
                self.assertIsNotNone(reply)
                if reply["k"] in ("done", "error"):
                    ends[reply["request"]] = reply
                else:
                    client.ask("ack", reply["request"], count=1)
            self.assertEqual(len(ends), 400)
            kinds = [r["k"] for r in ends.values()]
            self.assertGreaterEqual(kinds.count("done"), 192)
            for reply in ends.values():
                if reply["k"] == "error":
                    self.assertIn("requests of this client are in work", reply["text"])

    def test_large_messages(self):
        with RawClient(self.service) as client:
            for number in range(1, 13):
                client.ask("tokenize", number, model=self.model, bytes=b"word " * (6 << 20))
            for number in range(1, 13):
                reply = client.receive(60000)
                while reply is not None and reply["k"] not in ("done", "error"):
                    client.ask("ack", reply["request"], count=1)
                    reply = client.receive(60000)
                self.assertIsNotNone(reply)

    def test_reader_that_acknowledges_nothing(self):
        """It is paused, and costs the others nothing."""
        with RawClient(self.service) as client:
            client.ask("generate", 5, model=self.model, tokens=self.packed[:20], n=100000,
                       ignore_eos=True, temp=1.0)
            time.sleep(1)
            self.assertEqual(self.service.ids(self.model, self.tokens, 8), self.want)
            replies = 0
            while client.receive(500) is not None:
                replies += 1
            self.assertLessEqual(replies, 65)
            client.ask("cancel", 5)
            self.assertEqual(client.last(5)["k"], "done")

    def test_clients_of_one_name(self):
        with RawClient(self.service, identity=b"same") as one, \
                RawClient(self.service, identity=b"same") as two:
            one.ask("ping", 1)
            self.assertEqual(one.last(1)["k"], "result")
            two.ask("ping", 1)
            two.receive(300)
            one.ask("ping", 2)
            self.assertEqual(one.last(2)["k"], "result")

    def test_strangers_on_the_worker_socket(self):
        chance = random.Random(3)
        with RawClient(self.service, "control.sock") as client:
            for kind in ("hello", "bound", "released", "fault", "quit", "generate", "stop"):
                for plan in (0, 1, 2, 4294967295):
                    client.send(pack({"v": 1, "k": kind, "plan": plan, "incarnation": 1,
                                      "secret": bytes(16), "pid": 1, "status": 3, "text": "x"}))
            for _ in range(300):
                client.send(chance.randbytes(chance.randrange(200)))
            client.send(b"", more=True)
            client.send(b"x")
            self.assertIsNone(client.receive(200))

    def test_garbage_instead_of_zeromq(self):
        chance = random.Random(4)
        for name in ("tern.sock", "control.sock"):
            path = self.service.env["XDG_RUNTIME_DIR"] + "/tern/" + name
            held = []
            for i in range(100):
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(path)
                if i % 3:
                    sock.send(chance.randbytes(100))
                held.append(sock)
            self.assertEqual(self.service.ids(self.model, self.tokens, 8), self.want)
            for sock in held:
                sock.close()


if __name__ == "__main__":
    unittest.main()
